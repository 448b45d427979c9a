"""Tests that finished lineages leave, each written by somebody who solved the task in his own way. Every state is run
against those of the other lineages, never against its author's (as TEX does, 2026: execution instead of a judge). They
stay apart from the frozen suite and only tell states apart that it leaves level."""

from collections.abc import Sequence
from statistics import fmean
from string import Template

from hc_ray.agent.prompt_templates import template
from hc_ray.domain.candidate import Candidate
from hc_ray.domain.prompt import Completion, Malformed
from hc_ray.domain.suite import SelfTest
from hc_ray.search.lineages import Run
from hc_ray.search.search import Search
from hc_ray.selftests import file_tester, gate
from hc_ray.selftests.runner import BEFORE

_MOST = 8
"""Tests of one lineage."""
_TOKENS = 2000


async def tests_of(run: Run) -> tuple[SelfTest, ...]:
    """What a lineage writes when it is asked for tests of its own; empty where it writes none that can fail."""
    question = Template(template("own_tests")).substitute(most=_MOST, before=BEFORE)
    text = await run.ask("own_tests", question, tokens=_TOKENS)
    found = file_tester.read(Completion(text=text), run.search.spec)
    if isinstance(found, Malformed):
        return ()
    named = [one.model_copy(update={"id": f"{run.slot.id}-{i}"}) for i, one in enumerate(found.tests[:_MOST], start=1)]
    return gate.screen(named)[0]


async def preferred(search: Search, level: Sequence[tuple[Candidate, Run]]) -> list[tuple[Candidate, Run]]:
    """Of states that are level those that pass most of the others' tests; all of them where these cannot tell. A test
    counts if its author's own states pass it and the untouched environment does not."""
    runs = list({id(run): run for _, run in level}.values())
    if len(runs) < 2:
        return list(level)
    written = [(run, test) for run in runs for test in await tests_of(run)]
    tests = [test for _, test in written]
    untouched = await search.runs.try_out("own-untouched", {}, tests)
    passed = {
        one.id: [cell.outcome == "pass" for cell in await search.runs.try_out(f"own-{one.id}", one.files, tests)]
        for one, _ in level
    }
    counts = [
        untouched[i].outcome != "pass" and all(passed[one.id][i] for one, by in level if by is author)
        for i, (author, _) in enumerate(written)
    ]
    scores: dict[str, float] = {}
    for one, run in level:
        shares = [
            fmean(passed[one.id][i] for i, (by, _) in enumerate(written) if by is author and counts[i])
            for author in runs
            if author is not run and any(counts[i] for i, (by, _) in enumerate(written) if by is author)
        ]
        scores[one.id] = round(fmean(shares), 6) if shares else 0.0
    search.journal("own_tests", tests=[test.id for test in tests], counted=counts, passed=passed, scores=scores)
    return [(one, run) for one, run in level if scores[one.id] == max(scores.values())]
