"""What a bench needs of one tester: its engine started once, suites with a clock, programs to judge them by."""

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from hc_ray.agent import prompt_formats
from hc_ray.agent.deliverable import deliverable_of
from hc_ray.agent.role import Exchange, RoleModel
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.config import RoleName, SweepConfig
from hc_ray.domain.ports import Model, SandboxPlace
from hc_ray.domain.prompt import Completion, Malformed, Prompt
from hc_ray.domain.seeds import seed_of
from hc_ray.domain.suite import PassMatrix, SelfTest, Suite
from hc_ray.domain.task import Task
from hc_ray.domain.value import digest_of
from hc_ray.selftests.suite_runs import SuiteRuns
from hc_ray.selftests.suite_writer import write_suite
from hc_ray.spec.reading import read_spec
from hc_ray_actors.driver.plan import prepare
from hc_ray_actors.engine import Engine
from hc_ray_actors.sandboxes import RemotePlace, Sandboxes
from hc_ray_actors.trials import RoleSetup, Trials
from tests.fakes.testers import Silence

LADDER = (0.2, 0.5, 0.8)
"""Temperatures of the candidates, in turn."""
ANSWER_TOKENS = 200


class Busy:
    """``ports.Model`` with a clock that runs while any question is with the engine. Answers that come side by side
    are counted once, which a sum of answer times would not do."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._open, self._since = 0, 0.0
        self.seconds = 0.0

    async def complete(self, prompt: Prompt) -> Completion:
        if not self._open:
            self._since = time.monotonic()
        self._open += 1
        try:
            return await self._model.complete(prompt)
        finally:
            self._open -= 1
            if not self._open:
                self.seconds += time.monotonic() - self._since

    async def count_tokens(self, text: str) -> int:
        return await self._model.count_tokens(text)


@dataclass(frozen=True)
class Bench:
    """A tester that answers, a place for sandboxes, and the tasks."""

    plan: Any
    role: RoleModel
    place: SandboxPlace


@contextlib.asynccontextmanager
async def opened(config: SweepConfig) -> AsyncIterator[Bench]:
    """Start the tester's engine, once for all tasks."""
    plan = prepare(config)
    engine_config, profile, digest = plan.models["tester"]
    engine = Engine(engine_config)
    sandboxes = Sandboxes(plan.sandbox, plan.public_root, plan.config.sandbox_slots)
    try:
        endpoint = await engine.start()
        tester: RoleName = "tester"
        setup = RoleSetup(engine=engine_config, endpoints=(endpoint,), profile=profile, digest=digest)
        trials = Trials({tester: setup}, [sandboxes], {}, None)
        try:
            yield Bench(plan=plan, role=trials.role(tester, 0), place=RemotePlace([sandboxes], {}))
        finally:
            await trials.stop()
    finally:
        await engine.stop()
        await sandboxes.close_all()


async def suite_of(bench: Bench, task: Task) -> tuple[Suite, tuple[Exchange, ...], dict[str, float]]:
    """A suite, what was asked for it, and its seconds: of the engine (while any question was with it) and in all."""
    busy, began = Busy(bench.role.model), time.monotonic()
    config = bench.plan.config.solver
    suite, exchanges = await write_suite(task, config=config, seed=0, tester=replace(bench.role, model=busy),
                                         place=bench.place, events=Silence())  # fmt: skip
    return suite, exchanges, {"engine": round(busy.seconds, 2), "wall": round(time.monotonic() - began, 2)}


async def candidates_of(bench: Bench, task: Task, count: int) -> dict[str, dict[str, str]]:
    """Up to ``count`` different programs of the tester's own engine: digest → files. Nothing
    that made the suite comes back here."""
    deliverable = deliverable_of(read_spec(task.instruction, task.environment))
    made: dict[str, dict[str, str]] = {}
    plans = bench.plan.config.solver.plans
    prompts = [
        prompt_formats.ask(task.instruction, deliverable, form=bench.role.profile.form, profile=bench.role.profile,
                           plan=plans[number % len(plans)], temperature=LADDER[number % len(LADDER)], hint="",
                           max_tokens=ANSWER_TOKENS, seed=seed_of(task.digest, 0, "bench", "candidate", number))
        for number in range(count)
    ]  # fmt: skip
    from asyncio import gather

    for prompt, answer in zip(prompts, await gather(*map(bench.role.model.complete, prompts)), strict=True):
        files = prompt_formats.read(answer, prompt, deliverable)
        if not isinstance(files, Malformed) and files:
            made.setdefault(digest_of(files), files)
    return made


async def matrix_of(
    bench: Bench, task: Task, candidates: dict[str, dict[str, str]], tests: tuple[SelfTest, ...]
) -> PassMatrix:
    """Every candidate under every test, all candidates in one run."""
    forks = SandboxForks(bench.place, task, digest_of("matrix"))
    try:
        rows = await SuiteRuns(forks).try_all("bench", candidates, tests)
    finally:
        await forks.close()
    return PassMatrix(candidates=tuple(rows), tests=tuple(test.id for test in tests), cells=tuple(rows.values()))
