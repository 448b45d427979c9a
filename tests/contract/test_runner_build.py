import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hc_ray.domain.runner_paths import PYTEST_PURE, RUNNER_PYTHON, RUNNER_ROOT, inside_script
from hc_ray.sandboxes import runner_build
from hc_ray.sandboxes.bwrap import binary as bwrap_binary
from hc_ray.sandboxes.runner_build import ensure_runner, inside_modules, staged
from tests.fakes.processes import ran
from tests.fakes.sandbox_home import data_home

INSIDE = Path(__file__).parents[2] / "hc_ray" / "sandboxes" / "inside"


@pytest.fixture(scope="module")
def runner() -> Iterator[Path]:
    with data_home():
        yield ensure_runner()


def in_an_empty_root(runner: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run in a root with the runner, /proc, /dev and an empty /tmp only, without any environment."""
    user = bwrap_binary.lend_user()
    try:
        argv = [str(bwrap_binary.find_bwrap()), "--unshare-all", "--unshare-user", "--die-with-parent", "--clearenv"]
        argv += ["--ro-bind", str(runner), RUNNER_ROOT, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        started = bwrap_binary.as_user([*argv, "--chdir", "/tmp", "--", *command], user)
        return ran(*started.pop("args"), **started)
    finally:
        if user:
            user.give_back()


def test_the_runners_python_and_pytest_start_where_there_is_no_libc_and_find_only_themselves(runner: Path) -> None:
    code = (
        "import bz2, ctypes, decimal, hashlib, json, lzma, multiprocessing, sqlite3, ssl, sys, uuid, zlib\n"
        "maps = {line.split()[5] for line in open('/proc/self/maps') if len(line.split()) > 5}\n"
        "print(json.dumps([sys.executable, sys.prefix, sys.path[1:], sorted(m for m in maps if m.startswith('/'))]))"
    )
    done = in_an_empty_root(runner, *RUNNER_PYTHON, "-c", code)
    assert done.returncode == 0, done.stderr
    executable, prefix, path, maps = json.loads(done.stdout)
    assert (executable, prefix) == (RUNNER_PYTHON[0], RUNNER_ROOT)
    assert all(item.startswith(RUNNER_ROOT) for item in (*path, *maps)) and len(maps) > 5
    script = in_an_empty_root(runner, f"{RUNNER_ROOT}/bin/pytest", "--version")
    assert script.stdout.startswith("pytest ") and script.stderr == ""


def test_children_are_told_nothing_of_the_runners_libraries(runner: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "print(sorted(set(os.environ) - {'PWD', 'LC_CTYPE'}))\n"
        "print(subprocess.run([sys.executable, '-c', 'print(2)'], capture_output=True, text=True).stdout)"
    )
    assert in_an_empty_root(runner, *RUNNER_PYTHON, "-c", code).stdout.split() == ["[]", "2"]


def test_every_module_that_runs_inside_is_byte_compiled_and_a_second_call_builds_nothing(runner):
    modules = inside_modules()
    assert modules.keys() == {path.stem for path in INSIDE.rglob("*.py")} - {"__init__"} and "init" in modules
    assert not any(re.search(rb"^ *(from|import) hc_ray", module, re.M) for module in modules.values())
    for name, module in modules.items():
        copy = runner / Path(inside_script(name)).relative_to(RUNNER_ROOT)
        assert copy.read_bytes() == module and list((copy.parent / "__pycache__").glob(f"hc_{name}.*.pyc"))
    assert (runner / Path(inside_script("init")).relative_to(RUNNER_ROOT)).is_file()
    before = runner.stat().st_ctime_ns
    started = time.monotonic()
    assert ensure_runner() == runner and time.monotonic() - started < 1.0 and runner.stat().st_ctime_ns == before
    assert not list(runner.parent.glob(".build-*"))


def test_everybody_may_read_the_runner_and_nobody_has_to_compile_it(runner: Path) -> None:
    for folder, _, files in os.walk(runner):
        assert Path(folder).stat().st_mode & 0o555 == 0o555
        for file in files:
            path = Path(folder, file)
            assert path.stat().st_mode & 0o444 == 0o444, path
            assert path.stat().st_mode & 0o6022 == 0, path
    pure = runner / Path(PYTEST_PURE).relative_to(RUNNER_ROOT)
    for source in pure.rglob("*.py"):
        assert list((source.parent / "__pycache__").glob(f"{source.stem}.*.pyc")), source
    assert not list(pure.rglob("*.so"))


def test_a_runner_is_whole_on_the_disk_and_a_data_folder_of_another_user_that_all_may_enter_is_left_as_it_is(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path))
    tmp_path.chmod(0o755)
    for step in ("_copy_python", "_write_inside", "_byte_compile"):
        monkeypatch.setattr(runner_build, step, lambda stage: None)
    changed, named, chmod = [], [], Path.chmod
    monkeypatch.setattr(os, "sync", lambda: named.append((tmp_path / "runner" / runner_build.runner_digest()).exists()))
    monkeypatch.setattr(Path, "chmod", lambda path, mode: (changed.append(path), chmod(path, mode)))
    assert ensure_runner().is_dir() and tmp_path not in changed
    assert named == [False], "on the disk before it has its name"


def test_a_runner_that_another_machine_laid_there_meanwhile_is_taken_as_it_is(tmp_path):
    target = tmp_path / "runner"
    with staged(target) as stage:
        (stage / "made").write_text("here")
        target.mkdir()
        (target / "made").write_text("there")
    assert (target / "made").read_text() == "there" and list(tmp_path.iterdir()) == [target]
