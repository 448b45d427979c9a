import itertools
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.domain.config import SELECTORS, SelectorName
from hc_ray.domain.suite import Cell, Outcome, PassMatrix, Property, SelfTest, Subject
from hc_ray.search.selection import select
from tests.fakes.suites import call_test, matrix_of


def column(number: int, **more: float) -> SelfTest:
    return call_test(f"t{number}", f"f({number})", **more)


def columns_of(matrix: PassMatrix, unknown: tuple[int, ...] = ()) -> list[SelfTest]:
    return [call_test(name, f"f({j})", None if j in unknown else "1") for j, name in enumerate(matrix.tests)]


def chosen(name: SelectorName, rows: list[str], answers: Any = None, unknown: tuple[int, ...] = ()) -> str | None:
    matrix = matrix_of(rows, answers)
    return select(matrix, name, tests=columns_of(matrix, unknown)).chosen


def test_mbr_takes_the_largest_group_of_one_behaviour_or_the_most_agreeing():
    matrix = matrix_of(["++"] * 4, [["1", "9"], ["1", "2"], ["1", "2"], ["0", "0"]])
    selection = select(matrix, "mbr", tests=columns_of(matrix, (0, 1)))
    assert selection.chosen == "c1" and selection.clusters[0] == ("c1", "c2")
    answers = [["7", "8", "9"], ["1", "2", "0"], ["1", "2", "3"], ["1", "5", "3"]]
    assert chosen("mbr", ["+++"] * 4, answers, (0, 1, 2)) == "c2"


def test_codet_lets_many_alike_outweigh_one_more_test_and_a_clear_posterior_is_near_one():
    rows = ["+++-", "++++", "+++-", "+++-", "+++-"]
    assert (chosen("codet", rows), chosen("max_pass", rows)) == ("c0", "c1")
    clear, even = matrix_of(["++++++", "------", "-+----"]), matrix_of(["+-", "-+"])
    assert select(clear, "posterior", tests=columns_of(clear)).confidence > 0.9
    assert select(even, "posterior", tests=columns_of(even)).confidence == pytest.approx(0.5)


def test_a_stated_example_outweighs_two_guesses_and_inputs_alone_judge_nobody():
    matrix = matrix_of(["+--", "-++"])
    assert select(matrix, "max_pass", tests=[column(0, weight=3.0), column(1), column(2)]).chosen == "c0"
    assert chosen("max_pass", ["-+", "+-"], unknown=(0,)) == "c0"


def guess(number: int) -> SelfTest:
    """What two readings of a model agreed on."""
    return column(number, weight=0.6).model_copy(update={"tester": "small", "confidence": 0.6})


def stated(number: int) -> SelfTest:
    return column(number, weight=3.0).model_copy(update={"confidence": 0.9})


def test_a_guess_that_one_candidate_alone_passes_beats_nobody_and_one_that_others_bear_out_is_believed():
    # A crowd fails the stated answer; a group passes it; one passes it and a guess that everybody else fails.
    matrix = matrix_of(["+--"] * 12 + ["++-"] * 6 + ["+++"])
    assert select(matrix, "posterior", tests=[column(0), stated(1), guess(2)]).chosen == "c12"
    rows = ["+--"] * 3 + ["++-"] * 2 + ["+++"] * 4
    assert select(matrix_of(rows), "posterior", tests=[column(0), stated(1), guess(2)]).chosen == "c5"


def test_ties_fall_to_agreement_then_fewer_errors_then_the_earlier_slot() -> None:
    assert chosen("max_pass", ["++"] * 3, [["1", "a"], ["1", "b"], ["1", "b"]], (1,)) == "c1"
    assert chosen("max_pass", ["-!", "--"], [["x", None], ["y", "z"]]) == "c1"
    assert chosen("posterior", ["+", "+"]) == "c0"


def test_an_empty_pool_chooses_nobody_and_wrong_columns_are_refused() -> None:
    assert select(matrix_of([]), "posterior", tests=[]).chosen is None
    with pytest.raises(ValueError, match="columns"):
        select(matrix_of(["+"]), "mbr", tests=[])


@pytest.mark.parametrize("name", SELECTORS)
def test_copies_of_a_crash_never_outvote_one_candidate_that_answers(name):
    file = SelfTest(id="t0", category="existence", subject=Subject(kind="file", path="m.py"),
                    expectation=Property(name="exists"))  # fmt: skip
    tests = (file, call_test("t1", "f(4)", "8"))
    matrix = matrix_of(["+!"] * 20 + ["++"], [["yes", None]] * 20 + [["yes", "8"]])
    assert select(matrix, name, tests=tests).chosen == "c20"


@pytest.mark.parametrize("name", ["max_pass", "codet", "posterior"])
@pytest.mark.parametrize(("confidence", "right"), [(0.7, True), (0.6, False)])
def test_copies_never_outvote_who_passes_all_that_they_pass_and_a_believed_test_besides(name, confidence, right):
    tests = [call_test(f"t{i}", f"f({i})", confidence=confidence) for i in range(3)]
    matrix = matrix_of(["+--"] * 30 + ["+++"], [["1", "2", "2"]] * 30 + [["1"] * 3])
    assert select(matrix, name, tests=tests).chosen == ("c30" if right or name == "max_pass" else "c0")


@pytest.mark.parametrize("name", ["max_pass", "codet", "posterior"])
@pytest.mark.parametrize("tester", ["", "model"])
def test_copies_never_outvote_who_also_runs_where_the_instruction_allows_it(name, tester):
    runs = {"category": "edge_case", "expectation": Property(name="runs"), "weight": 0.3, "tester": tester}
    tests = [call_test("t0", "f(0)", confidence=0.9), call_test("t1", confidence=0.5, **runs)]
    matrix = matrix_of(["+-"] * 30 + ["++"], [["1", "raises IndexError"]] * 30 + [["1", "1"]])
    assert select(matrix, name, tests=tests).chosen == ("c30" if not tester or name == "max_pass" else "c0")


@given(st.data())
def test_any_matrix_has_a_choice_that_does_not_depend_on_the_order_of_tests(data: st.DataObject) -> None:
    height, width = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 5))
    cell = st.builds(Cell, outcome=st.sampled_from(get_args(Outcome)), observed=st.sampled_from([None, "1", "2"]))
    cells = tuple(tuple(data.draw(cell) for _ in range(width)) for _ in range(height))
    names = tuple(f"c{i}" for i in range(height))
    matrix = PassMatrix(candidates=names, tests=tuple(f"t{j}" for j in range(width)), cells=cells)
    tests = columns_of(matrix, tuple(j for j in range(width) if data.draw(st.booleans())))
    order = list(itertools.islice(itertools.cycle(range(width)), 1, width + 1)) if width else []
    turned = PassMatrix(candidates=names, tests=tuple(matrix.tests[j] for j in order),
                        cells=tuple(tuple(row[j] for j in order) for row in cells))  # fmt: skip
    for name in SELECTORS:
        selection = select(matrix, name, tests=tests)
        assert selection.chosen in names and set(selection.scores) == set(names)
        again = select(turned, name, tests=[tests[j] for j in order])
        assert {one: round(score, 4) for one, score in again.scores.items()} == {
            one: round(score, 4) for one, score in selection.scores.items()
        }
