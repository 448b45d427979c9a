"""The end states that the auditor makes itself: the reference's, and candidates that do nothing; and the files under
the sealed root in which it keeps what it made and saw."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from hc_ray.blind.grading.control import reference
from hc_ray.blind.sealing.kept import keep
from hc_ray.blind.sealing.vault import load_spec
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.suite import SelfTest
from hc_ray.domain.task import Task
from hc_ray.domain.value import digest_of

FOLDER = "audit"
"""Below the sealed root."""


async def reference_state(task: Task, *, sealed_root: Path, place: SandboxPlace, kept: bool) -> bytes:
    """The reference's end state as a tar, run once in a sandbox; looked up where it was ``kept`` before. Raises
    ``VerifierError``."""
    sealed = load_spec(sealed_root, task.digest).sealed_digest
    path = sealed_root / FOLDER / f"{digest_of([task.digest, sealed, type(place).__name__])}.tar"
    if kept and path.exists():
        return await asyncio.to_thread(path.read_bytes)
    tar = (await reference(task, sealed_root=sealed_root, place=place, trial="audit")).tar
    if kept:
        await asyncio.to_thread(keep, path, tar)
    return tar


def stand_ins(tests: Sequence[SelfTest], kind: Literal["empty", "stub"]) -> dict[str, str]:
    """A candidate that does nothing, for every file that the tests look at: ``empty`` files, or a ``stub`` that can be
    called and answers None, or prints nothing."""
    files: dict[str, str] = {}
    for test in tests:
        subject = test.subject
        if not subject.path:
            continue
        if kind == "stub" and subject.kind == "call" and subject.function:
            defined = f"def {subject.function}(*values, **named):\n    return None\n"
            if defined not in files.get(subject.path, ""):
                files[subject.path] = files.get(subject.path, "") + defined
        elif kind == "stub" and subject.kind == "program" and not files.get(subject.path):
            files[subject.path] = "int main(void) { return 0; }\n"
        else:
            files.setdefault(subject.path, "")
    return files
