"""The end of a stretch of a search: which candidate is handed in, a last look at it, and the verdict's one bit."""

from hc_ray.domain.candidate import Candidate, Submission
from hc_ray.domain.config import SelectorName
from hc_ray.search.pool import Pool
from hc_ray.search.search import Search
from hc_ray.search.selection import Selection, progress


async def hand_in(search: Search) -> bool | None:
    """Hand in the best candidate (the untouched workspace where there is none); the verdict's one bit. None where it is
    what a verdict has failed already: nothing is handed in, and what was stays what is told of."""
    if search.selection is None or search.selection.chosen is None:
        search.selection = unselected(search.pool, search.config.selector) or search.selection
    chosen = search.selection.chosen if search.selection else None
    if _failed_already(search, chosen):
        search.selection = search.handed_in[-1]
        search.notes.append("nothing new was found after the verdict: it is not asked again")
        return None
    files = search.pool.candidate(chosen).files if chosen else {}
    difference, living = await search.forks.hand_in(f"submission{len(search.submissions)}", files)
    path = search.deliverable.path
    there = path is None or any(f"/{one}".endswith(f"/{path.lstrip('/')}") for one in difference.changed)
    search.journal("submit", candidate=chosen, changed=list(difference.changed), missing=[] if there else [path])
    name, task = search.name, search.task
    submission = Submission.of(difference.tar, id=f"{name}-{len(search.submissions)}", trial=name,
                               task_digest=task.digest, living=living)  # fmt: skip
    if not search.submissions:
        search.first_row = search.pool.rows.get(chosen) if chosen else ()
    search.handed_in.append(search.selection)
    search.submissions.append(submission)
    # How long the hidden tests take says something of them: no decision of the search may hear it.
    with search.clock.stopped():
        passed = await search.judge(submission)
    search.bits.append(passed)
    if not passed and chosen is not None:
        search.pool.rejected.add(chosen)
    return passed


def unselected(pool: Pool, selector: SelectorName) -> Selection | None:
    """Where the time was over before anything was selected: who passes most of what was run, the first of equals; where
    nothing was run, the first that holds a file. None where none does."""

    def passing(one: Candidate) -> float:
        return progress(pool.rows[one.id], pool.tests) if one.id in pool.rows else -1.0

    best = max((one for one in pool.candidates if one.files), key=passing, default=None)
    if best is None:
        return None
    why = "nothing was selected in time: the first of those that pass most"
    return Selection(selector=selector, chosen=best.id, why=why)


def _failed_already(search: Search, chosen: str | None) -> bool:
    """Whether a verdict has failed this candidate, or one with the same files."""

    def digest(name: str | None) -> str | None:
        return search.pool.candidate(name).digest if name else None

    return digest(chosen) in [digest(one.chosen if one else None) for one in search.handed_in]
