"""Runs one of our trials inside a Harbor trial: our loop and suite in Harbor's environment, with results reported to
the agent's folder and context. Knows Harbor only through the objects that it is handed."""

import asyncio
import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from hc_ray.agent.role import Exchange, RoleModel
from hc_ray.domain.candidate import Submission
from hc_ray.domain.config import RoleName, SweepConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.ports import Model
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.domain.suite import Suite
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.trial import TrialKey
from hc_ray.domain.value import changed, digest_of, readable_json
from hc_ray.domain.waiting import Once
from hc_ray.sandboxes.runner_build import ensure_runner
from hc_ray.search.orchestrate import Silence, solve
from hc_ray.search.trial_outcome import TrialOutcome
from hc_ray_actors.driver.configs import PlannedConfig, drafts, settle
from hc_ray_actors.driver.trajectory import trajectory
from hc_ray_actors.driver.trial_record import outcome_metadata
from hc_ray_actors.integrations.harbor_sandbox import HarborPlace
from hc_ray_actors.jobs.answering import answering

Style = Literal["hc", "raw"]

ONE_LINEAGE = {"solver.samples": 1, "solver.max_rounds": 1, "solver.tournament": False, "solver.refinement": 0}
"""Search width needs forks, which Harbor environments lack, and no agent gets a verdict there."""
SECONDS = 86_400.0
"""Default wall time of a search: Harbor ends the agent itself, without telling it when."""
_DIRECT = "the model's context is too small for an agent in Harbor's environment, which needs 4,096 tokens"


def settings(config: SweepConfig) -> SweepConfig:
    """Complete the given settings for the agent. Raises ``ConfigError``."""
    given = config.engine.model_fields_set
    if "kind" not in given or (config.engine.kind == "openai" and not (config.engine.urls and "model" in given)):
        raise ConfigError(
            "name the server and its model: --base-url URL -m openai/MODEL, or `engine` in the config file"
        )
    own: dict[str, Any] = dict(ONE_LINEAGE)
    if "default_timeout_sec" not in config.budget.model_fields_set:
        own["budget.default_timeout_sec"] = SECONDS
    return SweepConfig.model_validate(changed(config.model_dump(exclude_unset=True), own))


class _Roles:
    """The models of a config; probes each server once per process, however many trials it runs."""

    def __init__(self) -> None:
        self._planned = Once[tuple[PlannedConfig, dict[RoleName, RoleModel]]]()
        self._opened = contextlib.AsyncExitStack()
        """Engines, for the lifetime of Harbor's event loop."""

    async def of(self, config: SweepConfig, spent: "Spent") -> tuple[PlannedConfig, dict[RoleName, RoleModel]]:
        key = digest_of(config.model_dump(mode="json"))
        one, roles = await self._planned.obtain(key, lambda: self.look(config))
        return one, {role: spent.counted(role, asked) for role, asked in roles.items()}

    async def look(self, config: SweepConfig) -> tuple[PlannedConfig, dict[RoleName, RoleModel]]:
        ((one,), _) = await asyncio.to_thread(lambda: settle(drafts(config)))
        return one, await self._opened.enter_async_context(answering(one.models, one.seen))


_ROLES = _Roles()


class Spent:
    """Tokens used so far, reported to Harbor continuously, so that an agent that is cut off has reported its use."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.exchanges: list[Exchange] = []

    def counted(self, role: str, asked: RoleModel) -> RoleModel:
        """The role with models that report their tokens here."""
        fellows = tuple(self.counted(role, one) for one in asked.others)
        return replace(asked, model=Counted(asked.model, role, self), others=fellows)

    def add(self, role: str, prompt: Prompt, answer: Completion) -> None:
        self.exchanges.append(Exchange(owner=role, prompt=prompt, completion=answer))
        self._context.n_input_tokens = sum(one.completion.prompt_tokens for one in self.exchanges)
        self._context.n_output_tokens = sum(one.completion.completion_tokens for one in self.exchanges)


class Counted:
    """A model that counts its tokens."""

    def __init__(self, model: Model, role: str, spent: Spent) -> None:
        self._model, self._role, self._spent = model, role, spent

    async def complete(self, prompt: Prompt) -> Completion:
        answer = await self._model.complete(prompt)
        self._spent.add(self._role, prompt, answer)
        return answer

    async def count_tokens(self, text: str) -> int:
        return await self._model.count_tokens(text)


class HarborTrial:
    """The implementation of ``hc_ray.harbor.Agent``."""

    def __init__(self, config: SweepConfig, agent: Style) -> None:
        self.config, self.agent = config, agent
        self._place: HarborPlace | None = None

    async def setup(self, environment: Any) -> None:
        """Upload the suite's runner, and record the environment's initial state."""
        runner = await asyncio.to_thread(ensure_runner)
        self._place = await HarborPlace.opened(environment, runner)

    async def run(self, instruction: str, environment: Any, context: Any, logs: Path) -> None:
        """Solve the task; writes ``trajectory.json`` to ``logs``. If cut off, leaves the lineage's work so far."""
        if self._place is None:  # a further step of the same task
            await self.setup(environment)
        place, self._place, spent = self._place, None, Spent(context)
        assert place is not None
        one, roles = await _ROLES.of(self.config, spent)
        if one.config.solver.agent_style == "direct":
            raise ConfigError(_DIRECT)
        task = _task(instruction, environment, place.workdir)
        budget = one.config.budget
        budget = budget.model_copy(update={"lineage_tokens": budget.lineage_tokens or budget.tokens})
        key = TrialKey(task=environment.environment_name, task_digest=task.digest, agent=self.agent, seed=0,
                       **one.of_trials(self.agent), sandbox="harbor", grading="shared")  # fmt: skip
        outcome: TrialOutcome | None = None

        async def judge(submission: Submission) -> bool:
            return False  # Harbor grades after the agent's end, so no verdict reaches it

        def hand_in(so_far: TrialOutcome) -> None:
            nonlocal outcome
            outcome = so_far

        try:
            await solve(task, agent=self.agent, config=one.config.solver, budget=budget, seed=0, roles=roles,
                        place=place, name=key.name, suites=Once[Suite](), judge=judge, before_judging=hand_in,
                        events=Silence())  # fmt: skip
        finally:
            chosen = outcome and next((each for each in outcome.candidates if each.id == outcome.chosen), None)
            await asyncio.shield(place.leave(handed_in=bool(chosen and chosen.files)))
            told = outcome or TrialOutcome(instruction=instruction, exchanges=tuple(spent.exchanges), stop_reason="cut")
            context.metadata = {"agent": self.agent, "config_hash": one.hash, **outcome_metadata(told)}
            written = trajectory(key, told, roles["solver"].label)
            if outcome is None:
                written["steps"][-1]["message"] = "cut off; the lineage's work so far is graded"
            (logs / "trajectory.json").write_bytes(readable_json(written))


def _task(instruction: str, environment: Any, workdir: str) -> Task:
    """The task as Harbor describes it to an agent. Its folder, which also holds the tests, is not read."""
    network = "none" if environment.network_policy.network_mode.value == "no-network" else "public"
    digest = digest_of({"instruction": instruction, "environment": environment.environment_id})
    made = Environment(workdir=workdir, network=network)
    return Task(name=environment.environment_name, digest=digest, instruction=instruction, environment=made,
                grading="shared")  # fmt: skip


def keep_key(name: str | None, key: str | None) -> None:
    """Put the key that ``--ae`` gives to the agent into this process's environment, where engines look for it."""
    if name and key:
        os.environ.setdefault(name, key)
