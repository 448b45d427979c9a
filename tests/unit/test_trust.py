import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.domain.suite import Category, PassMatrix, SelfTest
from hc_ray.selftests.trust import trust
from tests.fakes.suites import call_test, matrix_of


def judge(name: str, category: Category = "boundary", confidence: float = 0.5, known: bool = True) -> SelfTest:
    return call_test(name, value="1" if known else None, category=category, confidence=confidence)


def test_a_test_loses_or_gains_trust_by_who_passes_it_a_stated_one_keeps_it_and_inputs_judge_nobody():
    tests = [judge("stated", "happy_path", 0.9), judge("good"), judge("bad")]
    told = trust(matrix_of(["++-", "++-", "++-", "--+"], tests=tests), tests)
    assert told["good"] > 0.7 > 0.4 > told["bad"] and told["stated"] > 0.85
    tests = [judge("stated", "happy_path", 0.9), judge("easy")]
    assert trust(matrix_of(["-+", "-+", "-+"], tests=tests), tests)["stated"] > 0.7
    tests = [judge("a"), judge("b", known=False)]
    assert set(trust(matrix_of(["+-", "-+"], tests=tests), tests)) == {"a"}


def test_no_candidate_and_no_test_leave_the_prior() -> None:
    tests = [judge("a")]
    empty = PassMatrix(candidates=(), tests=("a",), cells=())
    assert 0.5 < trust(empty, tests)["a"] < 0.7
    assert trust(PassMatrix(candidates=(), tests=(), cells=()), []) == {}
    with pytest.raises(ValueError, match="columns"):
        trust(empty, [judge("other")])


@settings(max_examples=40)
@given(st.lists(st.text(alphabet="+-.", min_size=3, max_size=3), max_size=6))
def test_every_estimate_is_a_chance(rows: list[str]) -> None:
    tests = [judge("a", "happy_path", 0.9), judge("b"), judge("c", "edge_case")]
    told = trust(matrix_of(rows, tests=tests), tests)
    assert all(0 < value < 1 for value in told.values())
