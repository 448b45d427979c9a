"""Running the tests on a round's candidates. What they show is looked at in slot order when all runs are over: no
decision depends on which run was faster."""

import asyncio
import itertools
from collections.abc import Sequence

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.events import VerifyComplete
from hc_ray.search.pool import Pool
from hc_ray.search.search import Search
from hc_ray.search.selection import progress, stated


async def evaluate(search: Search, made: Sequence[Candidate]) -> None:
    """Run the tests on what is new among the candidates; duplicates take their original's row."""
    pool = search.pool
    fresh = [one for one in made if one.files and one.duplicate_of is None and one.id not in pool.rows]
    rows = await asyncio.gather(*(search.runs.try_out(one.id, one.files, pool.tests) for one in fresh))
    pool.rows.update({one.id: row for one, row in zip(fresh, rows, strict=True)})
    _share(pool, made)
    for one in made:
        if one.id in pool.rows:
            row = pool.rows[one.id]
            passing = sum(cell.outcome == "pass" for cell in row)
            told = VerifyComplete(candidate=one.id, passing=passing, total=len(row), progress=progress(row, pool.tests))
            search.context.events.emit(told)


def _share(pool: Pool, made: Sequence[Candidate]) -> None:
    """Duplicates take their original's row: they are votes. Where nothing but votes decides, an echo is none: what is
    likeliest in one wording mostly is in the next, so that greedy copies are one voice and no agreement."""
    alone = not stated(pool.tests)
    for one in made:
        if one.duplicate_of is None or one.duplicate_of not in pool.rows:
            continue
        if not (alone and one.temperature == 0.0 and _echoes(pool, one)):
            pool.rows[one.id] = pool.rows[one.duplicate_of]


def _echoes(pool: Pool, one: Candidate) -> bool:
    """Whether an earlier greedy answer is the same text."""
    earlier = itertools.takewhile(lambda other: other.id != one.id, pool.candidates)
    return any(other.temperature == 0.0 and other.digest == one.digest for other in earlier)
