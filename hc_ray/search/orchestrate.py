"""One trial, from instruction to verdicts: its single async loop, and the only caller of ports.

``raw``: one sample. ``best_of_n``: independent samples, one picked by agreement on inputs that are not from a suite.
``hc``: suite, rounds of candidates and repairs, selection. All three use the same prompts; only the search differs."""

from collections.abc import Callable, Mapping

from hc_ray.agent.budget import Asking, Clock, Purse, TimeIsUp, wall_seconds
from hc_ray.agent.environment_probe import Looks
from hc_ray.agent.role import RoleModel
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.candidate import Submission
from hc_ray.domain.config import OWN, AgentName, BudgetConfig, RoleName, SolverConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.events import Event
from hc_ray.domain.ports import Events, Judge, MakesSandboxes
from hc_ray.domain.profile import lineage_tokens
from hc_ray.domain.suite import Suite
from hc_ray.domain.task import Task
from hc_ray.domain.value import digest_of
from hc_ray.domain.waiting import Once
from hc_ray.machine import own_code
from hc_ray.search import own
from hc_ray.search.search import Search
from hc_ray.search.trial import Trial
from hc_ray.search.trial_outcome import TrialOutcome
from hc_ray.selftests.suite_writer import write_suite
from hc_ray.spec.reading import read_spec


async def solve(
    task: Task,
    *,
    agent: AgentName,
    config: SolverConfig,
    budget: BudgetConfig,
    seed: int,
    roles: Mapping[RoleName, RoleModel],
    place: MakesSandboxes,
    name: str,
    suites: Once[Suite],
    judge: Judge,
    events: Events,
    before_judging: Callable[[TrialOutcome], None] = lambda so_far: None,
    queued: Callable[[], float] = lambda: 0.0,
    looks: Looks | None = None,
) -> TrialOutcome:
    """Run a trial. ``suites`` and ``looks`` (None: its own) are shared with other trials. ``before_judging`` receives
    the outcome so far before each verdict; ``queued`` returns the seconds that the trial has spent only waiting for an
    engine or a slot. Raises ``InfrastructureError`` for failures outside the sandbox, ``UserError`` for a task or
    config that cannot run; a trial that found nothing submits the untouched workspace."""
    mine: own.Agent | None = own_code.agent_of(agent) if OWN.fullmatch(agent) else None
    if mine is None and agent not in ("raw", "best_of_n", "hc"):
        raise ConfigError(f"agent {agent!r} uses no model; the verifiers run it")
    clock = Clock(wall_seconds(task, budget), queued)
    identity = digest_of({"agent": agent, "config": config.hash, "seed": seed, "budget": budget.model_dump()})
    forks = SandboxForks(place, task, identity)

    async def judged(submission: Submission) -> bool:
        before_judging(trial.outcome())
        return await judge(submission)

    solver, looks = roles["solver"], looks or Looks(place)
    search = Search(
        task=task,
        spec=read_spec(task.instruction, task.environment),
        config=config,
        seed=seed,
        asking=Asking(solver, Purse(budget.tokens)),
        forks=forks,
        judge=judged,
        events=events,
        clock=clock,
        name=name,
        lineage_tokens=lineage_tokens(budget),
    )
    trial = Trial(search, tester=roles.get("tester", solver), decomposer=roles.get("decomposer", solver),
                  place=place, suites=suites, looks=looks)  # fmt: skip
    try:
        with clock.stopped():
            await search.look_around(looks)
            if agent == "hc" or (mine and mine.self_tests):
                await trial.write_tests()
        work = own.work(mine, agent, trial) if mine else trial.work(agent)
        while True:
            try:
                await clock.bound(work)
            except TimeIsUp:  # end the search with its results so far
                search.stop_reason = "timeout"
                search.notes.append(f"the wall time of {clock.seconds:g} s ended the search")
            failed = await search.hand_in() is False
            goes_on = failed and agent == "hc" and len(search.bits) <= config.refinement
            if not goes_on or search.stop_reason in ("tokens", "turns", "timeout"):
                return trial.outcome()
            work = trial.refine()
    finally:
        await forks.close()


async def make_suite(task: Task, *, config: SolverConfig, seed: int, tester: RoleModel, place: MakesSandboxes) -> Suite:
    """Make a suite without a trial, for ``hc-ray testgen``."""
    return (await write_suite(task, config=config, seed=seed, tester=tester, place=place,
                              looks=Looks(place), events=Silence()))[0]  # fmt: skip


class Silence:
    """Discards all events."""

    def emit(self, event: Event) -> None:
        """Do nothing."""
