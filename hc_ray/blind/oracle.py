"""The reference solution: what the ``oracle`` agent hands in, and the control that a task must pass before a fail of it
is believed."""

import asyncio
import os
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from hc_ray.blind.reading import resolve_templates
from hc_ray.blind.vault import load_spec, sealed_files
from hc_ray.blind.verdict import Verdict
from hc_ray.blind.verify import grade, put_files, sandbox_name, shell_command
from hc_ray.candidate import Submission
from hc_ray.errors import DatasetError, SandboxError, VerifierError
from hc_ray.ports import SandboxPlace
from hc_ray.task import Task
from hc_ray.value import digest_of

DEFAULT_SECONDS = 900.0
"""The time of a solution whose task names no ``[agent] timeout_sec``."""


async def reference(task: Task, *, sealed_root: Path, place: SandboxPlace, trial: str = "oracle") -> Submission:
    """What ``solution/solve.sh`` changes in a fresh sandbox. Its exit code is not looked at: the tests decide.
    Raises ``VerifierError`` when the task has no solution or sandbox or sealed files fail."""
    spec = load_spec(sealed_root, task.digest)
    files = await asyncio.to_thread(sealed_files, sealed_root, task.digest, "solution")
    if "solve.sh" not in files:
        raise VerifierError("the task has no solution/solve.sh")
    try:
        env = resolve_templates(spec.solution_env, os.environ)
    except DatasetError as error:
        raise VerifierError(f"the solution of this task {error}") from None
    network = task.environment.network in ("public", "allowlist")
    try:
        sandbox = await place.create(task, sandbox_name("oracle", task), network=network)
        try:
            await put_files(sandbox, "/solution", files)
            has_bash = (await sandbox.exec(["sh", "-c", "command -v bash"], timeout=60)).exit_code == 0
            command = shell_command("/solution/solve.sh", files["solve.sh"][0], bash=has_bash)
            await sandbox.exec(command, timeout=task.agent_timeout_sec or DEFAULT_SECONDS, env=env)
            await sandbox.exec(["rm", "-rf", "/solution"], timeout=60, cwd="/")
            difference = await sandbox.difference()
        finally:
            await sandbox.close()
    except (SandboxError, ValueError) as error:
        raise VerifierError(f"the reference solution could not be run: {error}") from error
    return make_submission(task, difference.tar, trial)


def make_submission(task: Task, tar: bytes, trial: str) -> Submission:
    """A submission of this tar."""
    digest = sha256(tar).hexdigest()
    name = digest_of({"trial": trial, "task": task.digest, "tar": digest})
    return Submission(id=name[:16], trial=trial, task_digest=task.digest, tar=tar, digest=digest)


async def control(
    task: Task, *, sealed_root: Path, place: SandboxPlace, cache: Path, mode: Literal["isolated"] = "isolated"
) -> Verdict:
    """The verdict on the task's own reference: unless it passed, a fail of the task says nothing and is unscored.

    Run once per public digest, sealed digest, mode and kind of place; a pass is kept in ``cache``. A fail is not: a
    busy machine can make a reference late, and the next sweep looks again. ``passed`` is None, with cause
    ``no_reference``, for a task that has none. Raises ``VerifierError`` for machinery."""
    spec = load_spec(sealed_root, task.digest)
    kind = type(place).__name__
    path = cache / f"{digest_of([task.digest, spec.sealed_digest, mode, kind])}.json"
    try:
        return Verdict.model_validate_json(await asyncio.to_thread(path.read_bytes))
    except (OSError, ValidationError):
        pass
    if spec.has_solution:
        submission = await reference(task, sealed_root=sealed_root, place=place)
        verdict = await grade(task, submission, sealed_root=sealed_root, place=place, mode=mode)
    else:
        digests = {"task_digest": task.digest, "sealed_digest": spec.sealed_digest}
        verdict = Verdict(passed=None, cause="no_reference", mode=mode, **digests)
    if verdict.passed:
        await asyncio.to_thread(_write, path, verdict)
    return verdict


def _write(path: Path, verdict: Verdict) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    new.write_text(verdict.model_dump_json())
    new.replace(path)
