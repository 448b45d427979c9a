"""What finished lineages leave for others.

Each leaves a summary in a schema (arXiv 2604.16529): a second generation reads those of the best, and a tournament
compares them in small groups if tests cannot distinguish states.

Each also writes tests, with the knowledge of its own solution. Every state runs against the other lineages' tests,
never its own (as in TEX, 2026: execution instead of a judge). These stay separate from the frozen suite, and only break
its ties."""

import re
from collections.abc import Sequence
from statistics import fmean

from hc_ray.agent.prompt_templates import filled, template
from hc_ray.domain.candidate import Candidate
from hc_ray.domain.prompt import Completion, Malformed, found_in
from hc_ray.domain.suite import SelfTest
from hc_ray.domain.value import Value
from hc_ray.search.lineages import Run
from hc_ray.search.search import Search
from hc_ray.selftests import file_tester, gate
from hc_ray.selftests.runner import BEFORE

_TOLD, _LENGTH = 3, 4000
"""The most summaries in a second generation's prompts, and the most characters of each."""
_MOST = 8
"""The most tests of one lineage."""


class Summary(Value):
    """A lineage's report on its own work; prompts show its fields in this order."""

    approach: str
    done: str
    verified: str
    doubts: str


async def summary_of(run: Run) -> str:
    """A lineage's summary, requested once; the raw answer if it does not follow the schema; empty if there is none."""
    if run.summary is None:
        schema = Summary.model_json_schema()
        del schema["description"]  # for readers of this module only
        run.summary = await run.ask("summary", template("summary"), schema=schema)
    found = found_in(run.summary, Summary)
    told = "\n".join(f"{name.capitalize()}: {said}" for name, said in found) if found else run.summary.strip()
    return told[:_LENGTH]


async def gathered(runs: Sequence[Run]) -> str:
    """The advice for a second generation about the first."""
    found = [said for run in runs[:_TOLD] if (said := await summary_of(run))]
    told = "\n\n".join(f"Attempt {i}:\n{said}" for i, said in enumerate(found, start=1))
    return filled("generation", attempts=told) if found else ""


async def tournament(pairs: Sequence[tuple[Candidate, Run]]) -> str | None:
    """The id of the state that the model prefers by its lineages' summaries; None if it names none."""
    if len(pairs) < 2:
        return None
    entries = [(one, run, said) for one, run in pairs if (said := await summary_of(run))]
    if len(entries) < 2:
        return None
    told = "\n\n".join(f"Result {i}:\n{said}" for i, (_, _, said) in enumerate(entries, start=1))
    answer = await entries[0][1].ask("tournament", filled("tournament", results=told))
    numbers = re.findall(r"\d+", answer.strip().splitlines()[-1]) if answer.strip() else []
    chosen = int(numbers[-1]) if numbers else 0
    return entries[chosen - 1][0].id if 1 <= chosen <= len(entries) else None


async def tests_of(run: Run) -> tuple[SelfTest, ...]:
    """A lineage's tests, requested once; empty if it writes none that can fail."""
    if run.tests is None:
        text = await run.ask("own_tests", filled("own_tests", most=_MOST, before=BEFORE))
        ended = run.asking.exchanges[-1].completion.finish_reason if text else None
        found = file_tester.read(Completion(text=text, finish_reason=ended), run.search.spec)
        tests = () if isinstance(found, Malformed) else found.tests[:_MOST]
        named = [one.model_copy(update={"id": f"{run.slot.id}-{i}"}) for i, one in enumerate(tests, start=1)]
        run.tests = gate.screen(named)[0]
    return run.tests


async def preferred(search: Search, level: Sequence[tuple[Candidate, Run]]) -> list[tuple[Candidate, Run]]:
    """Among tied states, those that pass most of the other lineages' tests; all of them if these cannot tell. A test
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
        by_author = [
            [passed[one.id][i] for i, (by, _) in enumerate(written) if by is author and counts[i]]
            for author in runs if author is not run
        ]  # fmt: skip
        scores[one.id] = round(fmean([fmean(cells) for cells in by_author if cells] or [0.0]), 6)
    search.journal("own_tests", tests=[test.id for test in tests], counted=counts, passed=passed, scores=scores)
    return [(one, run) for one, run in level if scores[one.id] == max(scores.values())]
