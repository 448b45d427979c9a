"""What runs inside the verifier's sandbox, run here without one: the grader and its pytest witness."""

import base64
import hashlib
import json
import mmap
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hc_ray.blind.grading import verdict
from hc_ray.domain.runner_paths import machinery_command
from hc_ray.sandboxes.inside.grading import seals, shared
from hc_ray.sandboxes.inside.grading.newcomers import Newcomers, present
from hc_ray.sandboxes.runner_build import inside_modules

HERE = """
import hc_grade, hc_processes
kill_below = hc_processes.kill_below
hc_processes.kill_below = lambda seconds, reap, alone: kill_below(seconds, reap, alone=False)
main = hc_grade.main
"""
"""Starts the grader outside of a sandbox, where nobody may be stopped but what it started: all else is this machine."""


class Ground:
    """A folder with a test module, a script and the witness; ``run`` has the grader run the script."""

    def __init__(self, folder):
        self.folder, self.logs = folder, folder / "logs" / "verifier"
        (folder / "lib").mkdir()
        for name in ("account", "frames", "grade", "leader", "processes", "witness"):
            (folder / "lib" / f"hc_{name}.py").write_bytes(inside_modules()[name])

    def run(self, script, module="", *, timeout=60.0):
        (self.folder / "test_it.py").write_text(module)
        preamble = f"LOGS={self.logs}\nPYTEST='{sys.executable} -m pytest -q -p no:cacheprovider --rootdir=.'\n"
        (self.folder / "test.sh").write_text(preamble + script)
        env = {"PYTHONPATH": str(self.folder / "lib"), "PYTEST_PLUGINS": "hc_witness",
               "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # fmt: skip
        return self.order({"command": ["bash", "test.sh"], "cwd": str(self.folder), "env": env,
                           "timeout": timeout, "logs": str(self.logs), "user": None})  # fmt: skip

    def order(self, order):
        (self.folder / "lib" / "hc_here.py").write_text(HERE)
        command = [sys.executable, *machinery_command("grade")[1:-1], str(self.folder / "lib" / "hc_here.py")]
        given = json.dumps({**order, "nonce": "n1"})
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=True)
        nonce, _, answer = done.stdout.strip().partition(" ")
        assert nonce == "n1"
        loaded = json.loads(answer)
        assert isinstance(loaded, dict)
        return loaded


@pytest.fixture
def ground(tmp_path):
    return Ground(tmp_path)


def ends(report):
    return [message for message in report["witness"] if message["type"] == "end"]


def test_names_that_come_or_go_are_told_and_others_and_folders_that_are_none_are_not(tmp_path):
    for name in ("app/src", "aside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("aside")
    app, file = tmp_path / "app", tmp_path / "app" / "json.py"
    watched = {"app": ["json", "src"], "app/src": ["json"], "link": ["json"], "none": ["json"]}
    come = Newcomers({str(tmp_path / name): names for name, names in watched.items()})
    for quiet in ("log.txt", "json.txt", "other.py"):
        (app / quiet).touch()
    come.hear()
    assert come.seen == set() and present({str(app): ["log", "other"]}) == [str(app / "other.py")]
    file.touch()
    file.unlink()
    (app / "src" / "json").mkdir()
    (tmp_path / "link" / "json.so").touch()
    (app / "src").rename(tmp_path / "moved")
    come.hear()
    told = ("app/json.py", "app/src/json", "link/json.so", "app/src")
    assert come.seen == {str(tmp_path / name) for name in told}
    for number in range(20_000):
        (app / f"x{number}").touch()
    come.hear()
    assert str(app) in come.seen, "what was not told may have been anything"


def test_where_the_names_of_users_are_asked_for_a_link_goes_and_what_it_leads_to_stays(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    (tmp_path / "var").symlink_to("run")
    (tmp_path / "kept").mkdir()
    (tmp_path / "run" / "nscd").symlink_to(tmp_path / "kept")
    monkeypatch.setattr(shared, "NAMES", str(tmp_path / "var" / "nscd"))
    shared.tidy({})
    assert not list((tmp_path / "run").iterdir()) and (tmp_path / "kept").is_dir()


def test_what_is_changed_since_a_moment_is_told_though_it_was_open_for_writing_in_memory_before(tmp_path):
    if tmp_path.stat().st_dev != Path("/").stat().st_dev:
        pytest.skip("the folder for temporary files is another file system than the root, which is written out")
    file, kept = tmp_path / "it.py", tmp_path / "sub" / "__pycache__"
    file.write_text("as it was\n")
    kept.mkdir(parents=True)
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as memory:
        memory[:2] = b"AS"
        begun = seals.moment()
        (kept / "it.pyc").touch()
        assert seals.changed_since([str(tmp_path)], begun) == []
        memory[:2] = b"as"
        (tmp_path / "sub" / "new").touch()
        told = [str(file), f"{kept.parent}/", f"{kept.parent}/new"]
        assert sorted(seals.changed_since([str(tmp_path)], begun)) == told


def test_the_witness_counts_what_a_session_did(ground):
    module = """
import pytest
def test_passes(): pass
def test_fails(): assert 1 == 2
def test_skips(): pytest.skip("x")
@pytest.mark.xfail
def test_fails_as_expected(): assert False
@pytest.mark.xfail
def test_passes_against_expectation(): pass
@pytest.fixture
def broken(): raise ValueError
def test_errors(broken): pass
"""
    report = ground.run("$PYTEST test_it.py; echo $? > $LOGS/reward.txt\n", module)
    (end,) = ends(report)
    (start,) = [message for message in report["witness"] if message["type"] == "start"]
    assert end.pop("session") == start["session"] and len(end.pop("bad")) == 2
    assert end == {"type": "end", "exit": 1, "collected": 6, "passed": 1, "failed": 1, "errors": 1, "skipped": 1,
                   "xfailed": 1, "xpassed": 1}  # fmt: skip
    assert base64.b64decode(report["rewards"]["reward.txt"]) == b"1\n"
    assert report["rewards"]["reward.json"] is None and b"assert 1 == 2" in base64.b64decode(report["output"])


SILENCES = """import json, socket
witness = socket.socket(fileno=73)
good = {"exit": 0, "passed": 1, "failed": 0, "errors": 0}
for message in ({"type": "start", "session": "x"}, {"type": "end", "session": "x", **good}):
    witness.send(json.dumps(message).encode())
"""


@pytest.mark.parametrize("act", [
    "witness.send(b'')", "witness.shutdown(socket.SHUT_WR)",
    "[witness.send(b'{\"type\": \"loaded\"}') for _ in range(2000)]",
])  # fmt: skip
def test_who_silences_the_witness_of_a_later_session_is_no_testimony(ground, act):
    (ground.folder / "app.py").write_text(SILENCES + act)
    report = ground.run(f"{sys.executable} app.py; $PYTEST test_it.py\n", "def test_fails(): assert 1 == 2")
    assert not verdict.testimony(report["witness"], mentions_pytest=True)[1]
    quiet = ground.run("$PYTEST test_it.py; true\n", "def test_passes(): pass")
    assert verdict.testimony(quiet["witness"], mentions_pytest=True) == (None, True)


def test_asked_for_nodes_an_end_tells_each_outcome_unless_they_are_too_many_for_a_message(ground):
    module = """
import pytest
@pytest.mark.parametrize("n", range(%d))
def test_number(n):
    if n == 1: pytest.skip("x")
    assert n != 2
"""
    script = "HC_WITNESS_NODES=1 $PYTEST test_it.py\n"
    (end,) = ends(ground.run(script, module % 3))
    told = ("passed", "skipped", "failed")
    assert end["nodes"] == {f"test_it.py::test_number[{n}]": word for n, word in enumerate(told)}
    (end,) = ends(ground.run(script, module % 1500))
    assert (end["collected"], end["failed"], "nodes" in end) == (1500, 1, False)


def test_an_end_names_what_failed_by_digest_unless_it_is_too_much_for_a_message(ground):
    module = """
import pytest
@pytest.fixture
def broken(): assert False
@pytest.mark.parametrize("n", range(%d))
def test_number(n): assert n == 0
def test_breaks(broken): pass
"""
    (end,) = ends(ground.run("$PYTEST test_it.py\n", module % 2))
    names = [f"test_it.py::{name}".encode() for name in ("test_number[1]", "test_breaks")]
    assert end["bad"] == [hashlib.sha256(name).hexdigest()[:12] for name in names]
    (end,) = ends(ground.run("$PYTEST --tb=no test_it.py\n", module % 1300))
    assert (end["failed"], end["errors"], "bad" in end) == (1299, 1, False)


def test_a_module_that_cannot_be_imported_is_an_error_and_one_that_leaves_never_ends(ground):
    (end,) = ends(ground.run("$PYTEST test_it.py\n", "def broken(:\n"))
    assert (end["errors"], end["passed"]) == (1, 0)
    report = ground.run("$PYTEST test_it.py\n", "import os; os._exit(0)\n")
    assert [message["type"] for message in report["witness"]] == ["loaded", "start"] and report["exit"] == 0


def test_a_script_may_use_the_usual_descriptors_for_files_of_its_own(ground):
    script = "exec 3>/dev/null 4>&1 5</dev/null; $PYTEST test_it.py\n"
    (end,) = ends(ground.run(script, "def test_passes(): pass\n"))
    assert (end["passed"], end["failed"]) == (1, 0)


def test_children_of_the_tests_inherit_no_way_to_the_grader(ground):
    module = """
import os, subprocess
def test_children():
    command = "ls -l /proc/self/fd; env"
    shown = subprocess.run(command, shell=True, close_fds=False, capture_output=True, text=True).stdout
    assert "socket" not in shown and "HC_WITNESS" not in shown, shown
"""
    (end,) = ends(ground.run("$PYTEST test_it.py\n", module))
    assert (end["passed"], end["failed"]) == (1, 0)


def test_a_reward_that_is_no_plain_file_counts_as_empty_and_a_stale_one_of_any_kind_is_removed(ground, tmp_path):
    report = ground.run("echo 1 > other; ln -s $PWD/other $LOGS/reward.txt; mkfifo $LOGS/reward.json\n")
    assert report["rewards"] == {"reward.json": "", "reward.txt": ""}
    shutil.rmtree(ground.logs)
    ground.logs.mkdir(parents=True)
    (ground.logs / "reward.txt").write_text("1")
    (ground.logs / "reward.json").mkdir()
    assert ground.run("true\n")["rewards"] == {"reward.json": None, "reward.txt": None}
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "reward.txt").write_text("1")
    ground.logs.rmdir()
    ground.logs.symlink_to(tmp_path / "elsewhere")
    assert ground.run("true\n")["rewards"]["reward.txt"] is None


def test_all_may_write_logs_and_where_the_reward_lies_only_who_writes_it(ground):
    report = ground.run("stat -c %a $LOGS/.. $LOGS $LOGS/../agent $LOGS/../artifacts")
    assert base64.b64decode(report["output"]).split() == [b"1777", b"755", b"777", b"777"]


def test_what_outlives_the_script_is_dead_before_the_reward_is_read(ground, tmp_path):
    loop = 'while true; do echo 1 > "$0"; echo x >> beat; sleep 0.01; done'
    unreadable = "ln -s $(command -v bash) $'\\xff'; PATH=.:$PATH"
    start = f"(setsid $'\\xff' -c '{loop}' $LOGS/reward.txt &)\nsleep 0.3\necho 0 > $LOGS/reward.txt\n"
    began = time.monotonic()
    assert ground.run(f"{unreadable}\n{start}")["exit"] == 0 and time.monotonic() - began < 30
    beats = (tmp_path / "beat").stat().st_size
    assert beats > 0
    subprocess.run(["sleep", "0.3"], check=True)
    assert (tmp_path / "beat").stat().st_size == beats


def test_a_script_past_its_time_is_killed_with_all_it_started(ground):
    began = time.monotonic()
    report = ground.run("echo 1 > $LOGS/reward.txt; sleep 300 & sleep 300\n", timeout=0.5)
    assert report["timed_out"] is True and report["exit"] is None and time.monotonic() - began < 20


def test_a_flood_of_output_is_cut_in_the_middle_and_a_missing_interpreter_is_reported(ground):
    output = base64.b64decode(ground.run("echo first; head -c 5000000 /dev/zero; echo last\n")["output"])
    assert len(output) <= 1 << 16 and output.startswith(b"first") and output.endswith(b"last\n")
    order = {"command": ["/absent"], "cwd": "/", "env": {}, "timeout": 5, "logs": str(ground.logs)}
    report = ground.order(order)
    assert report["exit"] == 127 and b"No such file" in base64.b64decode(report["output"])


_UNHIDDEN = """
import sys
from hc_ray.sandboxes.inside import rights
from hc_ray.sandboxes.inside.grading import shared
shared.TESTS = sys.argv[1]
before = open("/proc/self/mounts").read()
shared.hide_processes(rights.libc())
print(before == open("/proc/self/mounts").read())
"""


def test_a_kernel_that_gives_no_proc_of_the_tests_own_leaves_everybodys_as_it_is(tmp_path):
    spaces = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*spaces, "true"], capture_output=True).returncode:
        pytest.skip("user namespaces are forbidden here")
    command = [*spaces, sys.executable, "-c", _UNHIDDEN, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "True\n"
