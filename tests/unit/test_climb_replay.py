"""Stored searches decided again: what each candidate is worth is known, and a self-test tells right from wrong."""

from types import SimpleNamespace

from hc_ray.domain.config import SolverConfig
from hc_ray.domain.errors import VerifierError
from hc_ray.domain.suite import Cell, ExpectedValue, PassMatrix, SelfTest, Subject
from hc_ray.reports.replay import Attempt, Pool
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.cluster import InProcess
from hc_ray_actors.jobs.climb import _sweeps
from hc_ray_actors.jobs.climb_replay import Look, StoredTrials, look_at

TEST = SelfTest(id="t", category="happy_path", subject=Subject(kind="call", path="a.py", function="f"), input="f(1)",
                expectation=ExpectedValue(value="1"), confidence=1.0)  # fmt: skip
START = SolverConfig(samples=3, repairs=1, max_rounds=2, selector="mbr")


def pool(task, *made, graded=True):
    """``made``: round, lineage, repairs, whether it is right, of each candidate."""
    attempts = tuple(Attempt(id=f"c{number}.{i}", round=number, lineage=lineage, repairs=repairs, digest=str(i),
                             passed=right if graded else None)
                     for i, (number, lineage, repairs, right) in enumerate(made))  # fmt: skip
    cells = tuple((Cell(outcome="pass" if one[3] else "fail", observed=str(int(one[3]))),) for one in made)
    matrix = PassMatrix(candidates=tuple(one.id for one in attempts), tests=("t",), cells=cells)
    return Pool(trial=task, task=task, agent="hc", config_hash="", attempts=attempts, matrix=matrix, tests=(TEST,))


def gain(changes, *made, start=START):
    pools = [pool(f"t{i}", *made) for i in range(6)]
    return look_at(pools, start, start.model_copy(update=changes)).gain


def test_another_selector_narrower_or_fewer_rounds_and_fewer_repairs_are_judged_by_what_they_would_hand_in():
    outvoted = ((1, 0, 0, False), (1, 1, 0, False), (1, 2, 0, True))
    by_suite = START.model_copy(update={"selector": "max_pass"})
    assert gain({"selector": "max_pass"}, *outvoted) == 1.0 and gain({"selector": "mbr"}, *outvoted) == 0.0
    assert gain({"samples": 2}, *outvoted, start=by_suite) == -1.0
    late = ((1, 0, 0, False), (2, 0, 1, True), (2, 1, 0, False))
    assert gain({"repairs": 0}, *late, start=by_suite) == gain({"max_rounds": 1}, *late, start=by_suite) == -1.0
    assert gain({"samples": 2}, *late, start=by_suite) == 0.0
    wide = tuple((1, lineage, 0, lineage == 3) for lineage in range(4))
    assert gain({"samples": 1}, *wide, start=by_suite) == 0.0, "a round on mixed signals stays as it was"


def test_pools_that_nobody_graded_and_fewer_than_six_tasks_say_nothing() -> None:
    made = ((1, 0, 0, False), (1, 1, 0, False), (1, 2, 0, True))
    after = START.model_copy(update={"selector": "max_pass"})
    pools = [pool(f"t{i % 5}", *made) for i in range(10)]
    assert look_at(pools, START, after) == Look(gain=None, pools=10)
    pools += [pool("t6", *made, graded=False)]
    assert look_at(pools, START, after) == Look(gain=None, pools=10)
    assert look_at([*pools, pool("t7", (1, 0, 0, False))], START, after) == Look(gain=5 / 6, pools=11)


class Auditor(InProcess):
    """Answers, or fails, and counts how often it was asked."""

    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    def spawn(self, cls, *args, **where):
        assert getattr(cls, "opens_sealed", False) and where["node"] == self.here
        return self

    async def look(self, *asked):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_look_is_taken_once_and_kept_over_a_resume_and_one_that_fails_speaks_against_nothing(tmp_path):
    after, told = START.model_copy(update={"selector": "max_pass"}), []
    first, second = Auditor(Look(gain=-0.25, pools=12)), Auditor(Look(gain=0.5))
    for auditor in (first, second):
        trials = StoredTrials(str(tmp_path), auditor, lambda: ["a"], told.append)
        assert [trials(START, after) for _ in range(2)] == [-0.25, -0.25]
    assert (first.asked, second.asked, told) == (1, 0, [])
    trials = StoredTrials(str(tmp_path), Auditor(VerifierError("no sandbox\ndetails")), lambda: ["a"], told.append)
    assert trials(after, START) is None and told == ["stored trials were not looked at: no sandbox"]


def test_stored_trials_are_found_from_another_folder_and_left_alone_where_no_verifier_may_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = SweepStore("runs/c")
    store.write("sweeps.json", b'{"digest": "001-race"}')
    assert _sweeps(SimpleNamespace(out="runs/c"), store) == [f"{tmp_path}/runs/c/sweeps/001-race"]
    elsewhere, told = Auditor(Look(gain=0.5)), []
    elsewhere.free = lambda resource: {"another node": 2.0}
    trials = StoredTrials(str(tmp_path), elsewhere, lambda: ["a"], told.append)
    assert trials(START, START) is None and elsewhere.asked == 0 and "no free verifier_slot" in told[0]
