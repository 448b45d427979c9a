"""A trial's candidates, the tests that they are run under, and what came of it: the pass matrix as it grows."""

import contextlib
from collections.abc import Iterator, Sequence

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.config import SelectorName
from hc_ray.domain.suite import Cell, PassMatrix, SelfTest
from hc_ray.search.selection import Selection, behaviour_clusters, select


class Pool:
    """Candidates in slot order, with a row of cells each that was run; only the trial's own coroutine touches it."""

    def __init__(self) -> None:
        self.candidates: list[Candidate] = []
        self.tests: tuple[SelfTest, ...] = ()
        self.rows: dict[str, tuple[Cell, ...]] = {}
        self.rejected: set[str] = set()
        """Candidates that a verdict has failed."""

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def fresh(self) -> int:
        """Fresh candidates so far."""
        return sum(one.parent is None for one in self.candidates)

    def candidate(self, identity: str) -> Candidate:
        return next(candidate for candidate in self.candidates if candidate.id == identity)

    def matrix(self) -> PassMatrix:
        """Every candidate that was run, in slot order, under the present tests."""
        names = tuple(one.id for one in self.candidates if one.id in self.rows)
        return PassMatrix(candidates=names, tests=tuple(test.id for test in self.tests),
                          cells=tuple(self.rows[name] for name in names))  # fmt: skip

    def choose(self, selector: SelectorName, held: Selection | None) -> Selection:
        """Select over the whole pool, so that the best so far (``held``) is never lost, and is kept where nothing is
        better; failed submissions, and what behaves like them, stand aside."""
        matrix = self.matrix()
        out = set(self.rejected)
        for cluster in behaviour_clusters(matrix, self.tests):
            out.update(cluster if self.rejected.intersection(cluster) else ())
        standing = tuple(name for name in matrix.candidates if name not in out) or matrix.candidates
        matrix = PassMatrix(candidates=standing, tests=matrix.tests, cells=tuple(self.rows[one] for one in standing))
        return checkpoint(held, select(matrix, selector, tests=self.tests))

    @contextlib.contextmanager
    def measured_anew(self, more: Sequence[SelfTest]) -> Iterator[None]:
        """Every candidate is run again, under more tests; where that is cut off, what was measured before stands."""
        before = self.tests, dict(self.rows)
        self.tests += tuple(more)
        self.rows.clear()
        try:
            yield
        except BaseException:
            self.tests, self.rows = before
            raise


def checkpoint(held: Selection | None, now: Selection) -> Selection:
    """The selection with its best checkpoint: what was held before stays where the selector, on the same matrix, scores
    what is chosen now the same and no more of the others answer as it does."""
    before = held.chosen if held else None
    if before is None or now.chosen is None or before == now.chosen or before not in now.scores:
        return now
    same = now.scores[before] == now.scores[now.chosen]
    alike = same and now.agreement.get(before, 0.0) >= now.agreement.get(now.chosen, 0.0)
    return now.model_copy(update={"chosen": before, "why": f"{now.why}; {before} was there before"}) if alike else now
