import os
import shutil
import tarfile
from pathlib import Path

import pytest

from hc_ray.blind.sealing import vault
from hc_ray.blind.sealing.canaries import planted_tokens
from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import DatasetError
from hc_ray.domain.task import Task
from hc_ray_actors.driver.plan import _notes
from tests.fakes.tasks import INSTRUCTION, TEST_SH, TOML, make_task


@pytest.fixture
def roots(tmp_path):
    return tmp_path / "public", tmp_path / "sealed"


def digest_of_task(folder: Path, tmp_path: Path) -> str:
    (task,) = vault.seal(folder, tmp_path / "p", tmp_path / "s").tasks
    return task.digest


def test_the_public_half_holds_no_byte_of_tests_or_solution_and_no_canary(tmp_path, roots):
    make_task(tmp_path / "set", environment={"data/input.csv": "a,b\n"},
              instruction="<!-- harbor-canary GUID x -->\n# canary two\n\n" + INSTRUCTION,
              tests={"test.sh": "# SECRET-A\n", "data/x.txt": "SECRET-B"},
              solution={"solve.sh": "# SECRET-C\n"})  # fmt: skip
    sealed = vault.seal(tmp_path / "set", *roots)
    (task,) = sealed.tasks
    assert task.instruction == INSTRUCTION
    public = roots[0] / task.digest
    names = {path.relative_to(public).as_posix() for path in public.rglob("*") if path.is_file()}
    assert names == {"task.json", "instruction.md", "environment/Dockerfile", "environment/data/input.csv"}
    everything = b"".join(path.read_bytes() for path in public.rglob("*") if path.is_file())
    assert b"SECRET" not in everything and b"timeout_sec" in everything
    (token,) = planted_tokens(roots[1])
    assert token.encode() not in everything
    assert Task.model_validate_json((public / "task.json").read_bytes()) == task


def test_the_sealed_half_is_closed_to_other_users_and_carries_a_canary(tmp_path, roots):
    make_task(tmp_path / "set")
    sealed = vault.seal(tmp_path / "set", *roots)
    place = roots[1] / sealed.tasks[0].digest
    assert oct(roots[1].stat().st_mode & 0o777) == "0o700"
    assert all(path.stat().st_mode & 0o077 == 0 for path in place.rglob("*"))
    ((token, digest),) = planted_tokens(roots[1]).items()
    assert digest == place.name and token in (place / "tests/test.sh").read_text()
    assert token in (place / "solution/.hc-ray-canary").read_text()
    assert vault.sealed_files(roots[1], place.name, "tests")["test.sh"][1] is True
    assert ".hc-ray-canary" not in vault.sealed_files(roots[1], place.name, "tests")


def test_the_public_half_is_readable_by_everybody_under_any_umask(tmp_path, roots):
    make_task(tmp_path / "set", environment={"run.sh": "true\n", "d/e/f.txt": "x"})
    before = os.umask(0o077)
    try:
        (task,) = vault.seal(tmp_path / "set", *roots).tasks
    finally:
        os.umask(before)
    place = roots[0] / task.digest
    for path in [roots[0], place, *place.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() or path.suffix == ".sh" else 0o644), path


def test_the_public_digest_ignores_name_tags_spelling_and_everything_sealed_and_no_executable_bit(tmp_path):
    one = make_task(tmp_path / "1", "one")
    toml = TOML.replace('["made"]', '["other"]').replace(
        "[verifier]\ntimeout_sec = 60.0", "[verifier]\ntimeout_sec = 5"
    )
    old = toml.replace('schema_version = "1.1"', 'version = "1.0"').replace("memory_mb = 512", 'memory = "512M"')
    two = make_task(
        tmp_path / "2", "two", toml=old + '[task]\nname = "org/other"\n',
        tests={"test.sh": "exit 0\n"}, solution={"solve.sh": "true\n"},
    )  # fmt: skip
    assert digest_of_task(one, tmp_path / "x") == digest_of_task(two, tmp_path / "y")
    (two / "environment/Dockerfile").chmod(0o755)
    assert digest_of_task(one, tmp_path / "x") != digest_of_task(two, tmp_path / "y")


@pytest.mark.parametrize("change", [
    {"instruction": INSTRUCTION + "And more.\n"},
    {"environment": {"extra.txt": ""}},
    {"dockerfile": "FROM python:3.11-slim-bookworm\nWORKDIR /srv\n"},
    {"toml": TOML.replace("memory_mb = 512", "memory_mb = 1024")},
    {"toml": TOML.replace("[agent]\ntimeout_sec = 60.0", "[agent]\ntimeout_sec = 61.0")},
])  # fmt: skip
def test_the_public_digest_changes_with_all_that_a_solver_sees(tmp_path, change):
    one, two = make_task(tmp_path / "1"), make_task(tmp_path / "2", **change)
    assert digest_of_task(one, tmp_path / "x") != digest_of_task(two, tmp_path / "y")


def test_what_running_tests_leaves_behind_changes_no_digest(tmp_path, roots):
    folder = make_task(tmp_path / "set")
    first = vault.seal(tmp_path / "set", *roots)
    for part in ("tests", "environment", "solution"):
        (folder / part / "__pycache__").mkdir()
        (folder / part / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"x")
        (folder / part / ".DS_Store").write_bytes(b"x")
    assert vault.seal(tmp_path / "set", *roots) == first


def test_one_bad_task_never_hides_the_others(tmp_path, roots):
    data = tmp_path / "set"
    make_task(data, "good")
    make_task(data, "broken", toml="[environment\n")
    make_task(data, "stepped", toml="[[steps]]\nname = 'x'\n")
    make_task(data, "bare", dockerfile=None)
    make_task(data, "buildkit", dockerfile="FROM x\nRUN --mount=type=cache,target=/x true\n")
    (make_task(data, "untested") / "tests/test.sh").unlink()
    (make_task(data, "linked") / "environment/leak").symlink_to("../tests/test.sh")
    (make_task(data, "away") / "tests/passwd").symlink_to("/etc/passwd")
    sealed = vault.seal(data, *roots)
    assert [task.name for task in sealed.tasks] == ["good"]
    reasons = {refused.name: refused.reason for refused in sealed.refused}
    assert set(reasons) == {"broken", "stepped", "bare", "buildkit", "untested", "linked", "away"}
    assert "line 1" in reasons["broken"] and "multi-step" in reasons["stepped"]
    assert "points outside" in reasons["linked"] and "points outside" in reasons["away"]
    assert all("\n" not in reason for reason in reasons.values())


@pytest.mark.parametrize(("verifier", "extra", "taken"), [
    ('environment_mode = "separate"', {}, True),
    ('environment_mode = "separate"', {"Dockerfile": "FROM x\n"}, True),
    ('environment_mode = "separate"', {"docker-compose.yaml": "services: {}\n"}, False),
    ('environment_mode = "separate"', {"Dockerfile": "RUN --mount=type=cache true\n"}, False),
    ('environment_mode = "shared"', {"Dockerfile": "FROM x\n"}, True),
    ("[verifier.environment]\ncpus = 2", {}, True),
    ('[verifier.environment]\ndocker_image = "x"', {}, True),
    ('[verifier.environment]\ndocker_image = "x"\ngpus = 1', {}, False),
    ('[verifier.environment]\ndocker_image = "x"\nnetwork_mode = "allowlist"\nallowed_hosts = ["a"]', {}, False),
    ('[[verifier.collect]]\ncommand = "true"', {}, False),
])  # fmt: skip
def test_verifiers_that_need_what_sandboxes_have_not_are_refused(tmp_path, roots, verifier, extra, taken):
    make_task(tmp_path / "set", toml=f"[verifier]\n{verifier}\n", tests={"test.sh": TEST_SH, **extra})
    assert bool(vault.seal(tmp_path / "set", *roots).tasks) is taken


def test_a_compose_file_is_what_harbor_takes_for_one(tmp_path, roots):
    for name in ("docker-compose.yaml", "docker-compose.yml", "compose.yaml"):
        make_task(tmp_path / "set", name, instruction=f"{name}.\n", environment={name: "services: {}\n"})
    taken = {task.name: task.environment.compose for task in vault.seal(tmp_path / "set", *roots).tasks}
    assert taken == {"docker-compose.yaml": True, "docker-compose.yml": False, "compose.yaml": False}


def test_a_plan_names_tasks_with_a_key_that_nobody_reads_and_those_without_a_reference_solution(tmp_path, roots):
    for name in ("a", "b"):
        make_task(tmp_path / "set", name, toml=TOML + "[enviroment]\n", instruction=f"{name}.\n")
    shutil.rmtree(tmp_path / "set" / "a" / "solution")
    sealed = vault.seal(tmp_path / "set", *roots)
    assert len(sealed.tasks) == 2
    says = "enviroment is unknown to hc-ray, which ignores it: did you mean environment?"
    notes = _notes(SweepConfig(), None, sealed, sealed.tasks)
    assert f"task.toml of a, b: {says}" in notes
    assert f"task.toml of a: {says}" in _notes(SweepConfig(), None, sealed, sealed.tasks[:1])
    (note,) = (one for one in notes if "reference" in one)
    assert "the tests of a can pass" in note


def test_twins_are_refused_with_the_name_of_the_first_and_so_are_nested_roots_and_empty_folders(tmp_path, roots):
    make_task(tmp_path / "set", "a")
    make_task(tmp_path / "set", "b")
    sealed = vault.seal(tmp_path / "set", *roots)
    assert [task.name for task in sealed.tasks] == ["a"] and sealed.refused[0].name == "b"
    assert sealed.refused[0].reason.endswith("the same task as a")
    make_task(tmp_path / "set")
    with pytest.raises(DatasetError, match="contain"):
        vault.seal(tmp_path / "set", tmp_path / "out", tmp_path / "out" / "sealed")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="no task"):
        vault.seal(tmp_path / "empty", tmp_path / "p", tmp_path / "s")


def test_sealing_again_changes_nothing_but_for_a_changed_test(tmp_path, roots):
    folder = make_task(tmp_path / "set")
    first = vault.seal(tmp_path / "set", *roots)
    assert vault.seal(tmp_path / "set", *roots) == first
    (folder / "tests/test.sh").write_text(TEST_SH + "# stricter\n")
    changed = vault.seal(tmp_path / "set", *roots)
    digest = first.tasks[0].digest
    assert changed.tasks == first.tasks and changed.sealed_digests[digest] != first.sealed_digests[digest]
    assert b"stricter" in vault.sealed_files(roots[1], digest, "tests")["test.sh"][0]
    assert {path.name for path in roots[1].iterdir()} == {digest}
    assert {path.name for path in roots[0].iterdir()} == {digest}


def test_a_shipped_archive_supplies_tests_and_solutions(tmp_path, roots):
    whole = tmp_path / "whole"
    make_task(whole, "add")
    expected = vault.seal(whole, tmp_path / "p", tmp_path / "s")
    shipped = tmp_path / "lib" / "starter"
    for path in whole.rglob("*"):
        part = path.relative_to(whole)
        if path.is_file() and part.parts[1] not in ("tests", "solution"):
            (shipped / part).parent.mkdir(parents=True, exist_ok=True)
            (shipped / part).write_bytes(path.read_bytes())
    with tarfile.open(tmp_path / "lib" / "starter.sealed.tar.gz", "w:gz") as tar:
        for part in ("add/tests", "add/solution"):
            tar.add(whole / part, part)
    for folder in (shipped, shipped / "add"):
        sealed = vault.seal(folder, *roots)
        assert sealed.tasks == expected.tasks and sealed.sealed_digests == expected.sealed_digests
    assert {path.name for path in roots[1].iterdir()} == {sealed.tasks[0].digest}


def test_files_that_tasks_share_are_whole_in_each_and_change_only_its_sealed_digest(tmp_path, roots):
    helper = tmp_path / "set" / "shared-tests" / "helper.py"
    helper.parent.mkdir(parents=True)
    helper.write_text("SHARED = 1\n")
    task = make_task(tmp_path / "set", tests={"test.sh": TEST_SH})
    (task / "tests/helper.py").symlink_to("../../shared-tests/helper.py")
    plain = make_task(tmp_path / "plain", tests={"test.sh": TEST_SH, "helper.py": "SHARED = 1\n"})
    before = vault.seal(tmp_path / "set", *roots)
    assert before.sealed_digests == vault.seal(plain, tmp_path / "p", tmp_path / "s").sealed_digests
    digest = before.tasks[0].digest
    assert vault.sealed_files(roots[1], digest, "tests")["helper.py"] == (b"SHARED = 1\n", False)
    assert not (roots[1] / digest / "tests/helper.py").is_symlink()
    assert not any(path.name in ("helper.py", "shared-tests") for path in roots[0].rglob("*"))
    helper.write_text("SHARED = 2\n")
    after = vault.seal(task, *roots)
    assert after.tasks == before.tasks and after.sealed_digests.keys() == before.sealed_digests.keys()
    assert after.sealed_digests != before.sealed_digests


@pytest.mark.parametrize("target", ["../../shared-tests/../other/solution/solve.sh", "../../shared-tests/out/secret"])
def test_a_way_through_the_shared_folder_is_refused(tmp_path, roots, target):
    make_task(tmp_path / "set", "other")
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "secret").write_text("x")
    (tmp_path / "set" / "shared-tests").mkdir()
    (tmp_path / "set" / "shared-tests" / "out").symlink_to(tmp_path / "away")
    task = make_task(tmp_path / "set")
    (task / "tests/linked").symlink_to(target)
    sealed = vault.seal(task, *roots)
    assert sealed.tasks == () and "is a link that points outside the task folder" in sealed.refused[0].reason


def test_host_variables_are_resolved_and_a_missing_one_refuses(tmp_path, roots, monkeypatch):
    monkeypatch.setenv("HC_TEST_SET", "here")
    monkeypatch.delenv("HC_TEST_UNSET", raising=False)
    make_task(tmp_path / "a", toml='[environment]\nenv = {A = "${HC_TEST_SET}", B = "${HC_TEST_UNSET:-dflt}"}')
    (task,) = vault.seal(tmp_path / "a", *roots).tasks
    assert task.environment.env == {"A": "here", "B": "dflt"}
    make_task(tmp_path / "b", toml='[environment]\nenv = {A = "${HC_TEST_UNSET}"}')
    assert "HC_TEST_UNSET" in vault.seal(tmp_path / "b", *roots).refused[0].reason


def test_where_the_tests_run_is_public_and_changes_no_digest_of_those_that_are_silent(tmp_path, roots):
    tasks = {}
    for mode in ("", 'environment_mode = "separate"', 'environment_mode = "shared"'):
        make_task(tmp_path / "set", toml=f"[verifier]\n{mode}\n")
        (task,) = vault.seal(tmp_path / "set", *roots).tasks
        tasks[mode] = task
    silent, fresh, shared = tasks.values()
    assert (silent.grading, fresh.grading, shared.grading) == ("isolated", "isolated", "shared")
    assert silent.digest == fresh.digest != shared.digest


def test_the_image_of_a_verifier_lies_on_the_sealed_side_with_what_it_is_built_from(tmp_path, roots):
    toml = (
        'artifacts = ["out", {source = "/srv/data", exclude = ["*.log"]}]\n[verifier]\nenvironment_mode = "separate"\n'
    )
    tests = {"test.sh": TEST_SH, "Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /grade\nCOPY . /grade\n"}
    make_task(tmp_path / "set", toml=toml, tests=tests)
    (task,) = vault.seal(tmp_path / "set", *roots).tasks
    own = vault.load_spec(roots[1], task.digest).own
    assert task.grading == "separate" and own is not None
    assert [one.source for one in own.artifacts] == ["/app/out", "/srv/data"] and own.environment.workdir == "/grade"
    (context,) = vault.own_image_folder(roots[1], task.digest).glob("*/environment")
    assert sorted(path.name for path in context.iterdir()) == ["Dockerfile", "test.sh"]
    assert not list(roots[0].rglob("test.sh"))


def test_a_workdir_that_nobody_names_is_left_to_the_image_with_what_lies_in_it(tmp_path, roots):
    tests = {"test.sh": TEST_SH, "Dockerfile": "FROM x\n"}
    toml = 'artifacts = ["out"]\n[verifier]\nenvironment_mode = "separate"\n'
    dockerfile = "FROM x\nCOPY . .\nCOPY a.txt /b/\n"
    make_task(tmp_path / "set", toml=toml, tests=tests, environment={"a.txt": "1"}, dockerfile=dockerfile)
    (task,) = vault.seal(tmp_path / "set", *roots).tasks
    own = vault.load_spec(roots[1], task.digest).own
    assert own is not None and [one.source for one in own.artifacts] == ["out"]
    assert task.environment.workdir == own.environment.workdir == ""
    assert task.environment.placed("/srv").workdir == "/srv" and task.environment.placed().workdir == "/"
    assert task.environment.placed("/srv").files[-2:] == ("/srv/a.txt", "/b/a.txt")


@pytest.mark.parametrize("source", ["/logs/artifacts", "/tmp/x", "../x", '{source = "/app/x", service = "db"}'])
def test_artefacts_that_no_submission_can_hold_are_refused(tmp_path, roots, source):
    listed = source if source.startswith("{") else f'"{source}"'
    make_task(tmp_path / "set", toml=f'artifacts = [{listed}]\n[verifier.environment]\ndocker_image = "x"\n')
    sealed = vault.seal(tmp_path / "set", *roots)
    assert not sealed.tasks and sealed.refused[0].reason.startswith("artifacts: ")
