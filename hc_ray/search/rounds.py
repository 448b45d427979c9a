"""The rounds of ``hc``: the thin shell around ``policy``. Ask, run, select, decide."""

from collections.abc import Sequence

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.events import SubtaskChange
from hc_ray.search.evaluation import Evaluation
from hc_ray.search.policy import Decision, decide
from hc_ray.search.policy_state import PolicyState
from hc_ray.search.schedule import Slot, Told
from hc_ray.search.search import Search


class Rounds:
    """One stretch of a search: up to the first submission, or between two."""

    def __init__(self, search: Search, *, told: Told = "") -> None:
        """``told``: what every second fresh candidate is told from the beginning."""
        self.search, self.config = search, search.config
        self._told = told
        self._policy_state = PolicyState(search)
        self._evaluation = Evaluation(search)

    async def run(self) -> None:
        """Until the best is clearly good or nothing is left to spend."""
        search = self.search
        decision = self._decide()
        while decision.samples:
            made = await self._made(self._slots(decision))
            if not made:
                decision = self._decide(affordable=0)
                continue
            await self._evaluation.run(made)
            search.choose(self.config.selector)
            if search.parts is not None:
                search.parts.attempt()
            decision = self._decide()
        search.stop_reason = decision.rule

    def _decide(self, *, affordable: int | None = None) -> Decision:
        """Decide, and journal the decision with all that it rests on. Where a part of the work has ended, the next
        one begins, and what to do in it is decided at the same barrier."""
        while True:
            state = self._policy_state.state(affordable=affordable)
            decision = decide(state)
            self.search.journal("decide", state=state.model_dump(mode="json"), **decision.model_dump(mode="json"))
            if decision.action != "advance":
                return decision
            self._advance(completed=state.checkpoint)

    def _advance(self, *, completed: bool) -> None:
        search = self.search
        if search.parts is None:
            return
        ended = search.parts.advance(search.turns, completed=completed)
        search.context.events.emit(SubtaskChange(ended=ended.name, status="completed" if completed else "failed",
                                         turns=ended.turns, subtask=search.subtask))  # fmt: skip

    def _slots(self, decision: Decision) -> tuple[Slot, ...]:
        """The next round. At most a third of it repairs candidates; a new start repairs none."""
        search = self.search
        told = self._told
        if decision.fresh:
            self._policy_state.begin_anew()
            told = "tried"
        to_repair: Sequence[Candidate] = ()
        if not decision.fresh and search.selection is not None:
            to_repair = self._policy_state.repairable(max(1, decision.samples // 3))
        return search.context.schedule.round(number=search.round + 1, count=decision.samples, begin=search.pool.fresh,
                                             next_lineage=len(search.pool), to_repair=to_repair,
                                             told=told)  # fmt: skip

    async def _made(self, slots: Sequence[Slot]) -> tuple[Candidate, ...]:
        """Candidates of as many of the slots as can be paid for."""
        asked = await self.search.payable(slots)
        return await self.search.ask(asked) if asked else ()
