"""The end states that the auditor makes itself: the reference's, mutants of it, and candidates that do nothing; and the
files under the sealed root in which it keeps what it made and saw."""

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import ValidationError

from hc_ray.blind.auditing.mutants import mutated, with_file
from hc_ray.blind.grading.control import reference
from hc_ray.blind.grading.outputs import keep
from hc_ray.blind.sealing.vault import load_spec
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.suite import SelfTest
from hc_ray.domain.task import Task
from hc_ray.domain.value import Value, digest_of

FOLDER = "audit"
"""Below the sealed root."""

Kept = TypeVar("Kept", bound=Value)


class Specimens(Value):
    """The reference's end state and its mutants; sealed."""

    reference: str
    """Base64 of a tar."""
    mutants: tuple[tuple[str, str], ...] | None
    """Path, the file's text with one fault in it; None where there is no Python."""

    def mutant(self, number: int) -> bytes:
        """The tar of a mutant's end state."""
        path, text = (self.mutants or ())[number]
        return with_file(base64.b64decode(self.reference), path, text)


async def specimens(task: Task, *, sealed_root: Path, place: SandboxPlace, limit: int, keep: bool) -> Specimens:
    """The reference, run once in a sandbox, and at most ``limit`` mutants of it; looked up where they were ``kept``
    before. Raises ``VerifierError``."""
    sealed = load_spec(sealed_root, task.digest).sealed_digest
    what = ["specimens 2", task.digest, sealed, limit, type(place).__name__]
    path = sealed_root / FOLDER / f"{digest_of(what)}.json"
    found = await asyncio.to_thread(read_kept, path, Specimens) if keep else None
    if found is None:
        tar = (await reference(task, sealed_root=sealed_root, place=place, trial="audit")).tar
        made = await asyncio.to_thread(mutated, tar, limit=limit, seed=task.digest)
        found = Specimens(reference=base64.b64encode(tar).decode(), mutants=made)
        if keep:
            await asyncio.to_thread(write_kept, path, found)
    return found


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


def read_kept(path: Path, kind: type[Kept]) -> Kept | None:
    """A value that was kept; None where there is none that can be read."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def write_kept(path: Path, value: Value) -> None:
    """Keep a value, mode 0600; whole or not at all."""
    keep(path, value.model_dump_json().encode())
