import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.packages import build_wheel, copy_source, found_uv, make_environment, online_at_need, uv
from tests.fakes.pages import lay_out
from tests.fakes.processes import ran
from tests.fakes.sandbox_home import open_folder

CHECKOUT = Path(__file__).parents[2]
DATASET = "seeded_set"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built, with one more dataset whose files are known."""
    root = tmp_path_factory.mktemp("source")
    copy_source(root)
    task = root / "configs/tasks" / DATASET / "one"
    for name, text in {
        "task.toml": "",
        "instruction.md": "Write it.",
        "environment/Dockerfile": "FROM scratch\n",
        "environment/tests/kept.txt": "an environment may hold a folder of this name",
        "tests/test.sh": "#!/bin/sh\n",
        "tests/deep/data.txt": "hidden",
        "solution/solve.sh": "#!/bin/sh\n",
        "tests/__pycache__/stale.pyc": "",
    }.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)
    (task / "tests/test.sh").chmod(0o755)
    shared = root / "configs/tasks" / DATASET / "shared-tests" / "helper.py"
    shared.parent.mkdir()
    shared.write_text("hidden too")
    (task / "tests/helper.py").symlink_to("../../shared-tests/helper.py")
    return root


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the tree."""
    return build_wheel(source, tmp_path_factory.mktemp("wheel"))


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_a_wheel_holds_both_packages_and_the_configs(wheel: Path) -> None:
    held = names(wheel)
    assert "hc_ray/cli/app.py" in held and "hc_ray_actors/__init__.py" in held and "hc_ray/_configs/demo.yaml" in held
    assert any(name.startswith("hc_ray/_configs/models/") for name in held)
    assert any(name.startswith("hc_ray/_configs/tasks/starter/") for name in held)
    assert "hc_ray/_configs/tasks/starter.sealed.tar.gz" in held
    assert {"hc_ray/agent/shipped_skills/python-library/SKILL.md", "hc_ray/tasks/benchmark.xz"} <= set(held)


def test_a_wheel_shows_no_test_and_no_solution_outside_the_sealed_archives(wheel: Path) -> None:
    tasks = [Path(name).parts for name in names(wheel) if name.startswith("hc_ray/_configs/tasks/")]
    exposed = [parts for parts in tasks if {"tests", "solution", "shared-tests"} & {*parts[4:6]}]
    assert tasks and exposed == []


def test_a_sealed_archive_holds_what_was_taken_out_under_the_same_names(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(f"hc_ray/_configs/tasks/{DATASET}.sealed.tar.gz", tmp_path)
        public = {name for name in archive.namelist() if f"/{DATASET}/" in name}
    with tarfile.open(tmp_path / f"hc_ray/_configs/tasks/{DATASET}.sealed.tar.gz") as sealed:
        assert all(member.isreg() for member in sealed.getmembers())
        members = {member.name: member.mode for member in sealed.getmembers()}
    plain = ("one/solution/solve.sh", "one/tests/deep/data.txt", "one/tests/helper.py")
    assert members == {**dict.fromkeys(plain, 0o644), "one/tests/test.sh": 0o755}
    shown = ("task.toml", "instruction.md", "environment/Dockerfile", "environment/tests/kept.txt")
    assert public == {f"hc_ray/_configs/tasks/{DATASET}/one/{name}" for name in shown}


def test_an_sdist_builds_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    uv("build", "--quiet", "--out-dir", tmp_path, cwd=source)
    assert next(tmp_path.glob("*.whl")).read_bytes() == wheel.read_bytes()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an empty environment into which the wheel was installed, with the versions of our lock."""
    venv = tmp_path_factory.mktemp("installed") / "venv"
    make_environment(venv, wheel)
    return venv / "bin"


@pytest.fixture(scope="module")
def user(installed: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """A user's shell outside of any checkout: a new data folder, no Docker; ``hc-ray`` is on the PATH."""
    with open_folder() as folder:
        path = f"{installed}:{Path(found_uv()).parent}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "HC_RAY_HOME": str(folder / "data"), "DOCKER_HOST": "unix:///nowhere"}

        def said(line: str) -> subprocess.CompletedProcess[str]:
            done = ran("bash", "-c", line, cwd=folder, env=env, timeout=300)
            assert done.returncode == 0, done.stderr[-3000:]
            return done

        yield said


@pytest.mark.proof
def test_outside_of_a_checkout_doctor_brings_the_model_and_the_demo_runs_and_is_shown_by_mlflow(user) -> None:
    before = {one["name"]: one for one in json.loads(user("hc-ray doctor --json").stdout)["findings"]}
    model = next(name for name in before if name.startswith("model "))
    assert not before[model]["ok"] and before["bwrap"]["ok"] and before["runner"]["ok"]
    fixed = user("hc-ray doctor --fix --json")
    assert fixed.stderr.startswith(f"{before[model]['remedy']}\n")
    assert {one["name"]: one["ok"] for one in json.loads(fixed.stdout)["findings"]}[model]
    swept = json.loads(user("hc-ray sweep -l 1 -a raw -a oracle -a nop --budget-tokens 200 -o runs/demo --json").stdout)
    found = {config["agent"]: config for config in swept["report"]["configs"]}
    assert [found[agent]["blind_pass"]["value"] for agent in ("oracle", "nop")] == [1.0, 0.0]
    assert (found["raw"]["trials"], found["raw"]["unscored"]) == (1, 0) and found["raw"]["tokens"] > 0
    asks = "import json, sys, urllib.request as u; print(u.urlopen(json.load(sys.stdin)['url']).status)"
    served = "coproc UI { exec hc-ray ui runs/demo --port 0 --json; }; read -r -d '}' said <&${UI[0]}; pid=$UI_PID; "
    assert user(f"""{served} python -c "{asks}" <<<"$said}}"; kill $pid; wait $pid || true""").stdout.strip() == "200"


def test_outside_of_a_checkout_a_users_own_task_is_checked_and_can_be_swept(user) -> None:
    user("hc-ray tasks new my-tasks/first")
    assert json.loads(user("hc-ray tasks check my-tasks --json").stdout)["faults"] == []
    planned = json.loads(user("hc-ray sweep -p my-tasks -a oracle -a nop --split all --dry-run --json").stdout)
    assert [len(planned[part]) for part in ("taken", "trials", "refused")] == [1, 2, 0]


def test_completion_that_was_installed_answers_in_bash(user) -> None:
    user("HOME=$PWD hc-ray --install-completion; exit $?")  # a shell that stays, to be recognised
    asks = "COMP_WORDS=(hc-ray {0}); COMP_CWORD={1}; _hc_ray_completion hc-ray; echo ${{COMPREPLY[@]}}; "
    asked = asks.format("swe", 1) + asks.format("sweep --res", 2)
    assert user(f"HOME=$PWD; source ~/.bashrc; {asked}").stdout.split() == ["sweep", "--resume"]


def test_every_extra_of_the_wheel_can_be_had(installed: Path, wheel: Path, tmp_path: Path) -> None:
    named = f"hc-ray[mcp,claude,cluster] @ {wheel.as_uri()}"
    online_at_need("pip", "install", "--dry-run", "--python", installed / "python", named, cwd=tmp_path)


@pytest.mark.slow
def test_the_examples_of_the_page_on_python_satisfy_a_strict_type_checker_that_sees_the_wheel(installed, tmp_path):
    lay_out(CHECKOUT / "docs/python.md", tmp_path)
    files = sorted(path.name for path in tmp_path.glob("*.py"))
    assert len(files) == 4
    (tmp_path / "wrong.py").write_text((tmp_path / files[1]).read_text().replace("-> Candidate | None", "-> str"))
    mypy = ("-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", os.devnull)
    named = ("--python-executable", installed / "python", *files, "wrong.py")
    told = ran(sys.executable, *mypy, *named, cwd=tmp_path, timeout=300).stdout
    assert "incompatible" in told and all(line.startswith("wrong.py:") for line in told.splitlines()), told
