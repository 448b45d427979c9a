"""The API for users' own agents, and how such an agent runs in place of ours.

An agent sees a trial only through an ``Attempt``: the instruction, the model within the trial's budget, forks of the
untouched workspace, the model's self-tests. Nothing in it leads to the task's name, its tests or a verdict. It runs in
the trial's process, as ours do: private attributes reveal a name, but no tests, and the driver grades a second
submission only for ``hc``."""

import asyncio
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

from hc_ray.agent.budget import payable
from hc_ray.domain.candidate import Candidate
from hc_ray.domain.errors import HcRayError
from hc_ray.domain.ports import Sandbox
from hc_ray.domain.prompt import Message, Prompt
from hc_ray.domain.suite import Cell, SelfTest
from hc_ray.domain.task import EnvironmentView
from hc_ray.domain.trial import seed_of
from hc_ray.search.pool import candidate_of
from hc_ray.search.selection import Selection
from hc_ray.search.trial import Trial

_OWNER = "own"
"""Owner of exchanges that have not led to a candidate yet."""


class Spent(Exception):
    """The trial's tokens or turns do not suffice for another question. If uncaught, the agent ends with its results so
    far."""


class Agent(ABC):
    """Base class of a user's own agent, instantiated without arguments once per trial."""

    self_tests: ClassVar[bool] = False
    """Whether the tester writes a suite first, as for ``hc``. Its tokens count."""

    @abstractmethod
    async def solve(self, attempt: "Attempt") -> Candidate | None:
        """Work on one task and return the candidate to submit. None means the last choice of ``best``, or else the
        first candidate with a file. An exception ends the agent in the same way."""


class Attempt:
    """One trial, as a user's own agent sees it."""

    def __init__(self, trial: Trial) -> None:
        self._trial, self._search = trial, trial.search
        self._asked = self._answered = self._sampled = self._forks = 0
        self._search.purse.spent_since()  # do not charge the suite to a candidate
        self._asking = asyncio.Lock()

    @property
    def instruction(self) -> str:
        """The task's instruction."""
        return self._search.spec.instruction

    @property
    def environment(self) -> EnvironmentView:
        """A snapshot of the untouched workspace."""
        return self._search.spec.snapshot

    @property
    def seed(self) -> int:
        """The trial's."""
        return self._search.seed

    @property
    def tokens_left(self) -> int:
        """Tokens that the trial may still spend."""
        return self._search.purse.left

    @property
    def seconds_left(self) -> float:
        """Seconds of wall time until the trial ends."""
        return self._search.clock.left

    @property
    def tests(self) -> tuple[SelfTest, ...]:
        """The self-tests, for an agent with ``self_tests``."""
        return self._search.pool.tests

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All candidates so far, in order of creation."""
        return tuple(self._search.pool.candidates)

    async def ask(self, *questions: str | Sequence[Message], **how: Any) -> list[str]:
        """The solver's answers to questions, asked concurrently. ``how``: ``temperature``, ``max_tokens``, ``stop``;
        with ``complete=True`` the model continues each text. Raises ``Spent``."""
        asking, config = self._search.asking, self._trial.config
        complete = how.pop("complete", False)
        how = {"temperature": asking.role.profile.temperature_best_single, "max_tokens": config.max_answer_tokens} | how
        async with self._asking:
            if self._asked + len(questions) > config.max_turns:
                raise Spent("turns")
            asked = []
            for number, question in enumerate(questions, start=self._asked):
                seed = seed_of(self._search.task.digest, self.seed, "solver", _OWNER, number)
                said = (Message(role="user", content=question),) if isinstance(question, str) else tuple(question)
                text = {"text": question} if complete else {"messages": said}
                asked.append(Prompt(role="solver", purpose="candidate", seed=seed, **text, **how))
            if await payable([(asking, prompt) for prompt in asked]) < len(asked):
                raise Spent("tokens")
            self._search.emit_turn()
            self._asked += len(asked)
            self._search.turns += len(asked)
            return [answer.text for answer in await asking.all([(_OWNER, prompt) for prompt in asked])]

    async def sample(self, count: int = 1, *, advice: str = "") -> tuple[Candidate, ...]:
        """Fresh candidates, sampled as our agents do: in the config's style (with ``loop``, one lineage each), with its
        plans, temperatures and seeds. ``advice`` is added to the instruction. Raises ``Spent``."""
        search = self._search
        async with self._asking:
            slots = search.schedule.samples(round=search.round + 1, count=count, begin=self._sampled)
            self._sampled += count
            made = await self._trial.agents.sample(slots, advice=advice)
            self._answered = self._asked
            search.purse.spent_since()
            if not made:
                raise Spent(search.stop_reason or "tokens")
            return made

    async def add(self, files: Mapping[str, str]) -> Candidate:
        """Add a candidate: path (absolute, or relative to the working directory) → text. The questions since the last
        candidate belong to it."""
        search, asking = self._search, self._search.asking
        search.round += 1
        slot = search.schedule.fresh(len(search.pool), round=search.round, slot=0)
        turns, self._answered = max(1, self._asked - self._answered), self._asked
        spent = search.purse.spent_since()
        made = candidate_of(slot, files, search.pool.candidates, turns=turns, **spent)
        asking.exchanges[:] = [one.model_copy(update={"owner": made.id}) if one.owner == _OWNER else one
                               for one in asking.exchanges]  # fmt: skip
        search.pool.candidates.append(made)
        search.entered([slot], [made])
        return made

    def sandbox(self, files: Mapping[str, str] | None = None) -> AbstractAsyncContextManager[Sandbox]:
        """A fork of the untouched workspace with ``files`` (for example a candidate's), for the duration of the
        ``async with``."""
        self._forks += 1
        return self._search.forks.fork(f"{_OWNER}{self._forks}", files or {})

    async def run_tests(self, *candidates: Candidate) -> list[tuple[Cell, ...]]:
        """Run the self-tests on candidates: one row each, in the order of ``tests``; empty for one without files."""
        await self._search.evaluate(candidates)
        return [self._search.pool.rows.get(one.id, ()) for one in candidates]

    def feedback(self, candidate: Candidate) -> tuple[str, ...]:
        """The feedback that ``hc`` would get about the tests that a candidate fails."""
        return self._search.feedback(candidate.id)

    def best(self) -> Candidate | None:
        """The choice of the config's selector: by the self-tests if they can tell, otherwise by agreement."""
        search = self._search
        picked, _ = search.pool.standing(self._trial.config.selector, search.selection)
        search.hold(picked)
        return search.pool.candidate(picked.chosen) if picked.chosen else None


async def work(agent: Agent, name: str, trial: Trial) -> None:
    """Run a user's own agent on a trial. Its exceptions count as its own failures, never as infrastructure's."""
    search, attempt = trial.search, Attempt(trial)
    try:
        chosen = await agent.solve(attempt)
        if chosen is not None and chosen not in search.pool.candidates:
            raise ValueError("solve did not return a candidate of this attempt")
    except Spent as end:
        search.stop_reason = search.stop_reason or str(end)
    except HcRayError:
        raise
    except (Exception, SystemExit) as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        search.stop_reason = "error"
        where = f"{at.filename.rpartition('/')[2]}:{at.lineno}"
        search.notes.append(f"the agent raised {type(error).__name__}: {error} ({where})")
    else:
        search.stop_reason = "finished"
        if chosen is not None:
            if search.suite and chosen.files:
                await search.evaluate([chosen])
            search.selection = Selection(selector=name, chosen=chosen.id, why=f"{name}: returned by the agent")
    search.beat()
