"""After a failed verdict, where the config allows it: the instruction is read again, tests are added beside the frozen
suite, and the search goes on. Each verdict is one bit."""

from hc_ray.config import SolverConfig, TestgenConfig
from hc_ray.solve.drafts import test_of as made
from hc_ray.solve.missed import missed, widened
from hc_ray.suite import ExpectedValue, Subject
from tests.unit.test_orchestrate import INSTRUCTION, RIGHT, WRONG, Bench, scripted

CONFIG = SolverConfig(max_answer_tokens=60, max_rounds=1, refinement=2)


async def test_each_verdict_is_counted_and_there_are_three_at_most() -> None:
    bench = Bench(scripted(WRONG, RIGHT), verdicts=(False, False, False, True))
    outcome = await bench.solve("hc", CONFIG, tokens=30_000)
    assert outcome.bits == (False, False, False) and len(outcome.submissions) == 3


async def test_tests_added_after_a_verdict_leave_the_frozen_suite_as_it_was() -> None:
    plain = await Bench(scripted(WRONG, RIGHT)).solve("hc", CONFIG, tokens=30_000)
    bench = Bench(scripted(WRONG, RIGHT), verdicts=(False, True))
    outcome = await bench.solve("hc", CONFIG, tokens=30_000)
    assert outcome.suite is not None and plain.suite is not None and outcome.suite.hash == plain.suite.hash
    frozen = [test.id for test in outcome.suite.tests]
    added = [test.id for test in outcome.added_tests]
    assert added and all(name.startswith("refine1-") for name in added)
    assert [test.id for test in outcome.matrix_tests] == frozen + added
    assert outcome.self_pass == plain.self_pass, (
        "what was handed in first is judged by the suite that it was made under"
    )


async def test_what_may_have_been_missed_is_told_to_every_second_candidate_after_it() -> None:
    bench = Bench(scripted(WRONG, RIGHT), verdicts=(False, True))
    await bench.solve("hc", CONFIG, tokens=30_000)
    (refined,) = bench.log.actions("refine")
    asked = [prompt for prompt in bench.prompts if prompt.role == "solver"]
    told = [prompt for prompt in asked if "not accepted" in prompt.model_dump_json()]
    assert told and all(sentence in INSTRUCTION for sentence in refined.detail["missed"])
    later = asked[asked.index(told[0]) :]
    assert len(told) < len(later)
    assert not [prompt for prompt in asked[: asked.index(told[0])] if "not accepted" in prompt.model_dump_json()]


async def test_without_leave_a_failed_verdict_ends_the_trial() -> None:
    bench = Bench(scripted(WRONG, RIGHT), verdicts=(False, True))
    outcome = await bench.solve("hc", CONFIG.model_copy(update={"refinement": 0}), tokens=30_000)
    assert outcome.bits == (False,) and outcome.added_tests == () and not bench.log.actions("refine")


def test_sentences_that_no_known_answer_encodes_are_missed_first() -> None:
    known = made(INSTRUCTION, "happy_path", Subject(kind="call", path="double.py", function="double"),
                 ExpectedValue(value="8"), text="double(4)", reasoning="", confidence=0.9,
                 sentence="It must return twice the given number.")  # fmt: skip
    found = missed(INSTRUCTION, [known])
    assert found[-1] == "It must return twice the given number." and len(found) > 1


def test_categories_that_are_full_are_given_room_for_what_comes_later() -> None:
    assert widened(TestgenConfig()).tests_per_category_max == TestgenConfig().tests_per_category_max + 3
    assert widened(TestgenConfig(tests_per_category_max=19)).tests_per_category_max == 20
