"""The agents in the style ``direct``, in which each answer is a candidate. ``raw``: one sample. ``best_of_n``:
independent samples, one picked by agreement. ``hc``: rounds with the suite (ask, run, select, decide), a thin shell
around ``policy``."""

from collections.abc import Sequence

from hc_ray.domain.candidate import Candidate
from hc_ray.search import repair
from hc_ray.search.policy import Decision, State, agreement, decide
from hc_ray.search.schedule import Slot, Told
from hc_ray.search.search import Search
from hc_ray.search.selection import Selection, judging, progress, stated
from hc_ray.selftests.shown_examples import generic_inputs

BATCH = 8
"""Samples per batch of ``best_of_n``."""
INPUTS_PER_RANGE = 3
"""Inputs per range (ordinary, boundary, edge) on which ``best_of_n`` compares behaviour."""


class DirectAgents:
    """Works on one trial. Remembers between rounds when the best candidate last improved."""

    def __init__(self, search: Search) -> None:
        self.search, self.config = search, search.config
        self._began = 0
        """Rounds finished before this phase of the search."""
        self._best: tuple[float, int] = (-1.0, 0)
        self._since = 0

    async def raw(self) -> None:
        """Take one sample, whatever it costs."""
        search = self.search
        slot = search.schedule.fresh(0, round=1, slot=0)
        (made,) = await search.ask([(slot, search.prompt(slot))])
        search.stop_reason = "single sample"
        if made.files:
            search.selection = Selection(selector="mbr", chosen=made.id, why="raw: the only sample")
        search.beat()

    async def best_of_n(self) -> None:
        """Take independent samples while the budget lasts, then pick one by agreement of behaviour."""
        search = self.search
        generic = generic_inputs(search.spec, search.deliverable, count=INPUTS_PER_RANGE)
        numbered = (test.model_copy(update={"id": f"input-{i}"}) for i, test in enumerate(generic, start=1))
        search.pool.tests = tuple(numbered)
        while not search.stop_reason:
            slots = search.schedule.samples(round=search.round + 1, count=BATCH, begin=search.turns)
            if made := await self._asked(slots):
                await search.evaluate(made)
                search.choose("mbr")

    async def hc(self, told: Told = "") -> None:
        """Run rounds with the suite until the best is clearly good or the budget is spent: one phase of a search, up to
        a submission. ``told``: advice for every second fresh candidate."""
        search = self.search
        self._began, self._best, self._since = search.round, (-1.0, 0), len(search.pool)
        decision = self._decide()
        while decision.samples:
            made = await self._asked(self._slots(decision, told))
            if made:
                await search.evaluate(made)
                search.choose(self.config.selector)
            decision = self._decide(affordable=None if made else 0)
        search.stop_reason = decision.rule

    async def again(self) -> None:
        """Run more rounds after a failed verdict."""
        self.search.choose(self.config.selector)
        await self.hc("reread")

    async def sample(self, slots: Sequence[Slot], *, advice: str) -> tuple[Candidate, ...]:
        """Candidates for these slots; none if the budget does not suffice."""
        self.search.division = advice
        return await self._asked(slots)

    async def _asked(self, slots: Sequence[Slot]) -> tuple[Candidate, ...]:
        asked = await self.search.payable(slots)
        return await self.search.ask(asked) if asked else ()

    def _decide(self, *, affordable: int | None = None) -> Decision:
        """Decide, and journal the decision with its inputs."""
        state = self._state(affordable)
        decision = decide(state, self.config)
        self.search.journal("decide", state=state.model_dump(mode="json"), **decision.model_dump(mode="json"))
        return decision

    def _slots(self, decision: Decision, told: Told) -> tuple[Slot, ...]:
        """The slots of the next round. At most a third are repairs; a restart has none."""
        search = self.search
        to_repair: Sequence[Candidate] = ()
        if decision.action == "no_progress":
            self._since = len(search.pool)  # restart the count for patience
            told = "tried"
        elif search.selection is not None:
            rows, tests = search.pool.rows, search.pool.tests
            ranks = {one: repair.worst(rows[one], tests, self.config.feedback) for one in search.order()}
            to_repair = repair.repairable(search.pool.candidates, ranks, limit=self.config.repairs,
                                          count=max(1, decision.samples // 3))  # fmt: skip
        fresh = sum(one.parent is None for one in search.pool.candidates)
        return search.schedule.samples(round=search.round + 1, count=decision.samples, begin=fresh,
                                       to_repair=to_repair, told=told)  # fmt: skip

    def _state(self, affordable: int | None) -> State:
        """The current state for the policy."""
        search, config, pool, selection = self.search, self.config, self.search.pool, self.search.selection
        best = selection.chosen if selection else None
        alike = next((cluster for cluster in selection.clusters if best in cluster), ()) if selection else ()
        columns, known = judging(pool.tests), len(stated(pool.tests))
        failed = {
            one: tuple(pool.tests[i].id for i in columns if row[i].outcome not in ("pass", "skipped"))
            for one, row in pool.rows.items()
        }
        failing = failed[best] if best else ()
        # More agreement is an improvement only if the best fails nothing.
        agreed = 0 if failing else min(len(alike), agreement(known))
        reached = (progress(pool.rows[best], pool.tests), agreed) if best else (-1.0, 0)
        if reached > self._best:
            self._best, self._since = reached, len(pool)
        return State(
            round=search.round - self._began,
            turns_left=max(0, config.max_turns - search.turns),
            affordable=affordable,
            runnable=len(pool.rows),
            best=best,
            failing=failing,
            confidence=selection.confidence if selection else 0.0,
            stated=known,
            alike=len(alike),
            rivals=sum(not tests for one, tests in failed.items() if one not in alike and one != best),
            agreement_needed=search.asking.role.profile.bias_to_agreement,
            idle=len(pool) - self._since,
        )
