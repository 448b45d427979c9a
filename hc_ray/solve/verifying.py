"""Running the tests on a round's candidates: first what tells them apart, then the rest, in waves. What a wave shows is
looked at in slot order when the whole wave is over, so that no decision depends on which run was faster."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from hc_ray.candidate import Candidate
from hc_ray.events import VerifyComplete
from hc_ray.select import progress
from hc_ray.solve.sameness import behaves_like, probes
from hc_ray.solve.search import Search
from hc_ray.suite import Cell


class Verifying:
    """Fills the rows of a search's candidates. ``count``: inputs of the first look; 0 for none."""

    def __init__(self, search: Search, *, count: int = 0, wave: int = 256) -> None:
        self.search, self._wave = search, wave
        self.columns = probes(search.tests, count)
        """The tests of the first look."""
        self._looked: dict[str, tuple[Cell, ...]] = {}
        """What each candidate showed at the first look, the first of each behaviour only."""

    async def look(self, made: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """The candidates, with those marked as duplicates that answer a few inputs as an earlier one did."""
        search = self.search
        fresh = [one for one in made if one.files and one.duplicate_of is None and one.id not in search.rows]
        if not self.columns:
            return tuple(made)
        tests = [search.tests[i] for i in self.columns]
        seen = await asyncio.gather(*(search.bench.try_out(f"{one.id}-look", one.files, tests) for one in fresh))
        twins: dict[str, str] = {}
        for one, cells in zip(fresh, seen, strict=True):
            twin = behaves_like(cells, self._looked)
            if twin is None:
                self._looked[one.id] = cells
            else:
                twins[one.id] = twin
        if twins:
            marked = {one.id: one.model_copy(update={"duplicate_of": twins[one.id]}) for one in made if one.id in twins}
            search.pool[:] = [marked.get(one.id, one) for one in search.pool]
            made = [marked.get(one.id, one) for one in made]
        search.journal("look", tests=[test.id for test in tests], same=twins)
        return tuple(made)

    async def run(self, made: Sequence[Candidate], stop: Callable[[], bool] = lambda: False) -> tuple[str, ...]:
        """Run the tests on what is new among the candidates; duplicates take their original's row. After each wave
        ``stop`` is asked; once it holds, the rest of the round is cancelled. Answers who was."""
        search = self.search
        fresh = [one for one in made if one.files and one.duplicate_of is None and one.id not in search.rows]
        while fresh:
            wave, fresh = fresh[: self._wave], fresh[self._wave :]
            rows = await asyncio.gather(*(self._row(one) for one in wave))
            search.rows.update({one.id: row for one, row in zip(wave, rows, strict=True)})
            self._share(made)
            if fresh and stop():
                break
        self._share(made)
        self._tell(made)
        cancelled = tuple(one.id for one in fresh)
        if cancelled:
            search.journal("cancel", candidates=list(cancelled))
        return cancelled

    async def _row(self, one: Candidate) -> tuple[Cell, ...]:
        """A whole row: what the first look has shown, and the other tests."""
        search, looked = self.search, self._looked.get(one.id)
        if looked is None:
            return await search.bench.try_out(one.id, one.files, search.tests)
        known: Mapping[int, Cell] = dict(zip(self.columns, looked, strict=True))
        rest = [i for i in range(len(search.tests)) if i not in known]
        ran = await search.bench.try_out(one.id, one.files, [search.tests[i] for i in rest])
        cells = {**known, **dict(zip(rest, ran, strict=True))}
        return tuple(cells[i] for i in range(len(search.tests)))

    def _share(self, made: Sequence[Candidate]) -> None:
        for one in made:
            if one.duplicate_of is not None and one.duplicate_of in self.search.rows:
                self.search.rows[one.id] = self.search.rows[one.duplicate_of]

    def _tell(self, made: Sequence[Candidate]) -> None:
        search = self.search
        for one in made:
            if one.id in search.rows:
                row = search.rows[one.id]
                passing = sum(cell.outcome == "pass" for cell in row)
                told = VerifyComplete(candidate=one.id, passing=passing, total=len(row),
                                      progress=progress(row, search.tests))  # fmt: skip
                search.events.emit(told)
