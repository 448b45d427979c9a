"""What holds for bubblewrap alone: whom it runs as, what its watchdog kills, what a dead owner leaves behind."""

import asyncio
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from hc_ray.agent import environment_probe
from hc_ray.domain.errors import DatasetError, PlatformError
from hc_ray.domain.runner_paths import RUNNER_PYTHON, inside_command
from hc_ray.domain.task import Copy, Environment, Task
from hc_ray.machine.owner import current_owner, is_alive
from hc_ray.sandboxes.bwrap import binary as bwrap_binary
from hc_ray.sandboxes.bwrap.sandbox import BwrapPlace, probe, reap, reap_folder
from hc_ray.sandboxes.inside.processes import NICE, SESSIONS
from tests.fakes import attacks
from tests.fakes.contract_task import shell
from tests.fakes.machine import becomes, running, seconds_until_gone
from tests.fakes.processes import family, program
from tests.fakes.sandbox_home import data_home

CHECKOUT = Path(__file__).parents[2]


def task(**environment: object) -> Task:
    return Task(name="t", digest="ab" * 32, instruction="", environment=Environment.model_validate(environment))


@pytest.fixture(scope="module")
def home():
    with data_home() as folder:
        yield folder


@pytest.fixture
async def place(home):
    opened = BwrapPlace(home / "public", home / "sandboxes" / "bwrap-test", owner=current_owner())
    yield opened
    await opened.close()


async def test_sandboxes_of_one_name_can_be_made_at_once_and_close_leaves_nothing_of_them(home):
    place = BwrapPlace(home / "public", home / "sandboxes" / "at-once", owner=current_owner())
    bwrap_binary.working_bwrap.cache_clear()
    try:
        boxes = await asyncio.gather(*(place.create(task(), "../same") for _ in range(4)))
        assert [await shell(box, "id -u") for box in boxes] == ["1000\n"] * 4
        assert len({box.folder for box in boxes}) == 4 and all(home in box.folder.parents for box in boxes)
        await shell(boxes[0], "echo 1 > f; mkdir -p deep/er; chmod 000 deep f")
        assert await boxes[1].get("f") is None
        await boxes[0].close()
        assert not boxes[0].folder.exists()
    finally:
        await place.close()
    assert list((home / "sandboxes" / "at-once").iterdir()) == []


_CROWD = """
import os, sys, time
refused = 0
for _ in range(40):
    if not (child := os.fork()):
        try: os.setsid()
        except PermissionError: os._exit(1)
        if not os.fork(): time.sleep(600)
        os._exit(0)
    refused += os.waitpid(child, 0)[1] != 0
open(sys.argv[1], 'w').close()
while not os.path.exists(sys.argv[2]): time.sleep(0.01)
print(refused)
"""
"""Sessions whose first processes have ended, each with one that goes on."""


async def test_a_sandbox_has_only_so_many_sessions_at_a_time_and_the_next_are_refused(place):
    box = await place.create(task(), "sessions")
    first, second = ([*RUNNER_PYTHON, "-c", _CROWD, *paths] for paths in (("1", "2"), ("2", "1")))
    # The second command has its own session when all are taken: else nothing could run in this sandbox any more.
    both = await asyncio.gather(box.exec(first, timeout=20), _after(box, "1", second))
    # One of them is the sandbox's own.
    assert sorted(int(done.stdout) for done in both) == [40 - (SESSIONS - 2), 40]


async def _after(box, path, command):
    while await box.get(path) is None:
        await asyncio.sleep(0.01)
    return await box.exec(command, timeout=20)


async def test_a_kernel_that_takes_no_filter_of_system_calls_gives_no_sandbox(home, monkeypatch):
    empty = bwrap_binary._HELLO.replace("hc_filter.program(counted=False)", "b''")
    monkeypatch.setattr(bwrap_binary, "_HELLO", empty)
    bwrap_binary.working_bwrap.cache_clear()
    with pytest.raises(PlatformError, match="this kernel cannot filter system calls"):
        bwrap_binary.find_bwrap()


@pytest.mark.parametrize(("fact", "lacking", "says"), [
    ("kernel_release", (5, 10), "Linux 5.14 or later, this is 5.10: use Docker"),
    ("resource.getrlimit", (64, 64), "256 open files, but the limit is 64: raise it (ulimit -n 1024)"),
], ids=["counts processes by user alone", "lets grading open too few files"])  # fmt: skip
def test_a_machine_that_lacks_what_a_sandbox_needs_gives_none_and_the_remedy(home, monkeypatch, fact, lacking, says):
    monkeypatch.setattr(f"hc_ray.sandboxes.bwrap.binary.{fact}", lambda *_: lacking)
    bwrap_binary.working_bwrap.cache_clear()
    assert probe() == f"bubblewrap sandboxes need {says}"


def test_a_data_folder_that_runs_no_programs_is_named_with_the_remedy(home, monkeypatch):
    monkeypatch.setattr(bwrap_binary, "_try", lambda bwrap: "bwrap: execvp /.hc/bin/python3: Permission denied")
    monkeypatch.setattr(bwrap_binary.os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC))
    bwrap_binary.working_bwrap.cache_clear()
    assert "(it is mounted noexec): set HC_RAY_HOME to a folder elsewhere" in probe()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="calls the kernel as a 32-bit program of x86-64 does")
async def test_a_program_that_calls_the_kernel_as_a_32_bit_one_is_ended_with_a_bad_system_call(place):
    box = await place.create(task(), "narrow")
    getpid = bytes((0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3))  # mov eax, 20; int 0x80; ret
    code = ("import ctypes, mmap; held = mmap.mmap(-1, 4096, prot=7); "
            f"held.write({getpid!r}); at = ctypes.addressof(ctypes.c_char.from_buffer(held)); "
            "print('runs', flush=True); print(ctypes.CFUNCTYPE(ctypes.c_int)(at)())")  # fmt: skip
    done = await box.exec([*RUNNER_PYTHON, "-c", code], timeout=20)
    assert (done.exit_code, done.stdout) == (128 + signal.SIGSYS, b"runs\n")


async def test_a_tool_of_the_host_is_asked_for_its_version_once_and_one_of_the_sandboxs_own_each_time(place):
    box = await place.create(task(), "look")
    await box.put({"/app/bin/jq": b"#!/bin/sh\necho jq-1.7.1\n"}, mode=0o755)

    async def look(known):
        done = await box.exec([*inside_command("look"), "/app"], timeout=60, stdin=json.dumps(known).encode(),
                              env={"PATH": "/app/bin:/usr/bin:/bin"})  # fmt: skip
        return environment_probe.read(done.stdout)

    first = await look({})
    assert first.tools["jq"] == "1.7.1" and first.tools["sed"] in first.shared.values()
    assert not any(program.startswith("/app") for program in first.shared)
    second = await look(dict.fromkeys(first.shared, "1.2.3"))
    assert (second.tools["jq"], second.tools["sed"]) == ("1.7.1", "1.2.3")


async def test_no_process_of_a_sandbox_is_root_on_the_host_and_two_sandboxes_of_root_are_two_users(place):
    users = []
    for name in ("a", "b"):
        box = await place.create(task(), name)
        await shell(box, "sleep 300 >/dev/null 2>&1 &")
        found = set()
        for pid in family(box.process.pid):
            status = Path(f"/proc/{pid}/status").read_text()
            numbers = re.search(r"Uid:\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", status)
            found |= {int(number) for number in numbers.groups()}
            groups = re.search(r"Groups:(.*)", status)
            assert groups is not None and "0" not in groups[1].split()
        assert len(found) == 1 and 0 not in found
        users.append(found.pop())
    assert users[0] != users[1] if os.geteuid() == 0 else set(users) == {os.geteuid()}


async def test_inside_there_are_no_rights_no_namespaces_and_no_way_to_the_first_process(place):
    box = await place.create(task(), "rights")
    status = await shell(box, "cat /proc/self/status")
    assert set(re.findall(r"Cap(?:Prm|Eff|Bnd|Amb):\s+(\w+)", status)) == {"0" * 16} and "NoNewPrivs:\t1" in status
    assert (await box.exec(["unshare", "-U", "true"], timeout=10)).exit_code != 0
    assert (await box.exec(["unshare", "-m", "true"], timeout=10)).exit_code != 0
    box = await place.create(task(), "first")
    await box.exec(["sh", "-c", "kill -9 1; kill -INT 1; kill -TERM 1; kill -STOP 1"], timeout=10)
    assert (
        await shell(box, "cat /proc/1/environ /proc/1/mem 2>/dev/null | wc -c; ls /proc/1/fd 2>/dev/null | wc -l")
        == "0\n0\n"
    )


async def test_everything_inside_yields_to_the_engine_and_nothing_of_the_host_can_be_written(place):
    told = await shell(await place.create(task(), "nice"), "nice; cat /proc/self/oom_score_adj")
    assert told == f"{min(19, os.nice(0) + NICE)}\n1000\n"
    box = await place.create(task(), "readonly")
    for path in ("/usr/bin/x", "/.hc/x", "/dev/x", "/proc/sys/kernel/hostname", "/usr/lib/x"):
        assert (await box.exec(["sh", "-c", f"echo x > {path}"], timeout=10)).exit_code != 0, path


async def test_python_and_pytest_are_the_runners(place):
    box = await place.create(task(env={"PATH": "/usr/bin:/bin"}), "python")
    assert await shell(box, "which python3 python pytest") == "".join(
        f"/.hc/bin/{n}\n" for n in ("python3", "python", "pytest")
    )
    await box.put({"test_x.py": b"import sys\ndef test_x(): assert sys.executable == '/.hc/bin/python3'\n"})
    assert "1 passed" in await shell(box, "pytest -q test_x.py && python3 -m pytest -q test_x.py")


async def test_what_a_command_left_running_is_watched_after_its_end_and_what_is_put_there_later_too(place):
    grow = "for _ in range(4): os.fork() or None\nx = bytearray(os.urandom(20 << 20))\ntime.sleep(60)"
    late = f"import os, time\ntime.sleep(2.5)\n{grow}"
    box = await place.create(task(memory_mb=128), "late")
    await box.exec(["sh", "-c", f"{' '.join(RUNNER_PYTHON)} -c '{late}' >/dev/null 2>&1 &"], timeout=20)
    full = await place.create(task(storage_mb=8), "put")
    assert await shell(full, "echo calm") == "calm\n"
    await asyncio.sleep(1.5)  # it is calm by now
    await full.put({f"f{number}": bytes(4_000_000) for number in range(4)})
    for sandbox in (box, full):
        end = time.monotonic() + 15
        while sandbox.alive and time.monotonic() < end:
            await asyncio.sleep(0.05)
        assert not sandbox.alive and "MiB" in sandbox.process.why


async def test_sandboxes_may_have_as_many_files_open_as_their_process_is_allowed(home):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, limits[1]))
    place = BwrapPlace(home / "public", home / "sandboxes" / "many-files", owner=current_owner())
    try:
        await place.create(task(), "deep")
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(limits[1], 1 << 16)
    finally:
        await place.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_what_lies_in_buffers_of_tcp_counts_as_memory(place):
    box = await place.create(task(memory_mb=128), "tcp")
    ended = await box.exec([*RUNNER_PYTHON, "-c", attacks.BUFFERS_OF_TCP], timeout=30)
    assert ended.exit_code is None and "128 MiB" in box.process.why, ended
    await box.close()


async def test_of_one_that_is_ended_while_it_starts_both_halves_are_dead(place, home, monkeypatch):
    marker = f"2{os.getpid()}.5"
    halves = program(home / "halves", f"sleep {marker} & wait")
    monkeypatch.setattr(bwrap_binary, "find_bwrap", lambda: halves)
    box = await place.create(task(), "halves")
    command = asyncio.create_task(box.exec(["true"], timeout=60))
    await becomes(marker, 1)
    await box.close()
    await becomes(marker, 0)
    await command


async def test_one_that_is_ended_while_it_starts_is_dead_like_any_other(place):
    box = await place.create(task(), "early")
    box.process.why = "its files hold more than 8 MiB"  # as the watchdog says that looks just then
    done = await box.exec(["true"], timeout=5)
    assert (done.exit_code, done.stderr) == (None, b"the sandbox was killed: its files hold more than 8 MiB\n")


async def test_a_workdir_in_a_folder_of_the_host_is_the_sandboxs_own_and_where_none_is_named_it_is_the_root(place):
    for workdir in ("/usr/src/hc-test/app", "/root/project", "/", "/usr/local/hc-test"):
        box = await place.create(task(workdir=workdir), "workdir")
        assert await shell(box, "pwd; touch here; python3 -c 'print(1)'; which env") == f"{workdir}\n1\n/usr/bin/env\n"
        assert (await box.difference()).changed == (f"{workdir.rstrip('/')}/here",)
        await box.close()
    box = await place.create(task(dockerfile="FROM debian", workdir=""), "silent")  # as in the image of that name
    assert box.workdir == "/" and await shell(box, "pwd") == "/\n"


async def test_what_bubblewrap_cannot_take_is_refused_with_the_reason(place):
    assert place.refuses(task(base="python:3.12-slim")) is None
    missing = task(dockerfile="FROM debian", copies=(Copy(sources=("missing.txt",), destination="/app/"),))
    for word, wrong in (("RUN", task(run_steps=("apt-get install x",))), ("missing.txt", missing)):
        assert word in (place.refuses(wrong) or ""), word
        with pytest.raises(DatasetError):
            await place.create(wrong, "refused")
    with pytest.raises(DatasetError):
        await place.create(task(), "net", network=True)


OWNER = """
import asyncio, sys
from pathlib import Path
from hc_ray.sandboxes.bwrap.sandbox import BwrapPlace
from hc_ray.machine.owner import current_owner
from hc_ray.domain.task import Environment, Task

async def main():
    root = Path(sys.argv[1])
    place = BwrapPlace(root / "public", root / "sandboxes" / "killed", owner=current_owner() + "-solve")
    box = await place.create(Task(name="t", digest="d", instruction="", environment=Environment()), "a")
    await box.exec(["sh", "-c", f"setsid sleep {sys.argv[2]} >/dev/null 2>&1 &"], timeout=10)
    print(current_owner(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_killed_owners_processes_die_and_its_files_are_reaped(home, place):
    marker = f"4{os.getpid()}.125"
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(home), marker], stdout=subprocess.PIPE, text=True,
                               cwd=CHECKOUT)  # fmt: skip
    owner = process.stdout.readline().strip()
    await becomes(marker, 2)  # it names the marker itself
    assert is_alive(owner)
    assert reap_folder(home / "sandboxes" / "killed") == []
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    await asyncio.to_thread(seconds_until_gone, marker, at_most=2.0)
    assert running(marker) == 0
    assert reap_folder(home / "sandboxes" / "killed") == [str(home / "sandboxes" / "killed" / "a")]
    assert list((home / "sandboxes" / "killed").iterdir()) == []


TRIED = """import os
from hc_ray.sandboxes.bwrap import binary
binary.lay_out = lambda *_: os.kill(os.getpid(), 9)
binary.find_bwrap()
"""


def test_a_sandbox_that_was_tried_when_its_maker_was_killed_is_reaped_at_once(home):
    subprocess.run([sys.executable, "-c", TRIED], cwd=CHECKOUT)
    (left,) = (home / "sandboxes" / "probe").iterdir()
    assert str(left) in reap() and not left.exists()


def test_a_bwrap_that_waits_for_ever_since_its_owner_was_killed_as_it_started_goes_with_its_folder(tmp_path):
    (tmp_path / "half").mkdir()
    os.utime(tmp_path / "half", (1, 1))
    words = ["-c", "read never", "bwrap", "--die-with-parent", "--bind", f"{tmp_path}/half/root"]
    waits, other = ([*words[:-1], place] for place in (words[-1], f"{tmp_path}/other/root"))
    with subprocess.Popen(["sh", *waits], stdin=-1) as gone, subprocess.Popen(["sh", *other], stdin=-1) as stays:
        assert reap_folder(tmp_path) == [f"{tmp_path}/half"]
        assert gone.wait(10) == -signal.SIGKILL and stays.poll() is None


@pytest.mark.parametrize("owner", [None, b"", bytes(80)], ids=["none", "empty", "zeros"])
def test_a_folder_that_lost_its_owners_name_with_the_power_is_reaped_once_nobody_can_be_making_it(tmp_path, owner):
    folder = tmp_path / "half"
    folder.mkdir()
    if owner is not None:
        (folder / "owner").write_bytes(owner)
    assert reap_folder(tmp_path) == []
    os.utime(folder, (1, 1))
    assert reap_folder(tmp_path) == [str(folder)] and not folder.exists()


async def test_a_close_that_is_given_up_while_all_threads_are_busy_is_done_all_the_same(place):
    box, gate, loop = await place.create(task(), "given-up"), threading.Event(), asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    busy, closes = loop.run_in_executor(None, gate.wait), asyncio.ensure_future(box.close())
    await asyncio.wait([closes], timeout=0.1)
    closes.cancel()
    await asyncio.gather(closes, return_exceptions=True)
    gate.set()
    await busy
    await asyncio.to_thread(int)  # which that one thread comes to last
    assert not box.folder.exists()


async def test_a_call_that_is_given_up_ends_its_sandbox_and_its_files_stay_readable(place):
    box = await place.create(task(), "cancel")
    marker = f"3{os.getpid()}.5"
    command = asyncio.create_task(box.exec(["sh", "-c", f"echo 1 > kept; sleep {marker}"], timeout=60))
    await becomes(marker, 1)
    command.cancel()
    with pytest.raises(asyncio.CancelledError):
        await command
    await asyncio.to_thread(seconds_until_gone, marker, at_most=2.0)
    assert running(marker) == 0 and await box.get("kept") == b"1\n"
    assert b"a command of it was given up" in (await box.exec(["true"], timeout=5)).stderr
