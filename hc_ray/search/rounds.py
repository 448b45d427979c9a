"""The rounds of ``hc``: the thin shell around ``policy``. Ask, run, select, decide."""

from collections.abc import Sequence

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.suite import Cell
from hc_ray.search import repair
from hc_ray.search.evaluation import evaluate
from hc_ray.search.policy import Decision, State, agreement, decide
from hc_ray.search.schedule import Slot, Told
from hc_ray.search.search import Search
from hc_ray.search.selection import judging, progress, stated


class Rounds:
    """One stretch of a search: up to the first submission, or between two. It remembers, from barrier to barrier, when
    the best last got better. Patience counts candidates, whatever number of actions each took: with one answer a
    candidate, these are the answers."""

    def __init__(self, search: Search, *, told: Told = "") -> None:
        """``told``: what every second fresh candidate is told from the beginning."""
        self.search, self.config = search, search.config
        self._told = told
        self._began = search.round
        """Rounds that were over when this stretch of the search began."""
        self._best: tuple[float, int] = (-1.0, 0)
        self._since = len(search.pool)

    async def run(self) -> None:
        """Until the best is clearly good or nothing is left to spend."""
        search = self.search
        decision = self._decide()
        while decision.samples:
            asked = await search.payable(self._slots(decision))
            if not asked:
                decision = self._decide(affordable=0)
                continue
            await evaluate(search, await search.ask(asked))
            search.choose(self.config.selector)
            decision = self._decide()
        search.stop_reason = decision.rule

    def _decide(self, *, affordable: int | None = None) -> Decision:
        """Decide, and journal the decision with all that it rests on."""
        state = self._state(affordable)
        decision = decide(state)
        self.search.journal("decide", state=state.model_dump(mode="json"), **decision.model_dump(mode="json"))
        return decision

    def _slots(self, decision: Decision) -> tuple[Slot, ...]:
        """The next round. At most a third of it repairs candidates; a new start repairs none."""
        search = self.search
        told = self._told
        if decision.fresh:
            self._since = len(search.pool)  # patience counts from here
            told = "tried"
        to_repair: Sequence[Candidate] = ()
        if not decision.fresh and search.selection is not None:
            to_repair = self._repairable(max(1, decision.samples // 3))
        return search.context.schedule.round(number=search.round + 1, count=decision.samples, begin=search.pool.fresh,
                                             to_repair=to_repair, told=told)  # fmt: skip

    def _state(self, affordable: int | None) -> State:
        """What is known now."""
        search, config = self.search, self.config
        selection = search.selection
        best = selection.chosen if selection else None
        alike, known, failing = _alike(search, best), len(stated(search.pool.tests)), self._failing(best)
        # Agreement betters a best only where nothing else is wrong with it.
        agreed = 0 if failing else min(alike, agreement(known))
        reached = (progress(search.pool.rows[best], search.pool.tests), agreed) if best else (-1.0, 0)
        if reached > self._best:
            self._best, self._since = reached, len(search.pool)
        return State(
            round=search.round - self._began,
            rounds=config.max_rounds,
            turns_left=max(0, config.max_turns - search.turns),
            affordable=affordable,
            samples=config.samples,
            samples_max=max(config.samples, config.samples_max),
            runnable=len(search.pool.rows),
            best=best,
            failing=failing,
            confidence=selection.confidence if selection else 0.0,
            posterior=config.selector == "posterior",
            stated=known,
            alike=alike,
            rivals=self._rivals(best),
            agreement_needed=search.context.asking.role.profile.bias_to_agreement,
            idle=len(search.pool) - self._since,
            patience=config.patience,
        )

    def _failing(self, best: str | None) -> tuple[str, ...]:
        """The judging tests that the best fails."""
        if best is None:
            return ()
        tests, row = self.search.pool.tests, self.search.pool.rows[best]
        return tuple(tests[i].id for i in judging(tests) if not _fine(row[i]))

    def _rivals(self, best: str | None) -> int:
        clusters = self.search.selection.clusters if self.search.selection else ()
        own = next((cluster for cluster in clusters if best in cluster), (best,))
        columns = judging(self.search.pool.tests)
        return sum(all(_fine(row[i]) for i in columns) for one, row in self.search.pool.rows.items() if one not in own)

    def _repairable(self, count: int) -> tuple[Candidate, ...]:
        """At most so many candidates that a repair could better, the worst kind of fault first."""
        search = self.search
        order, tests = search.order(), search.pool.tests
        worst = {one: repair.worst(search.pool.rows[one], tests, search.config.feedback) for one in order}
        ranks = {one: rank for one, rank in worst.items() if rank is not None}
        return repair.repairable(search.pool.candidates, order, ranks, limit=search.config.repairs, count=count)


def _fine(cell: Cell) -> bool:
    return cell.outcome in ("pass", "skipped")


def _alike(search: Search, best: str | None) -> int:
    """Candidates that behave like the best, itself included; 0 where it answered nothing."""
    clusters = search.selection.clusters if search.selection else ()
    return next((len(cluster) for cluster in clusters if best in cluster), 0)
