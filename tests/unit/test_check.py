import pytest

from hc_ray.blind.sealing.check import check
from hc_ray.blind.sealing.folders import new_task
from hc_ray.domain.errors import DatasetError
from tests.fakes.tasks import DOCKERFILE, SOLVE_SH, TEST_PY, TEST_SH, TOML, make_task


def faults_of(folder):
    return {(fault.task, fault.field) for fault in check(folder).faults}


def test_a_sound_task_has_no_fault_with_unknown_keys_neither(tmp_path):
    make_task(tmp_path, "new", toml=TOML + "future = 1\n")
    make_task(tmp_path, "two", environment={"data.txt": "x"}, dockerfile=DOCKERFILE + "COPY data.txt /app/\n")
    report = check(tmp_path)
    assert report.tasks == 2 and report.faults == ()


def test_a_new_task_passes_the_check_and_is_never_written_over(tmp_path):
    task = new_task(tmp_path, "mine")
    assert check(task).faults == () and check(tmp_path).tasks == 1
    with pytest.raises(DatasetError, match="already"):
        new_task(tmp_path, "mine")
    with pytest.raises(DatasetError, match="not a valid task name"):
        new_task(tmp_path, "../mine")


def test_a_misspelt_table_is_a_warning_and_a_copy_of_what_is_not_there_a_fault(tmp_path):
    make_task(tmp_path, "a", toml=TOML.replace("[agent]", "[agnet]"))
    make_task(tmp_path, "b", instruction="B.\n", dockerfile=DOCKERFILE + "COPY dta /app/data\n")
    report = check(tmp_path)
    assert [(one.task, one.field, one.remedy) for one in report.warnings] == [("a", "agnet", "did you mean agent?")]
    (fault,) = report.faults
    assert (fault.task, fault.says) == ("b", "copies dta, of which environment/ holds no file")


def test_a_volume_is_a_warning_since_no_copy_of_a_container_holds_it(tmp_path):
    lines = 'VOLUME /data $MORE\nFROM built\nVOLUME ["/last"]\n'
    make_task(tmp_path, "a", dockerfile=DOCKERFILE.replace("\n", " AS built\n", 1) + "ENV MORE=/more\n" + lines)
    report = check(tmp_path)
    (warning,) = report.warnings
    assert report.faults == () and warning.field == "environment/Dockerfile"
    assert warning.says.startswith("has VOLUME /data /more /last: Docker leaves it out")


def test_every_fault_of_one_task_is_told_at_once(tmp_path):
    make_task(tmp_path, "bad", toml="[environment]\ncpus = 'x'\n[agent]\ntimeout_sec = 0\n", instruction=" \n",
              dockerfile=None, tests={"other.sh": ""}, solution={})  # fmt: skip
    assert {field for _, field in faults_of(tmp_path / "bad")} == {
        "environment.cpus", "agent.timeout_sec", "instruction.md", "environment/Dockerfile", "tests/test.sh",
        "solution/solve.sh",
    }  # fmt: skip
    for fault in check(tmp_path / "bad").faults:
        assert fault.task == "bad" and fault.says and fault.remedy


def test_a_variable_that_tests_or_reference_need_and_this_machine_lacks_is_told_before_any_trial(tmp_path, monkeypatch):
    monkeypatch.setenv("HC_TEST_IS_SET", "1")
    toml = "[verifier.env]\nA = '${HC_TEST_IS_SET}'\nB = '${HC_TEST_LACKS}'\n[solution.env]\nC = '${HC_TEST_LACKS}'\n"
    make_task(tmp_path, "a", toml=toml)
    make_task(tmp_path, "b", instruction="B.\n", toml=toml.replace("}", ":-x}"))
    assert faults_of(tmp_path) == {("a", "verifier.env"), ("a", "solution.env")}


def test_scripts_with_the_line_ends_of_windows_are_told(tmp_path):
    crlf = SOLVE_SH.replace("\n", "\r\n")
    make_task(tmp_path, "a", tests={"test.sh": TEST_SH.replace("\n", "\r\n")}, solution={"solve.sh": crlf})
    make_task(tmp_path, "b", instruction="B.\n", solution={"solve.sh": SOLVE_SH + "printf 'a\r\n' > /app/a\n"})
    assert faults_of(tmp_path) == {("a", "tests/test.sh"), ("a", "solution/solve.sh")}


def test_one_bad_task_never_hides_the_others(tmp_path):
    make_task(tmp_path, "good")
    make_task(tmp_path, "syntax", toml="[agent\n", instruction="Another.\n")
    make_task(tmp_path, "steps", toml="[[steps]]\nname = 'a'\n", tests={}, solution={}, dockerfile=None)
    make_task(tmp_path, "mute", tests={"test.sh": "exit 0\n"}, instruction="Mute.\n")
    (make_task(tmp_path, "latin", instruction="x") / "instruction.md").write_bytes(b"caf\xe9\n")
    (make_task(tmp_path, "gone", instruction="Gone.\n") / "task.toml").unlink()
    kit = make_task(tmp_path, "kit", dockerfile="FROM x\nRUN --mount=type=cache,target=/x true\n")
    assert check(tmp_path).tasks == 7
    assert faults_of(tmp_path) == {
        ("syntax", "task.toml"), ("steps", "steps"), ("mute", "tests/test.sh"), ("latin", "instruction.md"),
        ("gone", "task.toml"), ("kit", "environment/Dockerfile"),
    }  # fmt: skip
    assert len(faults_of(kit)) == 1


def test_doubled_names_and_tasks_are_told_and_a_folder_without_tasks_is_a_user_error(tmp_path):
    with pytest.raises(DatasetError, match="no task"):
        check(tmp_path)
    with pytest.raises(DatasetError, match="not a folder"):
        check(tmp_path / "absent")
    named = '[task]\nname = "org/same"\n'
    make_task(tmp_path, "a", toml=named)
    make_task(tmp_path, "b", toml=named, instruction="Other.\n")
    make_task(tmp_path, "c", instruction="Third.\n")
    make_task(tmp_path, "d", instruction="Third.\n")
    assert faults_of(tmp_path) == {("b", "task.name"), ("d", "instruction.md")}


def test_tests_and_solutions_within_reach_of_a_solver_are_told(tmp_path):
    make_task(tmp_path, "beside", environment={"hidden/check.py": TEST_PY})
    make_task(tmp_path, "solved", environment={"s.sh": SOLVE_SH})
    make_task(tmp_path, "own", environment={"tests/test_x.py": "x"}, dockerfile=DOCKERFILE + "COPY tests /t\n")
    make_task(tmp_path, "above", environment={"tests/x": "x"}, dockerfile=DOCKERFILE + "COPY ../tests /t\n")
    (make_task(tmp_path, "linked", instruction="L\n") / "environment/t.sh").symlink_to("../tests/test.sh")
    make_task(tmp_path, "data", environment={"in.csv": "1,2\n"}, tests={"test.sh": TEST_SH, "in.csv": "1,2\n"})
    assert faults_of(tmp_path) == {
        ("beside", "environment/hidden/check.py"), ("solved", "environment/s.sh"), ("above", "environment/Dockerfile"),
        ("linked", "environment"),
    }  # fmt: skip
