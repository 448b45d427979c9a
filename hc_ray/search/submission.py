"""The end of a stretch of a search: which candidate is handed in, a last look at it, and the verdict's one bit."""

from hc_ray.domain.candidate import Submission
from hc_ray.search.search import Search


async def hand_in(search: Search) -> bool | None:
    """Hand in the best candidate (the untouched workspace where there is none); the verdict's one bit. None where it is
    what a verdict has failed already: nothing is handed in, and what was stays what is told of."""
    if search.selection is None or search.selection.chosen is None:
        search.selection = search.pool.unselected(search.config.selector) or search.selection
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


def _failed_already(search: Search, chosen: str | None) -> bool:
    """Whether a verdict has failed this candidate, or one with the same files."""

    def digest(name: str | None) -> str | None:
        return search.pool.candidate(name).digest if name else None

    return digest(chosen) in [digest(one.chosen if one else None) for one in search.handed_in]
