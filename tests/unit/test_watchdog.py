import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hc_ray.sandboxes import tripwire
from hc_ray.sandboxes.bwrap import watchdog
from hc_ray.sandboxes.bwrap.watchdog import Process, Watchdog, alone
from hc_ray.sandboxes.docker.watchdog import end_first_process, reads_folders
from hc_ray.sandboxes.inside.processes import SESSIONS
from hc_ray.sandboxes.tree_size import folder_size, unlinked_size

ROOM = 1 << 40


@pytest.fixture
def free(monkeypatch):
    level = SimpleNamespace(disk=ROOM, paths=ROOM, memory=ROOM, held=ROOM, tasks=100)
    monkeypatch.setattr(tripwire, "free_on", lambda folder: (level.disk, level.paths))
    monkeypatch.setattr(tripwire, "memory", lambda: (level.memory, level.held))
    monkeypatch.setattr(tripwire, "tasks", lambda: level.tasks)
    return level


@pytest.mark.parametrize(("what", "step", "sign"), [
    ("disk", -tripwire.DISK_STEP, "disk"),
    ("paths", -tripwire.PATHS_STEP, "paths"),
    ("memory", -tripwire.MEMORY_STEP, "memory"),
    ("held", tripwire.MEMORY_STEP, "memory"),
    ("tasks", tripwire.TASKS_STEP, "tasks"),
])  # fmt: skip
def test_the_wire_is_pulled_by_each_step_that_is_taken_and_by_nothing_else(free, what, step, sign):
    wire = tripwire.Tripwire(Path("/"))
    assert not wire.look().any
    setattr(free, what, getattr(free, what) + step // 2)
    assert not wire.look().any
    setattr(free, what, getattr(free, what) + step)
    pulled = wire.look()
    assert getattr(pulled, sign) and pulled.any and sum(pulled) == 1
    assert not wire.look().any
    setattr(free, what, getattr(free, what) - 2 * step)
    assert not wire.look().any, "what is given back pulls nothing"


def test_a_wire_for_the_disk_alone_is_pulled_by_neither_memory_nor_processes(free):
    wire = tripwire.Tripwire(Path("/"), disk_alone=True)
    wire.look()
    free.memory, free.tasks = 0, 100 + 2 * tripwire.TASKS_STEP
    assert not any(wire.look())
    free.disk = tripwire.DISK_FLOOR // 2
    assert wire.look() == tripwire.Signs(disk=True, disk_short=True)


@pytest.mark.parametrize("figure", [tripwire.memory, tripwire.tasks])
def test_what_the_kernel_says_is_read_anew_each_time(figure):
    before, taken, done = figure(), [], threading.Event()
    try:
        while figure() == before and len(taken) < 100:
            taken.append((os.urandom(1 << 20), thread := threading.Thread(target=done.wait)))
            thread.start()
        assert len(taken) < 100
    finally:
        done.set()


def test_a_machine_that_runs_short_is_told_while_something_is_taken_and_a_missing_folder_pulls_no_wire(free, tmp_path):
    free.disk = tripwire.DISK_FLOOR // 2 + tripwire.DISK_STEP
    free.memory = tripwire.MEMORY_FLOOR // 2 + tripwire.MEMORY_STEP
    wire = tripwire.Tripwire(Path("/"))
    assert not wire.look().any
    free.disk = tripwire.DISK_FLOOR // 2 - tripwire.DISK_STEP // 2
    free.memory = tripwire.MEMORY_FLOOR // 2 - tripwire.MEMORY_STEP // 2
    pulled = wire.look()
    assert pulled.disk_short and pulled.memory_short and not wire.look().disk_short
    wire = tripwire.Tripwire(tmp_path / "gone")
    assert not wire.look().disk and not wire.look().paths


def test_folders_are_measured_with_holes_and_links_counted_once_until_enough_was_seen(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 10_000)
    os.link(tmp_path / "a", tmp_path / "b")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 20)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "link").symlink_to("/etc")
    size, paths = folder_size(tmp_path)
    assert (1 << 20) + 10_000 <= size < (1 << 20) + 20_000 and paths == 6
    for number in range(100):
        (tmp_path / str(number)).write_bytes(b"x" * 5000)
    assert folder_size(tmp_path, (20_000, 1000))[0] <= 40_000 and folder_size(tmp_path, (1 << 30, 10))[1] == 11


def test_while_several_files_are_on_their_way_what_the_disk_sinks_by_counts_as_theirs(monkeypatch, tmp_path):
    free = [ROOM]
    monkeypatch.setattr(tripwire, "free_on", lambda folder: (free[0], ROOM))
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    sent, mine = tripwire.Sent(), [os.getpid()]
    with one, other, (tmp_path / "f").open("wb") as file:

        def sinks() -> int:
            free[0] -= 1000
            return sent.size(tmp_path, mine)

        assert sinks() == 0
        socket.send_fds(one, [b"x"], [file.fileno()])
        assert (sinks(), sinks()) == (0, 0), "one may be forgotten"
        socket.send_fds(one, [b"x"], [file.fileno()])
        assert (sinks(), sinks(), sinks()) == (0, 1000, 2000)
        for received in socket.recv_fds(other, 1, 1)[1]:
            os.close(received)
        assert sinks() == 0


def test_files_without_a_name_count_once_for_all_who_hold_them(tmp_path, sleeper):
    # A process of its own: this one holds whatever unlinked files the libraries of earlier tests left open.
    with (tmp_path / "gone").open("wb") as file, (tmp_path / "named").open("wb") as named:
        (tmp_path / "gone").unlink()
        file.write(b"x" * 300_000)
        file.flush()
        named.write(b"x" * 500_000)
        named.flush()
        held = {"pass_fds": (file.fileno(), named.fileno()), "stdin": subprocess.DEVNULL}
        holders = [sleeper(**held).pid for _ in range(2)]
    assert 300_000 <= unlinked_size([*holders, holders[0], 1 << 30], 1 << 40) < 500_000


_MAPS = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
os.unlink(sys.argv[1])
kept = mmap.mmap(file, 0)
os.closerange(3, 64)  # it keeps a descriptor of its own
print(flush=True)
sys.stdin.read()
"""


def test_a_file_without_a_name_that_is_only_mapped_is_seen_by_root_alone(tmp_path):
    (tmp_path / "gone").write_bytes(b"x" * 300_000)
    with subprocess.Popen([sys.executable, "-c", _MAPS, str(tmp_path / "gone")], stdin=-1, stdout=-1) as holder:
        holder.stdout.readline()
        size = unlinked_size([holder.pid], 1 << 40)
        holder.stdin.close()
    assert 300_000 <= size < 310_000 if os.geteuid() == 0 else size == 0


def test_a_process_is_alone_only_where_the_kernel_says_that_it_has_no_child(sleeper):
    assert alone(sleeper().pid) and not alone(os.getpid()) and not alone(-1)


def test_a_process_that_is_not_the_containers_is_not_killed(monkeypatch):
    killed: list[Any] = []
    monkeypatch.setattr("signal.pidfd_send_signal", lambda *given: killed.append(given))
    end_first_process(os.getpid(), "f" * 64)
    end_first_process(0, "f" * 64)
    assert killed == []


def test_folders_of_containers_are_read_by_root_where_the_storage_names_them(monkeypatch):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    told = [reads_folders({"DockerRootDir": "/", "Driver": name}) for name in ("overlay2", "overlayfs", "btrfs", "vfs")]
    assert told == [os.geteuid() == 0, False, False, False]
    monkeypatch.setenv("DOCKER_HOST", "tcp://other:2375")
    assert not reads_folders({"DockerRootDir": "/", "Driver": "overlay2"})


def played(*written):
    """Sandboxes at work whose files have so many bytes, and the watch over them with what it ended."""
    running = [
        SimpleNamespace(pid=number, first=number, asked=object(), at_work=True) for number in range(len(written))
    ]
    sandboxes = [SimpleNamespace(process=process, ended=[]) for process in running]
    watch = object.__new__(Watchdog)
    watch._sandboxes, watch._busy, watch._ending, watch._calm = lambda: sandboxes, set(), set(), {}
    watch._stirred = threading.Event()
    watch._measured = {id(one): (time.monotonic(), 1000.0, size) for one, size in zip(sandboxes, written, strict=True)}
    watch._end = lambda sandbox, fault: sandbox.ended.append(fault)
    return watch, sandboxes


def test_what_is_taken_in_the_first_rest_pulls_the_wire(free, monkeypatch):
    rests, pulled = [], []

    def rest(seconds):
        rests.append(seconds)
        free.held += 2 * tripwire.MEMORY_STEP if len(rests) == 1 else 0
        return len(rests) == 3

    watch = object.__new__(Watchdog)
    watch._wire, watch._stirred = tripwire.Tripwire(Path("/")), threading.Event()
    watch._stopped = SimpleNamespace(wait=rest, is_set=lambda: False)
    watch._stirred.wait = watch._stirred.set
    monkeypatch.setattr(watch, "_look", pulled.append, raising=False)
    watch._run()
    assert [signs.memory for signs in pulled] == [True]


@pytest.mark.parametrize(("written", "ends"), [
    ((tripwire.DISK_STEP - 1, 0), [False, False]),
    ((0, tripwire.DISK_STEP), [False, True]),
    ((2 * tripwire.DISK_STEP, tripwire.DISK_STEP), [True, False]),
])  # fmt: skip
def test_where_the_disk_runs_short_only_who_holds_much_of_it_goes(monkeypatch, written, ends):
    monkeypatch.setattr(watchdog, "census", lambda roots: {pid: [Process(1, 0, 0), Process(2, 0, 0)] for pid in roots})
    monkeypatch.setattr(watchdog, "_process_fault", lambda *given, **how: "")
    monkeypatch.setattr(threading, "Thread", lambda target, args, **how: SimpleNamespace(start=lambda: target(*args)))
    watch, sandboxes = played(*written)
    watch._look(tripwire.Signs(disk=True, disk_short=True))
    assert [bool(one.ended) for one in sandboxes] == ends


def test_a_sandbox_in_which_nothing_runs_is_not_looked_at_until_something_is_asked_of_it(monkeypatch, tmp_path):
    below = {0: [Process(10, 0, 0)], 1: [Process(20, 0, 0), Process(21, 0, 0)]}
    looked, with_children = [], set()
    monkeypatch.setattr(watchdog, "census", lambda roots: looked.extend(roots) or {pid: below[pid] for pid in roots})
    monkeypatch.setattr(watchdog, "_process_fault", lambda *given, **how: "")
    monkeypatch.setattr(watchdog, "alone", lambda first: first not in with_children)
    watch, (calm, busy) = played(0, 0)
    for one in (calm, busy):
        one.sent, one.folder, one.limits = tripwire.Sent(), tmp_path, SimpleNamespace(storage=ROOM, paths=100)

    def look():
        looked.clear()
        watch._look(tripwire.Signs())
        return looked, watch._stirred.is_set()

    watch._measured.clear()
    assert look() == ([0, 1], True), "their commands are to be answered"
    calm.process.at_work = busy.process.at_work = False
    watch._measured = dict.fromkeys(watch._measured, (time.monotonic(), 1000.0, 0))
    assert look() == ([0, 1], True), "their files were not measured since"
    with_children.add(0)
    watch._measured.clear()
    assert look() == ([0, 1], True), "the walk saw no process of one sandbox, but the kernel knows a child"
    with_children.clear()
    watch._measured.clear()
    assert look() == ([0, 1], True)
    assert look() == ([1], True), "something that a command left runs on"
    below[1].pop()
    watch._measured.clear()
    assert look() == ([1], False)
    assert look() == ([], False)
    calm.process.asked = object()
    assert look()[0] == [0]


def test_a_crowd_of_sessions_is_a_fault_where_the_filter_could_not_refuse_them():
    sandbox = SimpleNamespace(limits=SimpleNamespace(memory=ROOM), process=SimpleNamespace(first=-1))
    crowd = [Process(number, 0, session=number) for number in range(2 * SESSIONS + 1)]
    assert watchdog._process_fault(sandbox, crowd, pulled=False) == "it has more than 32 sessions"
    assert watchdog._process_fault(sandbox, crowd[1:], pulled=False) == ""


@pytest.mark.parametrize(("sizes", "shared_by", "asked", "beyond"), [
    ([100, 100, 100], 1, 0, False),  # together within the limit, whatever they share
    ([90] * 16, 1, 4, True), ([10, 10, 400], 1, 1, True),
    ([200, 200], 2, 1, False), ([200] * 16, 16, 16, False), ([], 1, 0, False),
])  # fmt: skip
def test_memory_beyond_the_limit_is_told_by_as_few_processes_as_settle_it(monkeypatch, sizes, shared_by, asked, beyond):
    asks = []
    monkeypatch.setattr(watchdog, "proportional", lambda pid, size: asks.append(pid) or size // shared_by)
    sandbox = SimpleNamespace(limits=SimpleNamespace(memory=300 << 20), process=SimpleNamespace(first=-1))
    held = [Process(number, size << 20, 0) for number, size in enumerate(sizes)]
    fault = watchdog._process_fault(sandbox, held, pulled=False)
    assert (fault, len(asks)) == ("its processes hold more than 300 MiB of memory" if beyond else "", asked)
