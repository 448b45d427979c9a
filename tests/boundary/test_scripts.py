import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.fakes.processes import program, ran
from tests.fakes.sandbox_home import open_folder

CHECKOUT = Path(__file__).parents[2]
SCRIPTS = sorted(path for path in (CHECKOUT / "scripts").iterdir() if path.is_file())
NOBODY = 65534


@pytest.fixture
def public_folder():
    with open_folder() as folder:
        yield folder


def as_normal_user(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command as a user who is not root: this one, or nobody."""
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    return ran(*drop, *command, cwd=cwd, env={"HOME": str(cwd), "PATH": "/usr/local/bin:/usr/bin:/bin"})


@pytest.mark.parametrize("script", [*SCRIPTS, CHECKOUT / ".ci/run"], ids=lambda path: path.name)
def test_a_script_is_an_executable_verb_that_bash_can_parse(script):
    assert script.suffix == "" and os.access(script, os.X_OK)
    if script.read_text().startswith("#!/usr/bin/env bash"):
        assert ran("bash", "-n", script, cwd=CHECKOUT).returncode == 0
    else:
        compile(script.read_text(), str(script), "exec")


def test_the_workflow_and_the_commit_hooks_call_scripts_that_are_there():
    jobs = yaml.safe_load((CHECKOUT / ".github/workflows/ci.yml").read_text())["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    (local,) = yaml.safe_load((CHECKOUT / ".pre-commit-config.yaml").read_text())["repos"]
    called = {line for line in runs if not line.startswith("sudo ")} | {hook["entry"] for hook in local["hooks"]}
    assert {CHECKOUT / script for script in called} <= set(SCRIPTS)
    assert {"scripts/check", "scripts/docs", "scripts/test", "scripts/demo", "scripts/lint"} <= called


BENCHES = [path for path in sorted((CHECKOUT / "tests/bench").glob("*.py")) if path.stem != "null_world"]


@pytest.mark.parametrize("bench", BENCHES, ids=lambda path: path.stem)
def test_a_bench_names_itself_and_keeps_the_lines_of_its_examples(bench):
    text = bench.read_text()
    told = ran(CHECKOUT / "scripts/bench", bench.stem, "--help", cwd=CHECKOUT).stdout
    assert told.startswith(f"usage: scripts/bench {bench.stem.replace('_', '-')} ")
    examples = [line for line in text.splitlines() if line.startswith("    scripts/bench ")]
    assert set(examples) <= set(told.splitlines())


def test_a_bench_of_no_task_says_so_in_one_line_before_it_measures_anything(tmp_path):
    told = ran(CHECKOUT / "scripts/bench", "engine-use", "--tag", "nothing", "-o", tmp_path / "out", cwd=CHECKOUT)
    assert told.returncode == 2 and "no task to run" in told.stderr and len(told.stderr.splitlines()) == 1


def test_install_refuses_a_folder_it_cannot_write_and_an_unknown_argument_in_one_line(public_folder, tmp_path):
    (public_folder / "scripts").mkdir()
    shutil.copy(CHECKOUT / "scripts/install", public_folder / "scripts")
    public_folder.chmod(0o555)
    result = as_normal_user(public_folder / "scripts/install", cwd=public_folder)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
    assert "cannot be written by" in result.stderr and "folder of your own" in result.stderr
    (tmp_path / "scripts").mkdir()
    shutil.copy(CHECKOUT / "scripts/install", tmp_path / "scripts")
    result = ran(tmp_path / "scripts/install", "--sideways", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr == "install: unknown argument --sideways; the options are --dev and --cluster\n"
    assert not (tmp_path / ".venv").exists()


def test_install_refuses_a_folder_whose_name_python_cannot_read_in_the_locale(tmp_path):
    (tmp_path / "café/scripts").mkdir(parents=True)
    shutil.copy(CHECKOUT / "scripts/install", tmp_path / "café/scripts")
    result = ran("env", "LC_ALL=C", tmp_path / "café/scripts/install", cwd=tmp_path)
    assert result.returncode == 1 and "café in this locale: export LC_ALL=C.UTF-8, or" in result.stderr
    assert not (tmp_path / "café/.venv").exists()


def test_ci_setup_refuses_a_user_who_is_not_root_in_one_line(public_folder):
    script = public_folder / "ci-setup"
    shutil.copy(CHECKOUT / "scripts/ci-setup", script)
    result = as_normal_user(script, cwd=public_folder)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1 and "needs root" in result.stderr


@pytest.fixture
def demo(tmp_path):
    """scripts/demo beside an installer and an hc-ray that only write down how they are called."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(CHECKOUT / "scripts/demo", tmp_path / "scripts")
    program(tmp_path / "scripts/install", "echo install >> calls")
    program(tmp_path / ".venv/bin/hc-ray", 'echo "$*" >> calls; [ "$1" != sweep ] || exit "$(cat status)"')
    (tmp_path / "status").write_text("0")
    return tmp_path


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize("given", [
    (), ("-o", "runs/mine"), ("--out", "runs/mine"), ("--out=runs/mine",), ("-oruns/mine",),
])  # fmt: skip
def test_the_demo_installs_sweeps_and_reports_on_a_fresh_folder_or_the_one_that_its_caller_names(demo, given):
    result = ran(demo / "scripts/demo", *given, *(["--resume"] if given else []), cwd=demo)
    assert result.returncode == 0, result.stderr
    install, sweep, report = calls(demo)
    out = report.removeprefix("report ")
    assert install == "install" and f"hc-ray ui {out}" in result.stdout
    assert out == "runs/mine" if given else out.startswith("runs/demo-")
    assert sweep == f"sweep configs/demo.yaml {' '.join((*given, '--resume') if given else ('-o', out))}"


def test_a_demo_that_was_interrupted_or_planned_reports_nothing_and_one_with_unscored_trials_does(demo):
    assert ran(demo / "scripts/demo", "--dry-run", cwd=demo).returncode == 0
    (demo / "status").write_text("130")
    assert ran(demo / "scripts/demo", cwd=demo).returncode == 130
    assert not any(call.startswith("report") for call in calls(demo))
    (demo / "status").write_text("3")
    assert ran(demo / "scripts/demo", cwd=demo).returncode == 3 and calls(demo)[-1].startswith("report ")


@pytest.mark.parametrize(("ci", "outcome"), [("true", "1 passed, 1 error in"), ("", "1 passed, 1 skipped in")])
def test_without_a_docker_daemon_docker_tests_fail_on_ci_and_are_skipped_elsewhere(tmp_path, ci, outcome):
    shutil.copy(CHECKOUT / "tests/conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    docker: needs Docker\n")
    (tmp_path / "test_seeded.py").write_text(
        "import pytest\n\n\n@pytest.mark.docker\ndef test_with_docker():\n    pass\n\n\ndef test_without():\n    pass\n"
    )
    env = {**os.environ, "CI": ci, "DOCKER_HOST": f"unix://{tmp_path}/none.sock", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = ran(sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", tmp_path, cwd=tmp_path, env=env)
    assert outcome in result.stdout and "scripts/ci-setup" in result.stdout
