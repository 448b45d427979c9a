"""After a failed verdict, where the config allows it: the instruction is read again, tests are added beside the frozen
suite, and the search goes on. Each verdict is one bit."""

import pytest

from hc_ray.domain.config import BudgetConfig, SolverConfig
from tests.fakes.trial import RIGHT, WRONG, Bench, scripted

CONFIG = SolverConfig(max_answer_tokens=60, max_rounds=1, refinement=2)


async def test_each_verdict_is_counted_there_are_three_at_most_and_without_leave_or_turns_one():
    bench = Bench(scripted(WRONG, RIGHT, "    return n * 3\n"), verdicts=(False, False, False, True))
    outcome = await bench.solve("hc", CONFIG, tokens=30_000)
    assert outcome.bits == (False, False, False) and len(set(outcome.submissions)) == 3
    bench = Bench(scripted(WRONG, RIGHT), verdicts=(False, True))
    outcome = await bench.solve("hc", CONFIG.model_copy(update={"refinement": 0}), tokens=30_000)
    assert outcome.bits == (False,) and not bench.log.actions("refine")
    bench = Bench(scripted(WRONG), verdicts=(False, True))
    outcome = await bench.solve("hc", CONFIG.model_copy(update={"max_turns": 3}), tokens=30_000)
    assert (outcome.stop_reason, outcome.bits) == ("turns", (False,)) and not bench.log.actions("refine")


@pytest.mark.parametrize("body", [WRONG, ""])
async def test_what_a_verdict_has_failed_is_not_handed_in_again(body: str) -> None:
    bench = Bench(scripted(body), verdicts=(False, False, False))
    outcome = await bench.solve("hc", CONFIG, tokens=30_000)
    assert outcome.bits == (False,) and len(outcome.submissions) == 1
    assert bench.log.actions("refine") and any("nothing new" in note for note in outcome.notes)
    (handed,) = bench.log.actions("submit")
    assert outcome.chosen == handed.detail["candidate"], "what is told of is what was handed in"


async def test_a_refinement_that_is_cut_off_leaves_what_was_measured() -> None:
    plain, bench = Bench(scripted(WRONG, RIGHT)), Bench(scripted(WRONG, RIGHT), verdicts=(False, True))
    before = await plain.solve("hc", CONFIG, tokens=30_000)
    bench.shelf = plain.shelf
    ran: set[str] = set()
    again: set[str] = set()

    def hangs(name: str) -> bool:
        # The candidates' forks go by the same names when they run under more tests: the first hangs.
        (again if bench.submissions and name in ran else ran).add(name)
        return name in again

    bench.place.hangs = hangs
    outcome = await bench.solve("hc", CONFIG, budget=BudgetConfig(tokens=30_000, default_timeout_sec=4))
    assert again and outcome.stop_reason == "timeout" and outcome.bits == (False,)
    assert outcome.matrix == before.matrix and outcome.matrix_tests == before.matrix_tests
    assert (outcome.self_pass, outcome.progress) == (before.self_pass, before.progress)
    assert outcome.chosen == before.chosen


async def test_tests_added_after_a_verdict_leave_the_frozen_suite_as_it_was() -> None:
    plain = await Bench(scripted(WRONG, RIGHT)).solve("hc", CONFIG, tokens=30_000)
    bench = Bench(scripted(WRONG, RIGHT), verdicts=(False, True))
    outcome = await bench.solve("hc", CONFIG, tokens=30_000)
    assert outcome.bits == (False, True) and bench.submitted(0) != bench.submitted(1)
    assert outcome.suite is not None and plain.suite is not None and outcome.suite.hash == plain.suite.hash
    frozen = [test.id for test in outcome.suite.tests]
    names = [test.id for test in outcome.matrix_tests]
    added = names[len(frozen) :]
    assert names[: len(frozen)] == frozen and added and all(name.startswith("refine1-") for name in added)
    assert len(set(names)) == len(names)
    assert outcome.self_pass == plain.self_pass, (
        "what was handed in first is judged by the suite that it was made under"
    )
    assert outcome.prompt_tokens == sum(one.completion.prompt_tokens or 0 for one in outcome.exchanges)
