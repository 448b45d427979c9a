"""The words of ``ports.Sandbox`` and ``ports.SandboxPlace`` on commands: how they run, end, and are ended.
Tested on every backend; run as root the bwrap half is run a second time as a normal user (``test_sandbox_as_user``)."""

import asyncio
import signal
import time
import uuid

import pytest

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.runner_paths import PYTEST_PURE, RUNNER_PYTHON, inside_script
from tests.fakes.contract_task import TASK, shell
from tests.fakes.machine import THREAD_EXIT, becomes, running
from tests.fakes.sandbox_home import open_place


async def test_a_new_sandbox_has_the_dockerfiles_workdir_files_and_environment_and_the_runner(box):
    assert box.workdir == "/app"
    assert await shell(box, "pwd; cat data.txt; /opt/more/tool.sh; echo $GREETING") == "/app\none\ntool\nhello\n"
    assert (await box.difference()).changed == ()
    assert "pytest" in (await box.exec([*RUNNER_PYTHON, "-m", "pytest", "--version"], timeout=20)).stdout.decode()
    assert await shell(box, f"test -f {inside_script('init')}; test -d {PYTEST_PURE}/_pytest; echo $?") == "0\n"
    assert (await box.exec(["sh", "-c", "touch /.hc/x || rm /.hc/bin/python3"], timeout=20)).exit_code != 0


async def test_exec_runs_an_argv_in_a_folder_with_an_environment_and_standard_input_and_keeps_streams_apart(box):
    done = await box.exec(["printf", "%s|", "$HOME", "a b", ";"], timeout=20)
    assert (done.exit_code, done.stdout, done.stderr) == (0, b"$HOME|a b|;|", b"")
    done = await box.exec(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=20)
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert not done.timed_out and not done.truncated and 0 <= done.seconds < 20
    done = await box.exec(["sh", "-c", "pwd; echo $GREETING $OTHER; wc -c"], timeout=20, cwd="/opt/more",
                          env={"OTHER": "ü"}, stdin=b"x" * 300_000)  # fmt: skip
    assert done.stdout.decode().split() == ["/opt/more", "hello", "ü", "300000"]
    assert (await box.exec(["cat"], timeout=20)).stdout == b""
    assert (await box.exec(["no-such-command"], timeout=20)).exit_code in (126, 127), "a missing command is data"


async def test_a_command_hears_every_signal_whatever_its_host_ignores_or_blocks(place):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        sandbox = await place.create(TASK, f"signals-{uuid.uuid4().hex[:8]}")
        seen = await shell(sandbox, "grep -E 'Sig(Ign|Blk)' /proc/self/status")
        await sandbox.close()
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    # Two signals are the C library's own: it lets nobody wait for them and ignores them in what ``posix_spawn`` makes.
    known = sum(1 << (number - 1) for number in signal.valid_signals())
    assert [int(line.split()[1], 16) & known for line in seen.splitlines()] == [0, 0], seen


async def test_each_stream_is_cut_at_the_limit_while_the_command_goes_on_and_others_run_beside_it(box):
    text = "import sys; sys.stdout.write('o' * 5_000_000); sys.stderr.write('e' * 10); open('/app/ended', 'w')"
    done = await box.exec([*RUNNER_PYTHON, "-c", text], timeout=20, output_limit=1000)
    assert (done.exit_code, done.truncated) == (0, True)
    assert (done.stdout, done.stderr) == (b"o" * 1000, b"e" * 10) and await box.get("/app/ended") == b""
    until_all_run = "touch began{0}; until [ -e began0 -a -e began1 -a -e began2 ]; do sleep 0.05; done; echo {0}"
    done = await asyncio.gather(*(box.exec(["sh", "-c", until_all_run.format(i)], timeout=20) for i in range(3)))
    assert [result.stdout for result in done] == [f"{i}\n".encode() for i in range(3)]


HEADLESS = """
import ctypes, os, threading, time
def beat():
    for _ in range(600):
        with open('/app/beat', 'a') as file:
            file.write('x')
        time.sleep(0.02)
threading.Thread(target=beat).start()
if os.fork() == 0:
    os.setsid()
    threading.Thread(target=beat).start()
ctypes.CDLL(None).syscall(ctypes.c_long(THREAD_EXIT), 0)
""".replace("THREAD_EXIT", str(THREAD_EXIT))
"""A process, and a child in a session of its own, whose first threads have ended while others go on: both look dead."""


async def test_past_its_deadline_threads_that_outlive_the_first_are_dead_within_two_seconds(box):
    started = time.monotonic()
    done = await box.exec([*RUNNER_PYTHON, "-c", HEADLESS], timeout=2.0)
    assert (done.exit_code, done.timed_out) == (None, True)
    await asyncio.sleep(max(0.0, started + 4.0 - time.monotonic()))
    first = await box.get("/app/beat")
    assert first
    await asyncio.sleep(0.3)
    assert await box.get("/app/beat") == first and "/app/beat" in (await box.difference()).changed


async def test_a_command_that_kills_what_leads_it_ends_the_sandbox_and_its_files_stay(box):
    await box.put({"kept": b"x"})
    done = await box.exec(["sh", "-c", "kill -9 $PPID; kill -9 -1; sleep 60"], timeout=20)
    assert done.exit_code is None and done.seconds < 10
    assert (await box.exec(["true"], timeout=5)).exit_code is None and await box.get("kept") == b"x"
    assert (await box.difference()).changed == ("/app/kept",)
    fork = await box.fork("alive-again")
    assert await shell(fork, "cat kept") == "x"
    await fork.close()


async def test_processes_live_until_close(box):
    marker = f"8{uuid.uuid4().int % 10**9}.25"
    await shell(box, f"sleep {marker} >/dev/null 2>&1 &")
    await shell(box, f"setsid sleep {marker} >/dev/null 2>&1 &")
    await becomes(marker, 2)
    assert await shell(box, f"grep -l {marker} /proc/[0-9]*/cmdline 2>/dev/null | grep -v self | wc -l") >= "2"
    await box.close()
    assert running(marker) == 0


async def test_a_place_closes_all_that_it_opened_and_makes_no_more(public_root, request, place):
    second = open_place(request.node.callspec.params["place"], public_root)
    marker = f"5{uuid.uuid4().int % 10**9}.5"
    left = await second.create(TASK, "left-open")
    await shell(left, f"sleep {marker} >/dev/null 2>&1 &")
    await second.close()
    assert running(marker) == 0
    await left.close()
    late_ones = (left.exec(["true"], timeout=5), left.get("data.txt"), left.fork("late"), second.create(TASK, "after"))
    for late in late_ones:
        with pytest.raises(SandboxError):
            await late
