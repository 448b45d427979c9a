"""Runs a task's own ``solution/solve.sh``."""

import asyncio
import os
from pathlib import Path

from hc_ray.blind.grading import verify
from hc_ray.blind.sealing.variables import resolve_templates
from hc_ray.blind.sealing.vault import VerifierSpec, sealed_files
from hc_ray.domain.errors import DatasetError
from hc_ray.domain.ports import Sandbox
from hc_ray.domain.task import Task

DEFAULT_SECONDS = 900.0
"""The time of a solution whose task names no ``[agent] timeout_sec``."""
_CLEAN = '"$@"; ended=$?; rm -rf /solution; exit $ended'


async def run_solution(sandbox: Sandbox, task: Task, spec: VerifierSpec, sealed_root: Path) -> str:
    """Run it, and remove it from the sandbox; answers how it ended. That decides nothing: the tests do. Raises
    ``DatasetError`` where there is none or variables of the host are missing, ``VerifierError`` where sealed files
    are."""
    files = await asyncio.to_thread(sealed_files, sealed_root, task.digest, "solution")
    if "solve.sh" not in files:
        raise DatasetError(f"{task.name}: it has no reference solution (solution/solve.sh)")
    try:
        env = resolve_templates(spec.solution_env, os.environ)
    except DatasetError as error:
        raise DatasetError(f"{task.name}: the reference solution {error}") from None
    await verify.put_files(sandbox, "/solution", files)
    # One command for all where it can be: each costs the start of a process or two.
    command = verify.shell_command("/solution/solve.sh", files["solve.sh"][0], bash=True)
    seconds = task.agent_timeout_sec or DEFAULT_SECONDS
    done = await sandbox.exec(["bash", "-c", _CLEAN, "bash", *command], timeout=seconds, env=env)
    if done.exit_code != 0:
        left = done.exit_code == 127 and await sandbox.exec(["test", "-e", "/solution"], timeout=60, cwd="/")
        if left and left.exit_code == 0:  # there is no bash
            command = verify.shell_command("/solution/solve.sh", files["solve.sh"][0], bash=False)
            done = await sandbox.exec(command, timeout=seconds, env=env)
        await sandbox.exec(["rm", "-rf", "/solution"], timeout=60, cwd="/")
    return f"no end within {seconds:g} s" if done.timed_out else f"exit status {done.exit_code}"
