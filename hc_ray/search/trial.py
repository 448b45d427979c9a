"""The parts of a trial around its agent: suite, decomposition, refinement after a failed verdict, and outcome."""

from dataclasses import dataclass

from hc_ray.agent.budget import Asking, Clock, Purse, TimeIsUp, payable
from hc_ray.agent.environment_probe import Looks
from hc_ray.agent.role import Exchange, RoleModel
from hc_ray.domain.config import TestgenConfig
from hc_ray.domain.events import TurnStart
from hc_ray.domain.ports import MakesSandboxes
from hc_ray.domain.prompt import Malformed
from hc_ray.domain.suite import Suite
from hc_ray.domain.trial import seed_of
from hc_ray.domain.waiting import Once
from hc_ray.search import decompose
from hc_ray.search.decompose import Subtask
from hc_ray.search.direct_agents import DirectAgents
from hc_ray.search.loop_agents import LoopAgents
from hc_ray.search.search import Search
from hc_ray.search.selection import judging, progress
from hc_ray.search.trial_outcome import TrialOutcome
from hc_ray.selftests.coverage import least_tested
from hc_ray.selftests.file_suite import FileSuiteWriter
from hc_ray.selftests.suite_writer import SuiteWriter, suite_key, write_suite

_MORE_A_CATEGORY, _MOST_A_CATEGORY = 3, 20
"""Further tests that a refinement allows in categories that the first suite has filled."""


@dataclass(eq=False)
class Trial:
    """One trial, from suite to outcome."""

    search: Search
    tester: RoleModel
    decomposer: RoleModel
    place: MakesSandboxes
    suites: Once[Suite]
    looks: Looks
    parts: tuple[Subtask, ...] = ()
    """The subtasks in the solver's prompt."""

    def __post_init__(self) -> None:
        self.config = self.search.config
        self.agents = (LoopAgents if self.config.agent_style == "loop" else DirectAgents)(self.search)
        self.exchanges: list[Exchange] = []

    async def work(self, agent: str) -> None:
        """Run one of our agents: ``raw``, ``best_of_n`` or ``hc``."""
        if agent == "hc" and self.config.decompose == "model":
            self.parts = await self._parts()
            told = (f"{number}. {part.told}" for number, part in enumerate(self.parts, start=1))
            self.search.division = "\n".join(["The work in parts:", *told])
        await getattr(self.agents, agent)()

    async def write_tests(self) -> None:
        """Get the suite from the cache or write it, before any candidate exists. It has its own time limit; after that,
        there is no suite, but its tokens still count."""
        search, seconds = self.search, self.config.testgen.seconds
        purse = Purse(self.config.testgen.budget_tokens)
        made_here = False

        async def write() -> Suite:
            nonlocal made_here
            made_here = True
            # Other trials may wait for it, so it has its own sandboxes and outlives this trial's deadline.
            suite, exchanges = await write_suite(
                search.task, config=self.config, seed=search.seed, tester=self.tester, place=self.place,
                looks=self.looks, events=search.events, purse=purse,
            )  # fmt: skip
            self.exchanges += exchanges
            return suite

        search.events.emit(TurnStart(turn=0, max_turns=self.config.max_turns, subtask="testgen"))
        writing = self.suites.obtain(suite_key(search.task, self.config, search.seed, self.tester), write)
        try:
            suite = await Clock(seconds, search.clock.queued).bound(writing)
        except TimeIsUp:
            search.notes.append(f"there is no suite: it was not finished within {seconds:g} s")
            search.purse.charge_all_of(purse)
            search.suite = Suite(task_digest=search.task.digest)
            return
        search.journal("suite", key=suite.key, hash=suite.hash, admitted=len(suite.tests), dropped=len(suite.dropped),
                       cached=not made_here)  # fmt: skip
        search.suite, search.pool.tests = suite, suite.tests
        search.purse.charge(suite.prompt_tokens, suite.completion_tokens, suite.engine_seconds)

    async def _parts(self) -> tuple[Subtask, ...]:
        """The decomposer's subtasks, or the generic four if it names none."""
        search = self.search
        seed = seed_of(search.task.digest, search.seed, "decomposer")
        prompt = decompose.ask(search.spec, seed=seed, max_tokens=self.config.max_answer_tokens)
        asking = Asking(self.decomposer, search.purse)
        if not await payable([(asking, prompt)]):
            search.notes.append("the budget does not pay for a decomposition: generic subtasks are used")
            return decompose.GENERIC
        (answer,) = await asking.all([("decompose", prompt)])
        self.exchanges += asking.exchanges
        parts = decompose.read(answer)
        wrong = parts.reason if isinstance(parts, Malformed) else None
        found = decompose.GENERIC if isinstance(parts, Malformed) else parts
        search.journal("decompose", malformed=wrong, parts=[part.model_dump(mode="json") for part in found])
        return found

    async def refine(self) -> None:
        """After a failed verdict: re-read the instruction, add self-tests, and continue with the remaining budget."""
        search = self.search
        place = f"refine{len(search.bits)}"
        left = Purse(min(self.config.testgen.budget_tokens, search.purse.left // 2), outer=search.purse)
        kind = FileSuiteWriter if self.config.testgen.style == "files" else SuiteWriter
        writer = kind(
            search.task,
            search.spec,
            widened(self.config.testgen),
            seed=search.seed,
            asking=Asking(self.tester, left),
            forks=search.forks,
            events=search.events,
            place=place,
            known=search.pool.tests,
        )
        more = await writer.write(place)
        self.exchanges += writer.exchanges
        with search.pool.measured_anew(more.tests):
            await search.evaluate(search.pool.candidates)
        search.missed = least_tested(search.spec, search.pool.tests)
        search.journal("refine", added=[test.id for test in more.tests], missed=list(search.missed),
                       tokens_left=search.purse.left)  # fmt: skip
        await self.agents.again()

    def outcome(self) -> TrialOutcome:
        search = self.search
        matrix = search.pool.matrix()
        self_pass, share = self._self_verdict()
        return TrialOutcome(
            instruction=search.spec.instruction,
            candidates=tuple(search.pool.candidates),
            suite=search.suite,
            matrix=matrix if matrix.tests else None,
            matrix_tests=search.pool.tests,
            selection=search.selection,
            subtasks=self.parts,
            submissions=tuple(submission.digest for submission in search.submissions),
            bits=tuple(search.bits),
            turns=search.turns,
            prompt_tokens=search.purse.prompt_tokens,
            shared_tokens=search.purse.shared_tokens,
            completion_tokens=search.purse.completion_tokens,
            engine_seconds=search.purse.engine_seconds,
            queued_seconds=search.clock.queued(),
            self_pass=self_pass,
            progress=share,
            stop_reason=search.stop_reason,
            unanswered=sum(asking.unanswered for asking in search.askings),
            notes=tuple(search.notes),
            exchanges=(*self.exchanges, *(one for asking in search.askings for one in asking.exchanges)),
            differences=search.forks.differences,
        )

    def _self_verdict(self) -> tuple[bool | None, float | None]:
        """The frozen suite's result for the first submission when it was made. The untouched workspace fails (the gate
        has checked that); without a run the result is unknown."""
        search = self.search
        if search.suite is None or search.first_row is None or not judging(search.suite.tests):
            return None, None
        if not search.first_row:
            return False, 0.0
        row = search.first_row[: len(search.suite.tests)]
        columns = judging(search.suite.tests)
        return all(row[i].outcome == "pass" for i in columns), progress(row, search.suite.tests)


def widened(config: TestgenConfig) -> TestgenConfig:
    """The config with room for more tests in categories that the first suite has filled."""
    most = min(_MOST_A_CATEGORY, config.tests_per_category_max + _MORE_A_CATEGORY)
    return config.model_copy(update={"tests_per_category_max": most})
