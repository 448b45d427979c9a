"""What an audit makes of what it saw: pure figures, against counts made by hand."""

import pytest

from hc_ray.blind.auditing import audit
from hc_ray.blind.auditing.audit import Evidence, matthews
from hc_ray.blind.auditing.exposure import Seen
from hc_ray.domain.suite import ExpectedValue, SelfTest, Subject, Suite, Unknown


def test_of(name, **more):
    subject = Subject(kind="file", path="a")
    return SelfTest(**{"id": name, "category": "format", "subject": subject, "expectation": ExpectedValue(value="1"),
                       **more})  # fmt: skip


test_of.__test__ = False


def seen(kind, outcomes, passed=None, nodes=None):
    return Seen(kind=kind, outcomes=outcomes, passed=passed, nodes=nodes)


def evidence(tests, states, *, dropped=(), task="t", unmeasured=""):
    suite = Suite(tests=tuple(tests), dropped=dropped)
    return Evidence(task=task, suites=(suite,), seen=states, unmeasured=unmeasured)


def counts(share):
    return share.hits, share.of


TESTS = (test_of("right"), test_of("trivial"), test_of("flaky"))
DROPPED = (test_of("wrong"),)
STATES = (
    seen("reference", {"right": "ppp", "wrong": "fff", "trivial": "ppp", "flaky": "pfp"}, True),
    seen("untouched", {"right": "eee", "wrong": "eee", "trivial": "fff", "flaky": "fff"}, False),
    seen("empty", {"right": "e", "wrong": "e", "trivial": "p", "flaky": "f"}),
    seen("candidate", {"right": "p", "wrong": "f", "trivial": "p", "flaky": "p"}, True),
    seen("candidate", {"right": "f", "wrong": "f", "trivial": "p", "flaky": "p"}, False),
    seen("candidate", {"right": "p", "wrong": "p", "trivial": "p", "flaky": "p"}, False),
)


def test_tests_are_told_apart_and_a_fault_counts_as_found_that_a_valid_one_and_the_real_ones_fail():
    both = audit.stages([evidence(TESTS, STATES, dropped=DROPPED)])
    assert counts(both.generated.validity) == (2, 4) and counts(both.admitted.validity) == (2, 3)
    assert counts(both.generated.triviality) == (1, 4) and counts(both.generated.flakiness) == (1, 4)
    assert counts(both.generated.discrimination) == (2, 4) and counts(both.admitted.discrimination) == (1, 3)
    assert counts(both.generated.false_rejection) == (1, 1), "a right candidate, by what the gate then dropped"
    assert counts(both.admitted.false_rejection) == (0, 1) and counts(both.generated.fault_detection) == (1, 2)


def test_guards_are_not_trivial_and_what_judges_nothing_or_cannot_run_is_in_no_figure():
    tests = (test_of("trivial", guard=True), test_of("right", expectation=Unknown()), test_of("flaky", weight=0.0))
    figures = audit.stages([evidence(tests, STATES)]).generated
    assert (figures.tests, figures.judging) == (3, 1) and figures.triviality.value is None
    assert counts(figures.validity) == (1, 1)
    states = (seen("reference", {"right": "ppp", "other": "sss"}, True),)
    figures = audit.stages([evidence((test_of("right"), test_of("other")), states)]).generated
    assert counts(figures.validity) == (1, 1)


def test_what_was_not_measured_is_none_and_never_zero():
    figures = audit.stages([evidence(TESTS, STATES[:1], dropped=DROPPED)]).generated
    for measure in ("fault_detection", "discrimination", "false_rejection", "overlap"):
        share = getattr(figures, measure)
        assert (share.value, share.low, share.high, share.of) == (None, None, None, 0)
    broken = audit.stages(
        [evidence(TESTS, (), dropped=DROPPED, unmeasured="its reference fails its own tests")]
    ).generated
    assert broken.validity.value is None and broken.tests == 4


def test_tasks_weigh_alike_however_many_tests_their_suites_hold():
    many = evidence([test_of(f"t{i}") for i in range(9)], [seen("reference", {f"t{i}": "ppp" for i in range(9)}, True)])
    one = evidence([test_of("t0")], [seen("reference", {"t0": "fff"}, True)], task="other")
    share = audit.stages([many, one]).generated.validity
    assert (share.value, share.n, share.hits, share.of) == (0.5, 2, 9, 10)
    assert 0.0 <= share.low <= 0.5 <= share.high <= 1.0


@pytest.mark.parametrize(("mine", "theirs", "value"), [
    ([True, False, True], [True, False, True], 1.0), ([True, False], [False, True], -1.0),
    ([True, True, True], [True, False, True], 0.0), ([True, None, False], [True, False, False], 1.0),
    ([True, True, True, False, False, False], [True, True, False, False, False, False], 0.7071),
])  # fmt: skip
def test_matthews_correlation_is_that_of_the_two_by_two_table(mine, theirs, value):
    assert matthews(mine, theirs) == pytest.approx(value, abs=1e-4)


def states_with_nodes(count=6):
    """The reference and candidates; ``first`` fails on the last three, ``second`` on all but the first."""
    found = [seen("reference", {"a": "ppp", "b": "ppp"}, True, {"first": True, "second": True, "always": True})]
    for i in range(1, count):
        nodes = {"first": i < 3, "second": False, "always": True}
        found.append(seen("candidate", {"a": "p" if i < 3 else "f", "b": "p"}, False, nodes))
    return found


def test_a_real_test_is_covered_by_a_self_test_that_tells_end_states_apart_alike():
    one = evidence([test_of("a"), test_of("b")], states_with_nodes())
    assert audit.informative(one) == ("first", "second") and counts(audit.stages([one]).admitted.overlap) == (1, 2)


def test_overlap_needs_enough_end_states_and_outcomes_and_what_was_not_collected_has_not_passed():
    few = evidence([test_of("a")], states_with_nodes(4))
    silent = evidence([test_of("a")], [one.model_copy(update={"nodes": None}) for one in states_with_nodes()])
    for one in (few, silent):
        assert audit.stages([one]).generated.overlap.value is None
    states = [*states_with_nodes(5), seen("candidate", {"a": "f", "b": "p"}, False, {})]
    assert audit.informative(evidence([test_of("a")], states)) == ("always", "first", "second")
