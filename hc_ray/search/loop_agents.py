"""The agents in the style ``loop``. ``raw``: the first submission of one lineage. ``best_of_n``: independent lineages,
one picked by agreement. ``hc``: first depth (one lineage, with feedback on what its submission fails), then width in
fresh forks; the suite selects if it can tell, otherwise agreement. Up to a lineage's first submission, all three work
alike."""

from collections.abc import Sequence

from hc_ray.agent.prompt_templates import filled
from hc_ray.agent.workspace import State
from hc_ray.domain.candidate import Candidate
from hc_ray.domain.suite import Cell, SelfTest
from hc_ray.search import repair
from hc_ray.search.handover import gathered, preferred, tournament
from hc_ray.search.lineages import Lineages, Run
from hc_ray.search.pool import by_content
from hc_ray.search.schedule import Slot
from hc_ray.search.search import Search
from hc_ray.search.selection import Selection, deciding

DISPUTED = 0.5
"""Factor on a test's weight when a lineage submits the same state again after feedback from this test."""


def doubted(tests: Sequence[SelfTest], names: Sequence[str]) -> tuple[SelfTest, ...]:
    """The tests, with the weight of those in ``names`` reduced once per occurrence."""
    return tuple(one.model_copy(update={"weight": one.weight * DISPUTED ** names.count(one.id)}) for one in tests)


class LoopAgents:
    """Works on one trial."""

    def __init__(self, search: Search) -> None:
        self.search, self.config = search, search.config
        self.lineages = Lineages(search)
        self._begun = 0

    async def raw(self) -> None:
        """Run one lineage, whatever it costs."""
        made = await self.lineages.run(self._slots(1))
        self.search.stop_reason = "single sample"
        if any(one.files for one in made):
            self.search.hold(Selection(selector="mbr", chosen=made[0].id, why="raw: the only lineage"))

    async def best_of_n(self) -> None:
        """Run independent lineages while the budget lasts, then pick one by agreement on their changes."""
        search = self.search
        while self._begun < self.config.samples_max and not search.stop_reason:
            left = self.config.samples_max - self._begun
            if not await self.lineages.run(self._slots(min(left, self.config.samples))):
                search.stop_reason = "tokens"
            search.hold(by_content(search.pool.candidates))
        search.stop_reason = search.stop_reason or "rounds"

    async def hc(self) -> None:
        """Search depth first, then width, until a state passes every discriminating test or the budget is spent."""
        search = self.search
        for number in range(self.config.max_rounds):
            told = await gathered(self._finished()) if number > 1 else ""
            if not await self._generation(1 if number == 0 else self.config.samples, search.division, told):
                return
            if number and not self._tells:
                break  # more lineages would not change the choice
        search.stop_reason = search.stop_reason or "rounds"

    async def again(self) -> None:
        """After a failed verdict, run another generation, told about the best and what they may have missed."""
        self.search.stop_reason = ""
        missed = repair.reread(self.search.missed)
        if await self._generation(self.config.samples, await gathered(self._finished()), missed):
            self.search.stop_reason = "rounds"

    async def sample(self, slots: Sequence[Slot], *, advice: str) -> tuple[Candidate, ...]:
        """Candidates for these slots, one lineage each; none if the budget does not suffice."""
        return await self.lineages.run(slots, advice=advice)

    async def _generation(self, count: int, *advice: str) -> bool:
        """Run parallel lineages and choose; returns whether there is a reason to continue."""
        search = self.search
        told = "\n\n".join(one for one in advice if one)
        repairs = self.config.repairs if self._tells else 0
        if not await self.lineages.run(self._slots(count), advice=told, repairs=repairs, verdict=self._verdict):
            search.stop_reason = "tokens"
            return False
        self._dispute()
        await search.evaluate(search.pool.candidates)
        await self._choose()
        if search.selection and search.pool.complete(search.selection.chosen):
            search.stop_reason = "complete"
            return False
        return True

    @property
    def _tells(self) -> bool:
        """Whether the suite can tell correct states from wrong ones."""
        return bool(deciding(self.search.pool.tests))

    def _slots(self, count: int) -> Sequence[Slot]:
        begin, self._begun = self._begun, self._begun + count
        return self.search.schedule.samples(round=self.search.round + 1, count=count, begin=begin)

    def _finished(self) -> Sequence[Run]:
        """The lineages, best first."""
        order = {id(run): run for one in self.search.order() if (run := self.lineages.run_of(one)) is not None}
        return list(order.values())

    async def _verdict(self, place: str, state: State) -> tuple[tuple[Cell, ...], str]:
        """The row of a submitted state, and the feedback to its lineage."""
        search = self.search
        search.forks.remember(state.files, state.difference.tar)
        row = await search.runs.try_out(place, state.files, search.pool.tests)
        cells, tests = self._deciding(row)
        lines = repair.feedback(cells, tests, self.config.feedback)
        if not lines:
            return row, ""
        more = repair.failing(cells, tests, self.config.feedback) - len(lines)
        told = [*lines, f"and {more} more"] if more else lines
        return row, filled("failed", failed="\n".join(f"- {one}" for one in told))

    def _deciding(self, row: Sequence[Cell]) -> tuple[list[Cell], list[SelfTest]]:
        """A row's cells of the deciding tests, and these tests."""
        tests = self.search.pool.tests
        columns = deciding(tests)
        return [row[i] for i in columns], [tests[i] for i in columns]

    def _dispute(self) -> None:
        """Reduce the weight of tests that a lineage disputes and that no state passes, until they no longer judge."""
        search = self.search
        tests, rows = search.pool.tests, search.pool.rows.values()
        passed = {test.id for i, test in enumerate(tests) if any(row[i].outcome == "pass" for row in rows)}
        names: list[str] = []
        for run in self.lineages.runs:
            if run.disputed and run.states:
                told = repair.worst_of(*self._deciding(run.states[-1].row), self.config.feedback)
                names += [test.id for test, _ in told if test.id not in passed]
                run.disputed = False
        if names:
            search.journal("dispute", tests=sorted(names))
            search.pool.tests = doubted(search.pool.tests, names)

    async def _choose(self) -> None:
        """Select over the whole pool: by the suite if it can tell, otherwise by agreement; break ties by the lineages'
        own tests and a comparison of their summaries."""
        picked, level = self.search.pool.standing(self.config.selector, self.search.selection)
        self.search.hold(picked)
        if not self.config.tournament or len(level) < 2:
            return
        pairs = [(one, run) for one in level if (run := self.lineages.run_of(one.id)) is not None]
        best = await preferred(self.search, pairs)
        why = [picked.why]
        if len(best) < len(pairs):
            why.append(f"{len(best)} of {len(pairs)} level states pass most of the other lineages' own tests")
            told = {"chosen": best[0][0].id, "why": "; ".join(why), "silent": len(best) > 1}
            picked = picked.model_copy(update=told)
        if (winner := await tournament(best)) is not None:
            why.append(f"{winner} won the comparison of {len(best)} summaries")
            picked = picked.model_copy(update={"chosen": winner, "why": "; ".join(why), "silent": False})
        self.search.hold(picked)
