from hc_ray.candidate import Candidate
from hc_ray.config import SolverConfig
from hc_ray.normal import normal
from hc_ray.profile import Profile
from hc_ray.solve.propose import files_digest, independent_slots, round_slots
from hc_ray.solve.repair import feedback, repairable
from hc_ray.solve.seeds import sandbox_name, seed_of
from hc_ray.suite import Cell, ExpectedValue, SelfTest, Subject

PARENT = Candidate(id="c1.0", round=1, slot=0, lineage=0, seed=1, temperature=0.3, form="chat", plan="plain",
                   files={"m.py": "x"})  # fmt: skip


def test_a_round_walks_temperatures_and_forms_and_shifts_its_plans() -> None:
    config = SolverConfig(forms=("chat", "completion"), samples=4)
    first, second = (
        round_slots(config, Profile(), number=number, task_digest="d", trial_seed=0, next_lineage=0)
        for number in (1, 2)
    )
    assert [slot.temperature for slot in first] == [0.3, 0.5, 0.7, 0.3]
    assert [slot.form for slot in first] == ["chat", "completion", "chat", "completion"]
    assert first[0].plan != second[0].plan and first[0].seed != second[0].seed
    assert len({slot.lineage for slot in first}) == 4


def test_repairs_take_the_first_slots_and_stay_in_their_lineage() -> None:
    slots = round_slots(SolverConfig(), Profile(), number=2, task_digest="d", trial_seed=0, next_lineage=3,
                        to_repair=[PARENT])  # fmt: skip
    assert (slots[0].parent, slots[0].lineage, slots[0].repairs) == ("c1.0", 0, 1)
    assert [slot.lineage for slot in slots[1:]] == [3, 4] and slots[1].parent is None


def test_independent_samples_have_seeds_of_their_own_whatever_the_batches() -> None:
    def seeds(*batches: int) -> list[int]:
        made: list[int] = []
        for number, count in enumerate(batches, start=1):
            slots = independent_slots(SolverConfig(), Profile(), number=number, count=count, begin=len(made),
                                      task_digest="d", trial_seed=0)  # fmt: skip
            made += [slot.seed for slot in slots]
        return made

    assert seeds(5) == seeds(2, 3) and len(set(seeds(5))) == 5


def test_layout_and_comments_do_not_make_another_candidate() -> None:
    assert files_digest({"m.py": "def f():\n  return 1 # one\n"}) == files_digest({"m.py": "def f():\n\n    return 1"})
    assert files_digest({"m.py": "x = 1"}) != files_digest({"m.py": "x = 2"})
    assert files_digest({"m.txt": "a \n"}) == files_digest({"m.txt": "a"})
    assert files_digest({"m.py": "x = ("}) != files_digest({"m.py": "y = ("})


def cell_and_test(outcome: str, confidence: float, detail: str) -> tuple[Cell, SelfTest]:
    test = SelfTest(id="t", category="boundary", subject=Subject(kind="call", path="m.py", function="f"),
                    input=f"f({confidence})", expectation=ExpectedValue(value="1"), confidence=confidence)  # fmt: skip
    return Cell.model_validate({"outcome": outcome, "detail": detail}), test


def test_how_much_a_repair_is_told_follows_the_knob() -> None:
    pairs = [cell_and_test("error", 0.1, "TypeError: no"),
             cell_and_test("fail", 0.9, "observed 2 where 1 was expected"),
             cell_and_test("fail", 0.2, "observed 3 where 1 was expected"), cell_and_test("pass", 0.9, "")]  # fmt: skip
    row, tests = [cell for cell, _ in pairs], [test for _, test in pairs]
    assert len(feedback(row, tests, "crashes")) == 1
    assert feedback(row, tests, "trusted")[1].endswith("observed 2 where 1 was expected; the test may be wrong")
    assert len(feedback(row, tests, "full")) == 3


def test_the_same_crash_at_every_input_is_told_once() -> None:
    pairs = [cell_and_test("error", n / 10, "does not load: SyntaxError (line 3)") for n in range(5)]
    assert len(feedback([cell for cell, _ in pairs], [test for _, test in pairs], "full")) == 1


def test_a_lineage_is_repaired_so_often_and_no_more() -> None:
    told = {"c1.0": ("crash",)}
    assert repairable([PARENT], ["c1.0"], told, limit=2, count=1) == (PARENT,)
    worn = PARENT.model_copy(update={"repairs": 2})
    assert repairable([worn], ["c1.0"], told, limit=2, count=1) == ()
    child = PARENT.model_copy(update={"id": "c2.0", "parent": "c1.0"})
    assert repairable([PARENT, child], ["c1.0", "c2.0"], told, limit=2, count=1) == ()


def test_seeds_and_names_derive_from_the_public_digest_and_the_place_alone() -> None:
    assert seed_of("d", 0, "solver", 1, 2) == seed_of("d", 0, "solver", 1, 2) < 2**31
    assert len({seed_of(d, s, r, 1) for d in "de" for s in (0, 1) for r in ("solver", "tester")}) == 8
    assert sandbox_name("d", "t", "base") != sandbox_name("d", "t", "fork", "c1.0")


def test_what_differs_between_equal_runs_is_normalised() -> None:
    first = "<f at 0x7f2a11223344> in /tmp/hc/ab12cd/tabc_1234 took, 2026-11-21 10:00:01; 3 passed in 0.12s, host-a1"
    second = "<f at 0x7e0000000000> in /tmp/hc/ffffff/txyz98765 took, 2027-01-02 23:59:59; 3 passed in 9s, host-b2"
    assert normal(first, host="host-a1") == normal(second, host="host-b2")
    assert normal("12 apples in 3 boxes at 7") == "12 apples in 3 boxes at 7"


def test_addresses_epoch_times_and_scratch_folders_of_a_candidates_answer_are_normalised() -> None:
    first = "no answer at 139876472514792, (1795304993.8741176, '/tmp/hc/541206a6e7bb/tab12cd34/tmp7gfh2a7w')"
    second = "no answer at 140344867219688, (1795305001.123456, '/tmp/hc/541206a6e7bb/tzz98yx76/tmpq1w2e3r4')"
    assert normal(first) == normal(second)
    assert normal("1700000000, 123456789012345, 1612345678.5") == "1700000000, 123456789012345, 1612345678.5"
