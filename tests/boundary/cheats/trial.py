"""Tries the whole corpus in one kind of sandbox: every cheat on every task it names, each in sandboxes of its own."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from hc_ray.blind import oracle, vault
from hc_ray.blind.verify import grade, sandbox_name
from hc_ray.candidate import Submission
from hc_ray.errors import HcRayError
from hc_ray.home import configs_dir
from hc_ray.ports import Sandbox, SandboxPlace
from hc_ray.task import Task
from tests.boundary.cheats.cheat import FOREIGN_TESTS, OWN, RIGHT, WRONG, Cheat, packed
from tests.fakes.sandbox_home import open_place
from tests.fakes.tasks import make_task

AT_ONCE = 5
NOT_HANDED_IN = "not_handed_in"
"""The solver's own sandbox refuses to make a submission of what it holds: nothing comes to be graded."""
UNSCORED = "unscored"
Outcomes = dict[tuple[str, str], tuple[bool | None, str]]
"""(name of the cheat, name of the task) to (passed, cause)."""
HONEST, IDLE = Cheat("honest", "", {"/app/backwards.py": RIGHT}), Cheat("idle", "", {"/app/backwards.py": WRONG})


def sealed_tasks(ground: Path) -> Mapping[str, Task]:
    """The tasks by the names of ``cheat.TASKS``; ours is one of the starter's as it is shipped."""
    shutil.copytree(configs_dir() / "tasks" / "starter" / "backwards", ground / "set" / OWN)
    for name, tests in FOREIGN_TESTS.items():
        make_task(ground / "set", name, tests=tests, instruction=f"Write backwards.py. ({name})\n")
    sealed = vault.seal(ground / "set", ground / "public", ground / "sealed")
    return {task.name.rpartition("/")[2].replace("backwards", OWN): task for task in sealed.tasks}


def tries(cheat: Cheat) -> tuple[str, ...]:
    """The tasks that a cheat is tried on."""
    return (OWN, *cheat.foreign)


async def try_all(cheats: tuple[Cheat, ...], backend: str, ground: Path) -> Outcomes:
    """What came of each cheat on each of its tasks."""
    tasks = sealed_tasks(ground)
    place = open_place(backend, ground / "public")
    turn = asyncio.Semaphore(AT_ONCE)

    async def attempt(cheat: Cheat, name: str) -> tuple[tuple[str, str], tuple[bool | None, str]]:
        async with turn:
            return (cheat.name, name), await _attempt(cheat, tasks[name], place, ground / "sealed")

    try:
        return dict(await asyncio.gather(*(attempt(cheat, name) for cheat in cheats for name in tries(cheat))))
    finally:
        await place.close()


async def _attempt(cheat: Cheat, task: Task, place: SandboxPlace, sealed: Path) -> tuple[bool | None, str]:
    sandbox: Sandbox | None = None
    try:
        if cheat.script:
            sandbox = await place.create(task, sandbox_name("solve", task))
            await sandbox.exec(["sh", "-c", cheat.script], timeout=30)
            tar = (await sandbox.difference()).tar
        else:
            tar = packed(cheat)
        verdict = await grade(task, _submission(task, tar), sealed_root=sealed, place=place)
        return verdict.passed, verdict.cause
    except ValueError:
        return False, NOT_HANDED_IN
    except HcRayError as error:
        return None, f"{UNSCORED}: {error}"
    finally:
        if sandbox is not None:
            await sandbox.close()


def _submission(task: Task, tar: bytes) -> Submission:
    return oracle.make_submission(task, tar, "cheat")
