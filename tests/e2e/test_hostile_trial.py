"""A whole trial of candidates that never end: it stops at its wall time with nothing of them alive, and leaves no
sandbox, though its calls go to actors that go on with what was asked of them when nobody waits any more."""

import asyncio
import hashlib
import time
import uuid

import pytest

from hc_ray.agent.role import RoleModel
from hc_ray.domain.candidate import Submission
from hc_ray.domain.config import BudgetConfig, SolverConfig
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Prompt
from hc_ray.domain.task import Environment, Task
from hc_ray.engines.scripted import ScriptedModel
from hc_ray.search.orchestrate import solve
from hc_ray_actors.remote_place import RemotePlace, Station
from hc_ray_actors.sandboxes import Sandboxes
from hc_ray_actors.suite_shelf import SuiteShelf
from tests.fakes.detached import Detached
from tests.fakes.listeners import Watcher
from tests.fakes.machine import running
from tests.fakes.sandbox_home import BACKENDS, laid_out

WALL = {"bwrap": 5.0, "docker": 9.0}
"""Long enough for a candidate to be running when it ends."""
GRACE = 2.0
INSTRUCTION = "Write `/app/double.py` with `def double(n: int) -> int` that returns twice n. `double(4)` returns `8`."
TEXT = "FROM python:3.11-slim-bookworm\nWORKDIR /app\n"
TASK = Task(
    name="endless",
    digest=hashlib.sha256(b"endless" + INSTRUCTION.encode()).hexdigest(),
    instruction=INSTRUCTION,
    environment=Environment(dockerfile=TEXT, base="python:3.11-slim-bookworm"),
)


@pytest.fixture(scope="module")
def public_root():
    with laid_out(TASK) as root:
        yield root


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_trial_past_its_wall_time_leaves_neither_processes_nor_sandboxes(backend, public_root):
    marker = f"7{uuid.uuid4().int % 10**9}.5"

    asked: list[float] = []
    """When the model was asked: for the first time as the trial's clock begins, which its set-up does not move."""

    def answer(prompt: Prompt) -> str:
        asked.append(time.monotonic())
        body = f"    import subprocess, time\n    subprocess.Popen(['sleep', '{marker}'], start_new_session=True)\n"
        body += "    time.sleep(600)\n"
        return body if prompt.context.endswith("\n") else "\n" + body

    wall = WALL[backend]
    sandboxes = Sandboxes(backend, str(public_root), 2)
    place = RemotePlace({"here": Station(Detached(sandboxes))})
    role = RoleModel(model=ScriptedModel(answer), profile=Profile(form="completion"), digest="m")
    seen: list[float] = []
    """When something of the trial's candidates was alive."""

    async def look() -> None:
        while True:
            began = time.monotonic()
            if await asyncio.to_thread(running, marker):
                seen.append(began)
            await asyncio.sleep(0.1)

    async def judge(submission: Submission) -> bool:
        assert not await asyncio.to_thread(running, marker)
        assert len(sandboxes._open) <= 1 and not sandboxes._making  # the untouched environment
        return False

    await sandboxes.prepare(TASK)
    looking = asyncio.create_task(look())
    try:
        outcome = await solve(
            TASK.model_copy(update={"agent_timeout_sec": wall}), agent="best_of_n", config=SolverConfig(), seed=0,
            budget=BudgetConfig(tokens=20_000), roles={"solver": role, "tester": role}, place=place, name="trial",
            suites=SuiteShelf(), judge=judge, events=Watcher(),
        )  # fmt: skip
    finally:
        looking.cancel()
        await asyncio.gather(*place._closing, return_exceptions=True)
    over = asked[0] + wall
    assert seen and seen[-1] > over - GRACE, "no candidate was running when the wall time came"
    assert outcome.stop_reason == "timeout" and seen[-1] - over < GRACE and running(marker) == 0
    assert not sandboxes._open and not sandboxes._making
    await sandboxes.close_all()
