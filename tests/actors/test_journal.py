import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from types import SimpleNamespace

import pytest

from hc_ray.domain.errors import OutputError, StoreError
from hc_ray.domain.events import TrialStart
from hc_ray.machine.owner import _started
from hc_ray.machine.whole_files import link
from hc_ray.sandboxes.bwrap.binary import find_bwrap
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.driver import trial_files
from hc_ray_actors.driver.journal import LEASE, Journal, Lease

ANOTHER = f"1-{_started(1)}"
"""A process that lives."""


def _store(tmp_path):
    return SweepStore(str(tmp_path / "out"))


def test_a_living_owner_refuses_a_second_and_who_released_or_died_is_followed_by_a_higher_epoch(tmp_path):
    store = _store(tmp_path)
    first = Lease(store)
    with pytest.raises(OutputError, match="is running this sweep"):
        Lease(_store(tmp_path))
    first.release()
    second = Lease(_store(tmp_path))
    assert second.epoch == first.epoch + 1
    store.write(LEASE, json.dumps({**json.loads(store.read(LEASE)), "owner": "999999-1"}).encode())
    assert Lease(store).epoch == second.epoch + 1


def test_what_a_full_disk_kept_from_writing_its_release_may_start_again_in_the_same_process(tmp_path, monkeypatch):
    first = Lease(_store(tmp_path))
    (tmp_path / "alias").symlink_to(tmp_path / "out")
    with pytest.raises(OutputError, match="is running this sweep"):
        Lease(SweepStore(str(tmp_path / "alias")))
    with monkeypatch.context() as full:
        full.setattr(SweepStore, "write", _is_full)
        with pytest.raises(StoreError, match="the disk is full"):
            first.release()
    assert Lease(_store(tmp_path)).epoch == first.epoch + 1


def _is_full(store, path, data):
    raise StoreError(f"{store.root}: the disk is full")


def test_an_owner_of_an_older_epoch_writes_nothing_and_does_not_release_a_newer_lease(tmp_path):
    store = _store(tmp_path)
    old = Lease(store)
    old.release()
    Lease(store)
    with pytest.raises(StoreError, match="took over this sweep"), old.held():
        pytest.fail("it would write")
    old.release()
    assert json.loads(store.read(LEASE))["released"] is False


TWIN = """
import fcntl, os, socket, sys
from hc_ray.domain.errors import OutputError
from hc_ray.machine import lease, owner
from hc_ray.stores import sweep_directory
from hc_ray_actors.driver import journal

owner._boot, owner._namespace = (lambda: sys.argv[2]), (lambda: 4026531836)  # the same in every virtual machine
lease.LEASE_SECONDS = 4.0
if sys.argv[1] == "no locks":
    def refuse(file, how):
        raise OSError(95, "not supported")
    fcntl.flock = refuse
print(socket.gethostname(), os.getpid(), flush=True)
taken = []
for line in sys.stdin:
    try:
        taken.append(journal.Lease(sweep_directory.SweepStore(line.strip())))
        print("took", flush=True)
    except OutputError as fault:
        print(fault, flush=True)
"""


def _dead_lease(out):
    """A directory whose owner was killed in its first epoch."""
    store = SweepStore(str(out))
    lease = Lease(store)
    lease._over.set()
    held = json.loads(store.read(LEASE))
    store.write(LEASE, json.dumps({**held, "owner": "999999-1"}).encode())
    return store


@pytest.mark.parametrize("how", ["with locks", "no locks"])
def test_of_two_machines_of_one_name_that_start_on_one_directory_the_second_is_refused_20_of_20(tmp_path, how):
    """With equal process numbers, too, and without the locks that one kernel has and NFS may not have."""
    own = ["--unshare-pid", "--unshare-uts", "--hostname", "twin", "--dev-bind", "/", "/", "--proc", "/proc"]
    command = [find_bwrap(), *own, "--die-with-parent", sys.executable, "-c", TWIN, how]
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    twins = [subprocess.Popen([*command, str(uuid.uuid4())], **piped) for _ in range(2)]
    assert [twin.stdout.readline() for twin in twins] == ["twin 2\n"] * 2

    def start(*who):
        for twin in who:
            twin.stdin.write(f"{out}\n")
            twin.stdin.flush()
        return [twin.stdout.readline() for twin in who]

    for number in range(20):
        out = tmp_path / str(number)
        if number == 19:  # whoever had it is dead
            lease = json.dumps({"epoch": 1, "owner": "2-1", "pid": 2, "host": "twin", "machine": "x", "renewed_at": 0})
            SweepStore(str(out)).write(LEASE, lease.encode())
        said = start(*twins)
        assert sorted(line == "took\n" for line in said) == [False, True], said
        (late,) = start(twins[said[0] == "took\n"])
        assert re.search(r"another hc-ray \(process 2 on twin\) is running .* try again 4 s after it went", late)
    for twin in twins:
        twin.communicate()


@pytest.mark.parametrize(("claim", "told"), [
    (b"", None), (b'{"epoch"', None), ({"owner": "999999-1"}, None), ({"owner": ANOTHER}, "is running"),
    ({"machine": "x:1", "renewed_at": 0}, None), ({"machine": "x:1"}, "if that machine is gone, try again 1 s after"),
])  # fmt: skip
def test_a_start_that_came_no_further_than_its_claim_is_judged_by_that(tmp_path, monkeypatch, claim, told):
    monkeypatch.setattr("hc_ray.machine.lease.LEASE_SECONDS", 1.0)
    store = _dead_lease(tmp_path / "out")
    if isinstance(claim, dict):
        claim = {**json.loads(store.read(LEASE)), "epoch": 2, "renewed_at": time.time(), **claim}
        claim = json.dumps(claim).encode()
    assert store.claim("epochs/000002", claim)
    if told:
        with pytest.raises(OutputError, match=told):
            Lease(store)
    else:
        assert Lease(store).epoch == 3


FROZEN = """
import sys
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray.domain.errors import StoreError
from hc_ray.machine import lease as leases
from hc_ray_actors.driver import journal

journal.machine = leases.machine = lambda: "elsewhere:1"
leases.LEASE_SECONDS = 2.0
store = SweepStore(sys.argv[1])
lease = journal.Lease(store)
print("took", flush=True)
sys.stdin.readline()
try:
    with lease.held():
        store.write("late", b"")
    print("wrote", flush=True)
except StoreError:
    print("dropped", flush=True)
"""


def test_an_owner_elsewhere_lives_while_it_renews_and_what_it_writes_after_a_takeover_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr("hc_ray.machine.lease.LEASE_SECONDS", 2.0)
    out = str(tmp_path / "out")
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    frozen = subprocess.Popen([sys.executable, "-c", FROZEN, out], **piped)
    assert frozen.stdout.readline() == "took\n"
    time.sleep(2.5)  # longer than the lease: only its renewals keep it
    with pytest.raises(OutputError, match="is running this sweep"):
        Lease(SweepStore(out))
    frozen.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    assert Lease(SweepStore(out)).epoch == 2
    frozen.send_signal(signal.SIGCONT)
    assert frozen.communicate("go\n")[0] == "dropped\n" and not (tmp_path / "out" / "late").exists()


DYING = """
import os, signal, sys, time
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.driver.journal import Lease

store = SweepStore(sys.argv[1])
lease = Lease(store)
with lease.held():
    if os.fork() == 0:  # what still dies after its process is gone, and is in the middle of a write
        time.sleep(1.5)
        store.write("last", b"")
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_resume_right_after_sigkill_waits_until_what_still_dies_has_written(tmp_path):
    out = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", DYING, str(out)], check=False)
    assert killed.returncode == -signal.SIGKILL and not (out / "last").exists()
    assert Lease(SweepStore(str(out))).epoch == 2 and (out / "last").exists()


def test_a_lease_whose_clock_runs_ahead_is_watched_and_not_believed(tmp_path, monkeypatch):
    monkeypatch.setattr("hc_ray.machine.lease.LEASE_SECONDS", 1.0)
    store = _dead_lease(tmp_path / "out")
    held = json.loads(store.read(LEASE))
    store.write(LEASE, json.dumps({**held, "machine": "elsewhere:1", "renewed_at": time.time() + 3600}).encode())
    assert Lease(store).epoch == 2


def test_who_came_while_a_dead_owner_was_listened_for_keeps_the_directory_whatever_its_clock_says(
    tmp_path, monkeypatch
):
    store = _dead_lease(tmp_path / "out")
    held = json.loads(store.read(LEASE)) | {"machine": "elsewhere:1", "renewed_at": 0}
    store.write(LEASE, json.dumps(held).encode())

    def comes(*_):
        late = json.dumps(held | {"epoch": 2, "machine": "a third:1", "renewed_at": time.time() - 3600}).encode()
        assert store.claim("epochs/000002", late)
        store.write(LEASE, late)
        return False

    monkeypatch.setattr("hc_ray_actors.driver.journal.heard", comes)
    with pytest.raises(OutputError, match="is running this sweep"):
        Lease(store)


def test_events_are_read_back_in_their_order_and_a_later_start_writes_segments_of_its_own(tmp_path):
    store, segments = _store(tmp_path), [0]
    for seeds in (range(1203), range(1203, 1204)):
        lease = Lease(store)
        journal = Journal(store, lease)
        for seed in seeds:
            journal.emit(TrialStart(trial="t", task="a", agent="raw", seed=seed))
        journal.flush()
        lease.release()
        segments.append(len(store.list("events")))
    lines = [line for path in store.list("events") for line in store.read(path).decode().splitlines()]
    assert [json.loads(line)["seed"] for line in lines] == list(range(1204)) and segments[2] == segments[1] + 1


class Slow(SweepStore):
    """A disk that takes what it is given when it is told to."""

    go = threading.Event()
    fails = False

    def write(self, path, data):
        if not path.startswith(("lease", "epochs")):
            self.go.wait(20)
            if self.fails:
                raise StoreError("the disk is full")
        super().write(path, data)


async def test_a_commit_and_the_journal_do_not_keep_the_event_loop_waiting_and_a_cancelled_commit_is_a_whole_one(
    tmp_path,
):
    store = Slow(str(tmp_path / "out"))
    lease = Lease(store)
    journal = Journal(store, lease)
    for seed in range(501):  # a full segment is written at once
        journal.emit(TrialStart(trial="t", task="a", agent="raw", seed=seed))
    trial = SimpleNamespace(outcome=None, key=SimpleNamespace(name="t__1"))
    commit = asyncio.ensure_future(trial_files.keep(store, lease, trial, {"config.json": b"{}", "result.json": b"{}"}))
    await asyncio.sleep(0.1)
    assert store.list("trials") == [] == store.list("events")
    commit.cancel()
    asyncio.get_running_loop().call_later(0.1, store.go.set)
    with pytest.raises(asyncio.CancelledError):
        await commit
    assert store.holding("result.json") == {"t__1"}
    journal.flush()
    assert len(store.list("events")) == 2


def test_what_the_journal_could_not_write_is_told_to_whoever_emits_or_flushes_next(tmp_path):
    store = Slow(str(tmp_path / "out"))
    store.go.set()
    journal = Journal(store, Lease(store))
    store.fails = True
    for _ in range(2):
        with pytest.raises(StoreError, match="the disk is full"):
            journal.emit(TrialStart(trial="t", task="a", agent="raw", seed=0))
            journal.flush()


def test_the_store_lists_committed_trials_refuses_paths_that_leave_it_and_says_which_file_is_not_there(tmp_path):
    store = _store(tmp_path)
    store.write("trials/a__1/config.json", b"{}")
    store.write("trials/b__2/result.json", b"{}")
    assert store.holding("result.json") == {"b__2"}
    (tmp_path / "out" / "trials" / "b__2" / "x.json.7.tmp").write_bytes(b"")
    assert store.list("trials") == ["trials/a__1/config.json", "trials/b__2/result.json"]
    for path in ("../x", "/etc/passwd", "a/../../x"):
        with pytest.raises(StoreError, match="not a path inside"):
            store.write(path, b"")
    with pytest.raises(FileNotFoundError):
        store.read("nothing.json")


def test_a_name_that_the_own_file_has_already_is_no_fault_and_that_of_another_is(tmp_path):
    one, other, name = tmp_path / "one", tmp_path / "other", tmp_path / "name"
    for file in (one, other):
        file.write_bytes(b"")
    link(one, name)
    link(one, name)  # as NFS asks again
    with pytest.raises(FileExistsError):
        link(other, name)


def test_a_place_that_holds_no_folder_is_told_as_every_fault_of_a_store_is(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    store = SweepStore(str(tmp_path / "file" / "out"))
    for asked in (lambda: store.alone("lock", seconds=1).__enter__(), lambda: store.holding("x")):
        with pytest.raises(StoreError, match=r"file/out: could not (write lock|list trials): .*Not a directory"):
            asked()
