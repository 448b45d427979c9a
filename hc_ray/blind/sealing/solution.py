"""Runs a task's own ``solution/solve.sh``."""

import asyncio
import os
from pathlib import Path, PurePosixPath

from hc_ray.blind.grading import verify
from hc_ray.blind.sealing.kept import keep
from hc_ray.blind.sealing.variables import resolve_templates
from hc_ray.blind.sealing.vault import VerifierSpec, sealed_files
from hc_ray.domain.errors import DatasetError
from hc_ray.domain.filetree import pack, unpack
from hc_ray.domain.ports import Sandbox
from hc_ray.domain.task import Task

DEFAULT_SECONDS = 900.0
"""Time limit of a solution if its task has no ``[agent] timeout_sec``."""
FOLDER = "/solution"
"""Harbor's folder for the reference; a task may also want results there."""


async def run_solution(
    sandbox: Sandbox, task: Task, spec: VerifierSpec, sealed_root: Path, kept: Path | None = None
) -> str:
    """Run it; answers how it ended. That decides nothing: the tests do. Its own files stay where they are: see
    ``without_solution``. ``kept``: a file that takes what it prints. Raises ``DatasetError`` where there is
    none or variables of the host are missing, ``VerifierError`` where sealed files are."""
    files = await asyncio.to_thread(sealed_files, sealed_root, task.digest, "solution")
    if "solve.sh" not in files:
        raise DatasetError(f"{task.name}: it has no reference solution (solution/solve.sh)")
    try:
        env = resolve_templates(spec.solution_env, os.environ)
    except DatasetError as error:
        raise DatasetError(f"{task.name}: the reference solution {error}") from None
    await verify.put_files(sandbox, FOLDER, files)
    script, content = f"{FOLDER}/solve.sh", files["solve.sh"][0]
    seconds = task.agent_timeout_sec or DEFAULT_SECONDS
    done = await sandbox.exec(verify.shell_command(script, content, bash=True), timeout=seconds, env=env)
    if done.exit_code == 127 and (await sandbox.exec(["sh", "-c", "command -v bash"], timeout=60)).exit_code != 0:
        done = await sandbox.exec(verify.shell_command(script, content, bash=False), timeout=seconds, env=env)
    if kept is not None:
        await asyncio.to_thread(keep, kept, done.stdout + done.stderr)
    return f"no end within {seconds:g} s" if done.timed_out else f"exit status {done.exit_code}"


async def without_solution(tar: bytes, task: Task, sealed_root: Path) -> bytes:
    """What a reference has changed, without the files of its own that were put there for it."""
    files = await asyncio.to_thread(sealed_files, sealed_root, task.digest, "solution")
    return await asyncio.to_thread(_without, tar, {f"{FOLDER}/{path}" for path in files})


def _without(tar: bytes, own: set[str]) -> bytes:
    change = unpack(tar)
    others = [one.path for one in change.members if one.path not in own and one.kind != "folder"]
    own |= {str(above) for path in own for above in PurePosixPath(path).parents}
    own -= {str(above) for path in others for above in PurePosixPath(path).parents}
    return pack([one for one in change.members if one.path not in own], change.deleted).tar
