"""Hidden tests of worker-daemon-control: workers are started, stopped and harmed in copies of the folder."""

import hashlib
import os
import re
import signal
import time

import pytest
from box import Box
from child import as_child, read

WORKER, CONF = "cc10ec1261f08260ec2f8977e6c5f73193fde3cafbec58ce280e62f9b97e6692", "ae70283d6422dc56b86efbf62a38ea8358ee8bb8742bda3da32b58c5a5bc696b"


class Desk:
    """One copy of the folder, whose commands are called from elsewhere."""

    def __init__(self, box, name="de sk"):
        self.box, self.name = box, name

    def __call__(self, *command, env=None, timeout=20):
        return self.box.run(["bash", self.box.path(f"{self.name}/workerctl"), *command], env=env, timeout=timeout, cwd="else where")

    def says(self, text, code, *command, env=None):
        done = self(*command, env=env)
        assert (done.out, done.code) == (text + "\n", code), (command, done)

    def start(self):
        done = self("start")
        assert done.code == 0 and re.fullmatch(r"started [0-9]+\n", done.out), done
        pid = int(done.out.split()[1])
        assert self.text("run/worker.pid").strip() == str(pid)
        return pid

    def text(self, name):
        return self.box.text(f"{self.name}/{name}")

    def put(self, name, text):
        self.box.put(f"{self.name}/{name}", text)


def desk(names=("de sk",), worker=None, conf=None):
    files = {}
    for name in names:
        files[f"{name}/workerctl"] = read("workerctl")
        files[f"{name}/worker.py"] = worker or read("worker.py")
        files[f"{name}/worker.conf"] = conf or read("worker.conf")
    return Box(files, bare=True, folders=["else where"], modes={f"{name}/workerctl": 0o755 for name in names})


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def workers():
    """The numbers of all processes that run a worker.py."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    parts = file.read().split(b"\0")
            except OSError:
                continue
            if len(parts) > 1 and b"python" in parts[0] and any(part.endswith(b"worker.py") for part in parts[1:3]) and alive(entry):
                found.add(int(entry))
    return found


def soon(true, seconds=5):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return False


def test_given_files_are_unchanged():
    assert hashlib.sha256(read("worker.py").encode()).hexdigest() == WORKER
    assert hashlib.sha256(read("worker.conf").encode()).hexdigest() == CONF


def test_a_whole_life():
    with desk() as box:
        ctl = Desk(box)
        ctl.says("not running", 3, "status")
        ctl.says("not running", 3, "health")
        ctl.says("not running", 0, "stop")
        pid = ctl.start()
        assert workers() == {pid}
        ctl.says(f"running {pid}", 0, "status")
        ctl.says("fine", 0, "health")
        ctl.says(f"already running {pid}", 0, "start")
        assert workers() == {pid}
        ctl.put("queue/b.job", "pear\napple\n")
        assert soon(lambda: ctl.text("done/b.job") == "apple\npear\n" and ctl.text("queue/b.job") is None)
        ctl.says("stopped", 0, "stop")
        assert not alive(pid) and ctl.text("run/worker.pid") is None
        assert {name for name in box.tree("else where")} == set()
        log = ctl.text("run/worker.log")
        assert f"worker {pid} begins" in log and "done b.job" in log and f"worker {pid} ends" in log
        second = ctl.start()
        assert ctl.text("run/worker.log").startswith(log) and f"worker {second} begins" in ctl.text("run/worker.log")


def test_the_configuration():
    with desk(conf="QUEUE='in box'\nDONE=deep/out\nPOLL=0.05\n") as box:
        ctl = Desk(box)
        ctl.start()
        ctl.put("in box/x.job", "b\na\n")
        assert soon(lambda: ctl.text("deep/out/x.job") == "a\nb\n")


@pytest.mark.parametrize("stale", ["", "rubbish", "999999999", "-1", "0", "1", "sleep", "zombie", "123 456"])
def test_stale_pid_files(stale):
    with desk() as box:
        ctl = Desk(box)
        ctl("status")
        with as_child():
            (box.folder / "de sk" / "run").mkdir(exist_ok=True)
        bystander = box.start(["sleep", "100"])
        ctl.put("run/worker.pid", f"{bystander.pid}\n" if stale == "sleep" else f"{stale}\n")
        if stale == "zombie":
            zombie = box.start(["true"])
            assert soon(lambda: not alive(zombie.pid))
            ctl.put("run/worker.pid", f"{zombie.pid}\n")
        before = ctl.text("run/worker.pid")
        ctl.says("not running", 3, "status")
        ctl.says("not running", 3, "health")
        assert ctl.text("run/worker.pid") == before
        ctl.says("not running", 0, "stop")
        assert ctl.text("run/worker.pid") is None
        ctl.put("run/worker.pid", before)
        pid = ctl.start()
        assert alive(pid) and bystander.poll() is None
        ctl.says("stopped", 0, "stop")
        assert bystander.poll() is None


def test_a_worker_that_was_killed():
    with desk() as box:
        ctl = Desk(box)
        pid = ctl.start()
        box.run(["bash", "-c", f"kill -9 {pid}"])
        assert soon(lambda: not alive(pid))
        ctl.says("not running", 3, "status")
        ctl.says("not running", 3, "health")
        assert ctl.start() != pid


def test_a_worker_that_is_stuck():
    with desk() as box:
        ctl = Desk(box)
        pid = ctl.start()
        ctl.put("queue/x.job", "STUCK\n")
        assert soon(lambda: ctl("health").out == "stuck\n", 8)
        ctl.says("stuck", 1, "health")
        ctl.says("fine", 0, "health", env={"MAX_AGE": "600"})
        ctl.says(f"running {pid}", 0, "status")
        begin = time.monotonic()
        ctl.says("killed", 0, "stop", env={"STOP_WAIT": "1"})
        assert 0.9 <= time.monotonic() - begin < 10
        assert not alive(pid) and ctl.text("run/worker.pid") is None


def test_stopping_waits_for_the_job_at_hand():
    with desk() as box:
        ctl = Desk(box)
        pid = ctl.start()
        ctl.put("queue/x.slow", "b\na\n")
        time.sleep(0.6)
        ctl.says("stopped", 0, "stop", env={"STOP_WAIT": "15"})
        assert ctl.text("done/x.slow") == "a\nb\n" and not alive(pid)


def test_restart():
    with desk() as box:
        ctl = Desk(box)
        first = ctl("restart")
        assert first.code == 0 and re.fullmatch(r"started [0-9]+\n", first.out)
        second = ctl("restart")
        assert second.code == 0 and re.fullmatch(r"started [0-9]+\n", second.out)
        assert first.out != second.out and workers() == {int(second.out.split()[1])}


@pytest.mark.parametrize("worker, seconds", [("raise SystemExit(0)\n", 10), ("import time\ntime.sleep(60)\n", 20), ("import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)\n", 20)])
def test_a_worker_that_does_not_come_up(worker, seconds):
    with desk(worker=worker) as box:
        ctl = Desk(box)
        with as_child():
            (box.folder / "de sk" / "run").mkdir()
        # A beat of an earlier run says nothing about this one.
        ctl.put("run/beat", f"{time.time():.3f}\n")
        begin = time.monotonic()
        ctl.says("failed", 1, "start")
        assert time.monotonic() - begin < seconds
        assert soon(lambda: workers() == set(), 1)
        assert ctl.text("run/worker.pid") is None
        ctl.says("not running", 3, "status")


def test_the_caller_is_not_held():
    with desk() as box:
        script = box.path("de sk/workerctl")
        # A pipe that somebody still holds would keep this waiting; the hangup is what a closing terminal sends.
        done = box.run(["bash", "-c", f"bash '{script}' start 2>&1 < /dev/null | cat"], timeout=20)
        pid = int(done.out.split()[1])
        # Its own user may look at what it holds.
        holds = box.run(["readlink", *(f"/proc/{pid}/fd/{number}" for number in (0, 1, 2))]).out.splitlines()
        assert len(holds) == 3 and not any(one.startswith("pipe:") for one in holds)
        for process in box.started:
            try:
                os.killpg(process.pid, 1)
            except ProcessLookupError:
                pass
        time.sleep(0.3)
        assert alive(pid)
        Desk(box).says("fine", 0, "health")


def test_two_copies_do_not_mistake_each_other():
    with desk(("one", "one two")) as box:
        one, two = Desk(box, "one"), Desk(box, "one two")
        first, second = one.start(), two.start()
        assert first != second
        one.put("run/worker.pid", f"{second}\n")
        one.says("not running", 3, "status")
        one.says("not running", 0, "stop")
        two.says(f"running {second}", 0, "status")
        assert alive(first) and alive(second)


def test_many_starts_at_once():
    with desk() as box:
        ctl = box.path("de sk/workerctl")
        done = box.run(["bash", "-c", f"for i in 1 2 3 4 5; do bash '{ctl}' start & done; wait"], timeout=30)
        lines = done.out.split("\n")[:-1]
        assert len(lines) == 5, done
        assert len({line.split()[-1] for line in lines}) == 1
        assert sorted(line.rpartition(" ")[0] for line in lines) == ["already running"] * 4 + ["started"]
        assert workers() == {int(lines[0].split()[-1])}


@pytest.mark.parametrize("args", [[], ["begin"], [""], ["--help"]])
def test_usage(args):
    with desk() as box:
        done = Desk(box)(*args)
        assert (done.code, done.out) == (2, "") and done.err.strip()
        assert workers() == set()
