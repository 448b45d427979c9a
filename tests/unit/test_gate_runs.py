import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.domain.suite import ExpectedValue, Property, SelfTest, Subject, Unknown
from hc_ray.selftests import gate
from tests.fakes.testers import GUESSES, a_tester, suite_of


async def test_what_knows_nothing_passes_does_not_discriminate_and_what_is_there_already_is_a_guard():
    suite = await suite_of(a_tester(lambda prompt: GUESSES))
    judging = [test for test in suite.tests if test.expectation.kind != "unknown"]
    able = {test.expectation.name if test.expectation.kind == "property" else "value": test.discriminates
            for test in judging}  # fmt: skip
    assert able == {"value": True, **dict.fromkeys(able.keys() - {"value"}, False)} and "defines" in able
    reasons = {verdict.id: verdict.reason for verdict in suite.gate}
    told = {reasons[test.id].rsplit(": ", 1)[-1] for test in judging if not test.discriminates}
    assert told == {"the empty state passes it", "the constant state passes it"}
    assert suite.notes[-1].endswith("0 guards, 1 discriminating.") and not any(test.guard for test in judging)
    there = await suite_of(a_tester(lambda prompt: ""), files={"m.py": "def f(n):\n    return 8\n"})
    assert {test.id for test in there.tests if test.expectation.kind == "value"} <= {
        test.id for test in there.tests if test.guard
    } and there.notes[-1].endswith("the suite is weak.")


@settings(max_examples=8)
@given(st.text(alphabet="f(1, 'a\"[]{}=>-)#\n:assert raises```python def return", max_size=80))
def test_any_model_gives_a_suite_of_tests_that_assert(text):
    suite = asyncio.run(suite_of(a_tester(lambda prompt: text)))
    assert len(suite.tests) >= 10 and all(gate.fault_of(test) is None for test in suite.tests)
    assert {verdict.id for verdict in suite.gate} == {test.id for test in (*suite.tests, *suite.dropped)}


async def test_nobody_is_asked_to_draft_a_data_file_and_where_no_file_is_known_no_tests_are_written():
    asked = []

    def answer(prompt):
        asked.append(prompt)
        return "1\n"

    files = {"in.csv": "a,b\n1,2\n"}
    data = await suite_of(a_tester(answer), instruction="Write `/app/out.csv`: `/app/in.csv` sorted.", files=files)
    assert {test.expectation.kind for test in data.tests} == {"property", "unknown"} and not asked
    unknown = await suite_of(a_tester(answer), instruction="Make the tests pass.", files=files)
    assert not unknown.tests and not asked
    assert "The instruction does not name exactly one missing file: the answer names its files." in unknown.assumptions


F = Subject(kind="call", path="m.py", function="f")


def guess_of(identity, call, expectation, confidence=0.3):
    return SelfTest(id=identity, category="boundary", subject=F, input=call, expectation=expectation,
                    confidence=confidence)  # fmt: skip


def test_what_does_not_parse_assert_or_differ_or_contradicts_a_stated_answer_fails_the_screen():
    admitted, told = gate.screen([
        guess_of("a", "f(1)", ExpectedValue(value="1")), guess_of("a", "f(2)", ExpectedValue(value="2")),
        guess_of("b", "f(1)", ExpectedValue(value="1")), guess_of("c", "f(", ExpectedValue(value="1")),
        guess_of("d", "f(3)", ExpectedValue(value="nonsense here")), guess_of("e", "f(3)", Property(name="is_nice")),
        guess_of("g", "f(1)", Unknown()),
    ])  # fmt: skip
    assert [test.id for test in admitted] == ["a"]
    assert "name" in told.pop("a") and set(told) == {"b", "c", "d", "e", "g"}
    assert (
        "duplicates another" in told["b"]
        and "parse" in told["c"]
        and "literal" in told["d"]
        and "property" in told["e"]
    )
    stated = guess_of("a", "f(1)", ExpectedValue(value="1"), confidence=0.9)
    admitted, told = gate.screen([stated, guess_of("b", "f(1)", ExpectedValue(value="2"))])
    assert admitted == (stated,) and "contradicts a" in told["b"]
