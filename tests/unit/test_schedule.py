from typing import Any

import pytest

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.normalisation import normal
from hc_ray.domain.profile import Profile
from hc_ray.domain.suite import Cell, Expectation, ExpectedValue, Outcome, Property, Rejected, SelfTest, Subject
from hc_ray.domain.trial import sandbox_name, seed_of
from hc_ray.search.repair import Level, feedback, repairable, tried, worst
from hc_ray.search.schedule import Schedule
from hc_ray.selftests.runner import FILE_PROPERTIES
from tests.fakes.suites import call_test

PARENT = Candidate(id="c1.0", round=1, slot=0, lineage=0, seed=1, temperature=0.3, form="chat", plan="plain",
                   files={"m.py": "x"})  # fmt: skip


def schedule(**knobs: Any) -> Schedule:
    config = SolverConfig(**{"plans": ("plain", "steps", "simple"), "temperatures": (0.3, 0.5), **knobs})
    return Schedule(config=config, profile=Profile(form="completion", temperature_best_single=0.1), task_digest="d",
                    trial_seed=0)  # fmt: skip


def test_the_first_plans_are_asked_at_the_best_single_temperature_and_no_step_comes_twice() -> None:
    steps = [schedule().step(i) for i in range(6)]
    assert [plan for plan, _ in steps] == ["plain", "steps", "simple"] * 2
    assert [temperature == 0.1 for _, temperature in steps] == [True] * 2 + [False] * 4
    assert len({schedule(plans=("plain", "steps"), temperatures=(0.2, 0.5, 0.7)).step(i) for i in range(2, 8)}) == 6
    assert schedule(greedy=0).step(0)[1] == 0.1 and schedule(greedy=9).step(3)[1] != 0.1


def test_what_was_tried_is_told_to_every_second_fresh_candidate_of_each_attempt_its_worst_fault_once():
    slots = schedule().samples(round=2, count=4, begin=4, told="tried")
    assert [slot.told for slot in slots] == ["tried", "", "tried", ""]
    text = tried([("f(1): TypeError", "f(2): 3"), ("f(1): TypeError",), (), ("f(0): observed 2",)])
    assert text.count("f(1): TypeError") == 1 and "f(0): observed 2" in text and "f(2)" not in text
    assert tried([()]) == ""


def test_repairs_stay_in_their_lineage_and_leave_fresh_candidates_the_rest_of_a_round():
    slots = schedule().samples(round=2, count=3, begin=3, to_repair=[PARENT])
    assert (slots[0].parent, slots[0].lineage, slots[0].repairs, slots[0].plan) == ("c1.0", 0, 1, "plain")
    assert [(slot.lineage, slot.parent) for slot in slots[1:]] == [(3, None), (4, None)]
    assert len(schedule().samples(round=2, count=1, begin=3, to_repair=[PARENT, PARENT])) == 1
    again = schedule().repair(PARENT.model_copy(update={"repairs": 1}), round=3, slot=0)
    assert again.repairs == 2 and again.temperature != slots[0].temperature and again.seed != slots[0].seed


def judged(*told: tuple[Outcome, float, str]) -> tuple[list[Cell], list[SelfTest]]:
    """A row of outcomes with their details, and tests of these confidences."""
    tests = [call_test("t", f"f({one})", category="boundary", confidence=one) for _, one, _ in told]
    return [Cell(outcome=outcome, detail=detail) for outcome, _, detail in told], tests


def test_how_much_a_repair_is_told_follows_the_knob_and_the_same_crash_is_told_once():
    row, tests = judged(("error", 0.1, "TypeError: no"), ("fail", 0.9, "observed 2 where 1 was expected"),
                        ("fail", 0.2, "observed 3 where 1 was expected"), ("pass", 0.9, ""))  # fmt: skip
    assert len(feedback(row, tests, "crashes")) == 1
    assert feedback(row, tests, "trusted")[1].endswith("observed 2 where 1 was expected; the test may be wrong")
    assert len(feedback(row, tests, "full")) == 3
    same = judged(*(("error", n / 10, "does not load: SyntaxError (line 3)") for n in range(5)))
    assert len(feedback(*same, "full")) == 1


def test_of_failed_checks_those_are_told_first_that_failed_in_another_way():
    details = ["AssertionError: no such branch"] * 4 + ["AssertionError: two lines too many"]
    row, tests = judged(*(("fail", 0.9, detail) for detail in details))
    checks = [one.model_copy(update={"subject": Subject(kind="check", path="", function=f"test_{i}"),
                                     "input": f"def test_{i}():\n    assert False\n", "sentence": "A.",
                                     "reasoning": f"Say {i}.", "id": f"c{i}"})
              for i, one in enumerate(tests)]  # fmt: skip
    assert [one.split(" ")[0] for one in feedback(row, checks, "full")] == ["test_0", "test_4", "test_1"]


def test_of_a_check_a_repair_is_told_what_it_quotes_and_what_it_does():
    source = '''LIMIT = 3
def unused():
    return 0

def run(text):
    return text[:LIMIT]


def test_b():
    """boundary | "Blanks are kept." """
    assert run("a b") == ["a b"]
'''
    sentence = "Tabs are blanks too. " * 20 + "Blanks are kept."
    (cell,), (test,) = judged(("fail", 0.9, "AssertionError: assert ['a'] == ['a b']"))
    check = test.model_copy(update={
        "subject": Subject(kind="check", path="", function="test_b"), "input": source, "sentence": sentence,
        "reasoning": "Blanks are kept."})  # fmt: skip
    (told,) = feedback([cell, cell], [check, check.model_copy(update={"id": "again"})], "trusted")
    assert told.startswith("test_b (the task says: Blanks are kept.): AssertionError: assert ['a']")
    assert "['a b']\n  The test:\n    assert run('a b') == ['a b']\n  What it uses:\n    def run(text):\n" in told
    assert "unused" not in told and told.count("Blanks are kept.") == 1
    assert told.endswith("    LIMIT = 3")
    other = check.model_copy(update={"input": source.replace("test_b", "test_c").replace('"a b")', '"a  b")'),
                                     "subject": Subject(kind="check", path="", function="test_c")})  # fmt: skip
    failed = feedback([cell, cell.model_copy(update={"detail": "no"})], [check, other], "trusted")
    assert "run('a  b')" in failed[1] and "\n".join(failed).count("def run(text)") == 1, "what both use is told once"
    (unsaid,) = feedback([cell], [check.model_copy(update={"sentence": ""})], "trusted")
    assert unsaid.startswith("test_b: AssertionError")


def file_fault(
    level: Level, expectation: Expectation, outcome: Outcome = "fail", confidence: float = 0.3
) -> int | None:
    """The rank of what is told of one failed test of a file, with its words of doubt looked after."""
    test = SelfTest(id="t", category="format", subject=Subject(kind="file", path="out.txt"), expectation=expectation,
                    confidence=confidence)  # fmt: skip
    row = [Cell(outcome=outcome, detail="x " * 200)]
    rank, told = worst(row, [test], level), feedback(row, [test], level)
    assert len(told) == (rank is not None)
    assert all(len(line) <= 240 and line.endswith("; the test may be wrong") == (rank == 2) for line in told)
    return rank


@pytest.mark.parametrize("expectation", [ExpectedValue(value="1"), Rejected()], ids=str)
def test_what_a_file_should_hold_is_an_assertion_like_any_other(expectation: Expectation) -> None:
    assert file_fault("crashes", expectation) is file_fault("trusted", expectation) is None
    assert file_fault("trusted", expectation, confidence=0.9) == file_fault("full", expectation) == 2
    assert file_fault("crashes", expectation, outcome="error") == 0, "the file is not there"


def test_faults_are_ranked_by_their_kind_and_a_file_of_a_wrong_form_is_told_always():
    row, tests = judged(("fail", 0.9, "observed 2 where 1 was expected"), ("error", 0.1, "TypeError"),
                        ("error", 0.2, "does not load: SyntaxError"))  # fmt: skip
    assert worst(row, tests, "full") == 0 and worst(row[:2], tests[:2], "full") == 1
    told = feedback(row, tests, "full")
    assert [line.split(": ", 1)[1].split()[0] for line in told] == ["does", "TypeError", "observed"]
    for name in FILE_PROPERTIES:
        assert file_fault("crashes", Property(name=name)) == 0, name


def test_a_lineage_is_repaired_so_often_and_missing_files_come_before_crashes_and_wrong_answers():
    ranks = {"c1.0": 1}
    assert repairable([PARENT], ranks, limit=2, count=1) == (PARENT,)
    assert repairable([PARENT.model_copy(update={"repairs": 2})], ranks, limit=2, count=1) == ()
    child = PARENT.model_copy(update={"id": "c2.0", "parent": "c1.0"})
    assert repairable([PARENT, child], ranks, limit=2, count=1) == ()
    pool = [PARENT.model_copy(update={"id": f"c1.{i}", "lineage": i}) for i in range(4)]
    found = repairable(pool, {"c1.0": 2, "c1.1": 1, "c1.2": 0, "c1.3": None}, limit=2, count=3)
    assert [one.id for one in found] == ["c1.2", "c1.1", "c1.0"]


def test_seeds_and_names_derive_from_digest_and_place_alone_and_what_differs_between_runs_is_normalised():
    assert seed_of("d", 0, "solver", 1, 2) == seed_of("d", 0, "solver", 1, 2) < 2**31
    assert len({seed_of(d, s, r, 1) for d in "de" for s in (0, 1) for r in ("solver", "tester")}) == 8
    assert sandbox_name("d", "t", "base") != sandbox_name("d", "t", "fork", "c1.0")
    first = "<f at 0x7f2a11223344> in /tmp/hc/ab12cd/tabc_1234 took, 2026-11-21 10:00:01; 3 passed in 0.12s"
    second = "<f at 0x7e0000000000> in /tmp/hc/ffffff/txyz98765 took, 2027-01-02 23:59:59; 3 passed in 9s"
    assert normal(first) == normal(second)
    assert normal("12 apples in 3 boxes at 7") == "12 apples in 3 boxes at 7"
    first = "no answer at 139876472514792, (1795304993.8741176, '/tmp/hc/541206a6e7bb/tab12cd34/tmp7gfh2a7w')"
    second = "no answer at 140344867219688, (1795305001.123456, '/tmp/hc/541206a6e7bb/tzz98yx76/tmpq1w2e3r4')"
    assert normal(first) == normal(second)
    assert normal("/tmp/hc/ae526080c749/t_1b2c3d4/1/tmp16200z0f") == normal("/tmp/hc/ae526080c749/base/tmpgxmokw79")
    assert normal("1700000000, 123456789012345, 1612345678.5") == "1700000000, 123456789012345, 1612345678.5"
