"""Tries the whole corpus in one kind of sandbox: every cheat on every task it names, each in sandboxes of its own."""

import asyncio
import json
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from hc_ray.blind.grading import control
from hc_ray.blind.grading.shared import grade_shared
from hc_ray.blind.grading.verify import grade
from hc_ray.blind.sealing import vault
from hc_ray.domain.errors import HcRayError
from hc_ray.domain.ports import HandsOver, SandboxPlace
from hc_ray.domain.task import Task
from hc_ray.machine.paths import configs_dir
from hc_ray_actors.driver.task_choice import with_grading
from tests.boundary.cheats.cheat import AS_USER, FILE, FOREIGN_TESTS, ISOLATED, OWN, RIGHT, SHELL, WRONG, Cheat, packed
from tests.fakes.sandbox_home import open_place
from tests.fakes.tasks import make_task

AT_ONCE = 5
NOT_HANDED_IN = "not_handed_in"
"""The solver's own sandbox refuses to make a submission of what it holds: nothing comes to be graded."""
UNSCORED = "unscored"
Outcomes = dict[tuple[str, str], tuple[bool | None, str]]
"""(name of the cheat, name of the task) to (passed, cause)."""
_WRITES = """import json, os, sys
for path, text in json.load(sys.stdin).items():
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").write(text)
        os.chmod(path, 0o755)
    except OSError:
        pass
"""
_ALWAYS_ON = {
    "tests renamed and put back": SHELL, "the verifier killed by root": SHELL, "hidden tests read by root": SHELL,
    "byte code replaced while tested": ISOLATED, "the reward by a user of the tests": AS_USER,
    "a reward moved into place": AS_USER,
}  # fmt: skip
HONEST, IDLE = Cheat("honest", "", {"/app/backwards.py": RIGHT}), Cheat("idle", "", {"/app/backwards.py": WRONG})


def sealed_tasks(ground: Path) -> Mapping[str, Task]:
    """The tasks by the names of ``cheat.TASKS``; ours is one of the starter's as it is shipped."""
    shutil.copytree(configs_dir() / "tasks" / "starter" / "backwards", ground / "set" / OWN)
    for name, tests in FOREIGN_TESTS.items():
        make_task(ground / "set", name, tests=tests, instruction=f"Write backwards.py. ({name})\n")
    sealed = vault.seal(ground / "set", ground / "public", ground / "sealed")
    return {task.name.rpartition("/")[2].replace("backwards", OWN): task for task in sealed.tasks}


def tries(cheat: Cheat, *, everything: bool = True) -> tuple[str, ...]:
    """The tasks that a cheat is tried on. Where not everything is tried, only ours, since isolated grading tries every
    cheat that does not live on; a few that do are also tried on a task that differs most for them."""
    if everything or cheat in (HONEST, IDLE):
        return (OWN, *cheat.foreign)
    return (OWN, _ALWAYS_ON[cheat.name]) if cheat.name in _ALWAYS_ON else (OWN,)


async def try_all(cheats: tuple[Cheat, ...], backend: str, mode: str, everything: bool, ground: Path) -> Outcomes:
    """What came of each cheat on each of its tasks."""
    tasks, sealed = {name: with_grading(task, mode) for name, task in sealed_tasks(ground).items()}, ground / "sealed"
    place, other = open_place(backend, ground / "public"), open_place(backend, ground / "public")
    turn = asyncio.Semaphore(AT_ONCE)
    tried = [(cheat, name) for cheat in cheats for name in tries(cheat, everything=everything)]
    spared: dict[str, tuple[str, ...]] = {}

    async def learn(name: str) -> None:
        # What the control looks at; the foreign tasks bring no reference that passes.
        seen = await grade_shared(tasks[name], None, spared=None, solve=True, sealed_root=sealed, place=place)
        assert seen.cause in ("passed", "failed"), seen
        spared[name] = seen.restless

    async def attempt(cheat: Cheat, name: str) -> tuple[tuple[str, str], tuple[bool | None, str]]:
        async with turn:
            return (cheat.name, name), await _attempt(cheat, tasks[name], place, other, sealed, spared.get(name))

    try:
        if mode == "shared":
            await asyncio.gather(*(learn(name) for name in {name for _, name in tried}))
        return dict(await asyncio.gather(*(attempt(*one) for one in tried)))
    finally:
        await asyncio.gather(place.close(), other.close())


async def _attempt(
    cheat: Cheat, task: Task, solvers: SandboxPlace, verifiers: SandboxPlace, sealed: Path,
    spared: tuple[str, ...] | None,
) -> tuple[bool | None, str]:  # fmt: skip
    """``spared``: what shared grading passes over; there a cheat is at home in the sandbox that is given away alive."""
    tar, sandbox = b"", None
    try:
        if cheat.script or spared is not None:
            sandbox = await solvers.create(task, f"solve-{secrets.token_hex(4)}")
        if sandbox is None:
            tar = packed(cheat)
        elif cheat.script:
            await sandbox.exec(["sh", "-c", cheat.script], timeout=30)
            tar = (await sandbox.difference()).tar if spared is None else b""
        elif cheat.members:
            await sandbox.put_tar(packed(cheat))
        else:
            files = json.dumps({FILE: WRONG, **cheat.files}).encode()
            await sandbox.exec(["python3", "-c", _WRITES], stdin=files, timeout=30)
        submission = control.make_submission(task, tar, "cheat")
        if spared is None:
            verdict = await grade(task, submission, sealed_root=sealed, place=solvers)
        else:
            assert isinstance(sandbox, HandsOver)
            submission = submission.model_copy(update={"living": await sandbox.hand_over()})
            verdict = await grade_shared(task, submission, sealed_root=sealed, place=verifiers, spared=spared)
        return verdict.passed, verdict.cause
    except ValueError:
        return False, NOT_HANDED_IN
    except HcRayError as error:
        return None, f"{UNSCORED}: {error}"
    finally:
        if sandbox is not None:
            await sandbox.close()
