"""The words of ``ports.Sandbox`` and ``ports.SandboxPlace`` on forks and walls: what it has of others and of the host.
Tested on every backend; run as root the bwrap half is run a second time as a normal user (``test_sandbox_as_user``)."""

import asyncio
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.ports import Sandbox, SandboxPlace
from hc_ray.domain.runner_paths import RUNNER_PYTHON
from hc_ray.sandboxes import tripwire
from hc_ray.sandboxes.bwrap.sandbox import BwrapPlace
from tests.fakes.contract_task import TASK, python, shell
from tests.fakes.machine import becomes, running


async def test_a_fork_has_a_copy_of_the_files_and_none_of_the_processes(box: Sandbox) -> None:
    marker = f"9{uuid.uuid4().int % 10**9}.75"
    await shell(box, f"echo mine > f; mkdir -p /tmp/t; echo t > /tmp/t/x; sleep {marker} >/dev/null 2>&1 &")
    await becomes(marker, 1)
    child = await box.fork("child")
    try:
        assert await shell(child, "cat f /tmp/t/x data.txt; pwd; echo $GREETING") == "mine\nt\none\n/app\nhello\n"
        assert running(marker) == 1
        await shell(child, "echo child > f; rm data.txt; touch c")
        await shell(box, "echo parent > p")
        assert await shell(box, "cat f; ls | tr '\\n' ' '") == "mine\ndata.txt f p "
        assert await shell(child, "ls | tr '\\n' ' '") == "c f "
        found = await child.difference()
        assert (found.changed, found.deleted) == (("/app/c", "/app/f"), ("/app/data.txt",))
        grandchild = await child.fork("grandchild")
        await child.close()
        assert await shell(grandchild, "cat f") == "child\n" and (await grandchild.difference()).tar == found.tar
        await grandchild.close()
    finally:
        await child.close()
    assert await shell(box, "cat f") == "mine\n"


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder of the host into which everybody may write."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.mark.parametrize(
    "done",
    [
        "mv /etc /etc2; ln -s ../../oldroot{outside} /etc",
        "mv /etc /etc2; touch /etc; chmod 0 /etc",
        "mv /etc /etc2; mkdir -p /etc/localtime /etc/alternatives/deep; chmod -R 0 /etc",
        "chmod 0 /etc; chmod 0 /",
        "rm -f /lib64; ln -s /nowhere /lib64",
        "cd /; rm -rf /app; touch /app",
    ],
)
async def test_forks_start_and_leave_the_host_alone_whatever_was_made_of_the_places_of_the_machinery(
    box: Sandbox, place: SandboxPlace, outside: Path, done: str
) -> None:
    await box.exec(["sh", "-c", done.format(outside=outside)], timeout=10)
    fork = await box.fork("later")
    try:
        ended = await fork.exec([*RUNNER_PYTHON, "-c", "print('here')"], cwd="/", timeout=10)
        assert (ended.exit_code, ended.stdout) == (0, b"here\n"), ended
    finally:
        await fork.close()
    with suppress(ValueError):  # in Docker what was moved is a copy, and too large
        tar = (await box.difference()).tar
        other = await place.create(TASK, f"given-{uuid.uuid4().hex[:8]}")
        try:
            await other.put_tar(tar)
            assert (await other.exec(["sh", "-c", "echo"], cwd="/", timeout=10)).exit_code in (0, 127, None)
        finally:
            await other.close()
    assert list(outside.iterdir()) == []


async def test_programs_find_localhost_in_a_sandbox_and_its_forks_and_none_finds_that_of_another(box: Sandbox) -> None:
    await box.put({"f": b"x"})
    child = await box.fork("child")
    serve = ("import socket, time\n"
             "with socket.create_server(('localhost', 8123)), socket.create_connection(('localhost', 8123)):\n"
             "    print('found'); time.sleep(3)\n")  # fmt: skip
    ask = ("import socket, time\n"
           "time.sleep(1)\n"
           "try: socket.create_connection(('localhost', 8123)); print('reached')\n"
           "except ConnectionRefusedError: print('refused')\n")  # fmt: skip
    try:
        assert await asyncio.gather(python(box, serve), python(child, ask)) == ["found\n", "refused\n"]
        assert await python(child, serve.replace("time.sleep(3)", "")) == "found\n"
    finally:
        await child.close()


async def test_a_command_lowers_its_own_limits_and_not_those_of_the_processes_that_lead_it(box: Sandbox) -> None:
    code = ("import os, resource\n"
            "for process in (1, os.getppid(), 0):\n"
            "    try: resource.prlimit(process, resource.RLIMIT_NOFILE, (9, 9)); print('lowered')\n"
            "    except PermissionError: print('refused')\n")  # fmt: skip
    assert (await python(box, code)).split() == ["refused", "refused", "lowered"]
    assert await shell(box, "echo on") == "on\n"


async def test_what_a_command_did_while_somebody_else_had_filled_the_disk_counts_for_nothing(place, monkeypatch):
    honest, filler = [await place.create(TASK, name) for name in ("honest", "filler")]
    await shell(filler, "head -c 40M /dev/zero > big")
    monkeypatch.setattr(tripwire, "DISK_FULL", 1 << 60)
    if not isinstance(place, BwrapPlace):
        from hc_ray.sandboxes.docker import watchdog

        monkeypatch.setattr(watchdog, "reads_folders", lambda facts: True)
    with pytest.raises(SandboxError, match=r"the disk of \S+ is full, and the sandbox has not filled it"):
        await shell(honest, "echo 1 > small")
    assert await shell(filler, "echo still here") == "still here\n"
    monkeypatch.undo()
    assert await shell(honest, "echo well again") == "well again\n"
    await asyncio.gather(honest.close(), filler.close())
