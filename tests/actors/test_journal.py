import json
import signal
import subprocess
import sys
import time

import pytest

from hc_ray.domain.errors import OutputError, StoreError
from hc_ray.domain.events import TrialStart
from hc_ray.stores.sweep_directory import SweepStore, parquet, read_parquet
from hc_ray_actors.driver.journal import LEASE, Journal, Lease


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


def test_an_owner_of_an_older_epoch_writes_nothing_and_does_not_release_a_newer_lease(tmp_path):
    store = _store(tmp_path)
    old = Lease(store)
    old.release()
    Lease(store)
    with pytest.raises(StoreError, match="took over this sweep"):
        old.check()
    old.release()
    assert json.loads(store.read(LEASE))["released"] is False


TAKER = """
import sys, time
from pathlib import Path
from hc_ray.stores import sweep_directory
from hc_ray.domain.errors import HcRayError
from hc_ray_actors.driver import journal

out, how = sys.argv[1:]
journal.SETTLE_SECONDS = 0.5
if how == "no locks":
    def refuse(file, how):
        raise OSError(95, "not supported")
    sweep_directory.fcntl.flock = refuse
store = sweep_directory.SweepStore(out)
if how == "object store":
    store._local = False
print("ready", flush=True)
sys.stdin.readline()
try:
    lease = journal.Lease(store)
    print("took", lease.epoch, flush=True)
    sys.stdin.readline()
    with lease.held():
        store.write("written-by", str(lease.epoch).encode())
    print("wrote", flush=True)
    sys.stdin.readline()
except HcRayError as fault:
    print("refused", type(fault).__name__, flush=True)
"""


def _dead_lease(out):
    """A directory whose owner was killed in its first epoch."""
    store = SweepStore(str(out))
    lease = Lease(store)
    lease._over.set()
    held = json.loads(store.read(LEASE))
    store.write(LEASE, json.dumps({**held, "owner": "999999-1"}).encode())
    return store


def _say(process):
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.parametrize("how", ["file system", "no locks", "object store"])
def test_of_several_processes_that_take_a_directory_at_once_exactly_one_writes_to_it(tmp_path, how):
    store = _dead_lease(tmp_path / "out")
    command = [sys.executable, "-c", TAKER, str(tmp_path / "out"), how]
    takers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [taker.stdout.readline() for taker in takers] == ["ready\n"] * 3
    for taker in takers:
        _say(taker)
    first = [taker.stdout.readline().split() for taker in takers]
    if how == "file system":
        assert sorted(words[0] for words in first) == ["refused", "refused", "took"]
    took = [taker for taker, words in zip(takers, first, strict=True) if words[0] == "took"]
    for taker in took:
        _say(taker)
    second = [taker.stdout.readline().split()[0] for taker in took]
    assert second.count("wrote") == 1 and set(second) <= {"wrote", "refused"}
    winner = took[second.index("wrote")]
    epoch = first[takers.index(winner)][1]
    assert store.read("written-by").decode() == epoch and int(epoch) >= 2
    for taker in takers:
        taker.communicate()


FROZEN = """
import sys
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray.domain.errors import StoreError
from hc_ray_actors.driver import journal

journal.machine = lambda: "elsewhere:1"
journal.LEASE_SECONDS = 2.0
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
    monkeypatch.setattr("hc_ray_actors.driver.journal.LEASE_SECONDS", 2.0)
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
    monkeypatch.setattr("hc_ray_actors.driver.journal.LEASE_SECONDS", 1.0)
    store = _dead_lease(tmp_path / "out")
    held = json.loads(store.read(LEASE))
    store.write(LEASE, json.dumps({**held, "machine": "elsewhere:1", "renewed_at": time.time() + 3600}).encode())
    assert Lease(store).epoch == 2


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


def test_the_store_lists_committed_trials_refuses_paths_that_leave_it_and_says_which_file_is_not_there(tmp_path):
    store = _store(tmp_path)
    store.write("trials/a__1/config.json", b"{}")
    store.write("trials/b__2/result.json", b"{}")
    assert store.finished() == {"b__2"}
    for path in ("../x", "/etc/passwd", "a/../../x"):
        with pytest.raises(StoreError, match="not a path inside"):
            store.write(path, b"")
    with pytest.raises(FileNotFoundError):
        store.read("nothing.json")


def test_a_table_without_rows_keeps_its_columns(tmp_path):
    assert read_parquet(parquet([], ("a", "b"))) == []
    assert read_parquet(parquet([{"a": 1, "b": None}])) == [{"a": 1, "b": None}]
