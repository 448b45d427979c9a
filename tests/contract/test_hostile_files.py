"""Files, names and processes by which a program could make its sandbox a fault of the machinery's: whatever it leaves
behind, what is asked of its sandbox is answered, or refused with ``ValueError``. On every backend."""

import asyncio
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from hc_ray.domain.candidate import DELETED
from hc_ray.domain.filetree import unpack
from hc_ray.domain.ports import Sandbox, SandboxPlace
from hc_ray.domain.runner_paths import RUNNER_PYTHON
from hc_ray.sandboxes.docker.client import Daemon
from hc_ray.sandboxes.docker.container import DockerSandbox
from tests.fakes.contract_task import TASK, python, shell
from tests.fakes.machine import becomes
from tests.fakes.sandbox_home import closing

_BESIDE = """
import os, time
if os.fork():
    time.sleep(0.3)
    os._exit(0)
os.setsid()
for number in (0, 1, 2): os.close(number)
"""
_LEASE = """
import fcntl, signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
open('/app/x', 'w').write('abc')
file = os.open('/app/x', os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
time.sleep(600)
"""
_EXCHANGE = """
import ctypes, socket
exchange = ctypes.CDLL(None).renameat2
os.makedirs('/app/r')
os.chdir('/app/r')
pairs = []
for i in range(30):
    open(f'a{i}', 'w').write('x' * 100000); os.symlink('nothing', f'b{i}')
    os.makedirs(f'c{i}/x'); open(f'c{i}/x/y', 'w').close(); open(f'd{i}', 'w').close()
    open(f'e{i}', 'w').close(); socket.socket(socket.AF_UNIX).bind(f'f{i}')
    pairs += [(f'a{i}', f'b{i}'), (f'c{i}', f'd{i}'), (f'e{i}', f'f{i}')]
while True:
    for one, other in pairs: exchange(-100, one.encode(), -100, other.encode(), 2)
"""
_STOP = """
import signal
time.sleep(1.5)
old = {*os.listdir('/proc'), str(os.getpid())}
while True:
    for one in os.listdir('/proc'):
        if one.isdigit() and one not in old:
            try: os.kill(int(one), signal.SIGSTOP)
            except OSError: pass
    time.sleep(0.001)
"""
_NESTED = """
import os
os.chdir('/app')
for _ in range(190):
    os.mkdir('d' * 250)
    os.chdir('d' * 250)
"""


async def leaves(box: Sandbox, text: str) -> None:
    await box.exec([*RUNNER_PYTHON, "-c", _BESIDE + text], timeout=20)


async def test_a_link_or_a_name_that_is_too_long_leads_to_no_file(box: Sandbox) -> None:
    await python(box, "import os; os.symlink('a' * 300, '/app/l')")
    assert await box.get("/app/l") is None and await box.get("/app/" + "x" * 300) is None


async def test_a_lease_on_a_file_keeps_nobody_from_it(box: Sandbox) -> None:
    await leaves(box, _LEASE)
    async with asyncio.timeout(20):
        assert await box.get("/app/x") == b"abc" and "/app/x" in (await box.difference()).changed
        await (await box.fork("lease")).close()


async def test_files_may_change_kind_while_they_are_read(box: Sandbox) -> None:
    await leaves(box, _EXCHANGE)
    for _ in range(8):
        with suppress(ValueError):
            await box.difference()
        await (await box.fork("race")).close()


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/group"])
async def test_a_list_of_users_that_is_a_pipe_holds_nobody(box: Sandbox, path: str) -> None:
    await python(box, f"import os; os.remove('{path}'); os.mkfifo('{path}')")
    async with asyncio.timeout(20):
        fork = await box.fork("piped")
        assert (await fork.exec(["true"], timeout=5)).exit_code in (0, None)
        await fork.close()
        await box.close()


@pytest.mark.docker
async def test_what_lives_in_a_container_stands_still_while_the_daemon_opens_its_files(public_root: Path) -> None:
    async with closing("docker", public_root) as place:
        box = await place.create(TASK, "read")
        assert isinstance(box, DockerSandbox)
        daemon, marker = Daemon(), f"7{uuid.uuid4().int % 10**9}.5"

        def paused() -> bool:
            with box.still():
                return bool(daemon.inspected(box.container)["State"]["Paused"])

        await shell(box, "true")
        async with asyncio.timeout(60):  # once the command's helper is gone, which takes a while on a busy machine
            while await asyncio.to_thread(paused):
                pass
        await shell(box, f"sleep {marker} >/dev/null 2>&1 &")
        await becomes(marker, 1)
        assert await asyncio.to_thread(paused)
        assert await shell(box, "echo on") == "on\n"
        daemon.close()


async def test_a_fork_holds_a_file_of_several_names_once(box: Sandbox) -> None:
    await shell(
        box, "head -c 4000000 /dev/urandom > big; mkdir d; for i in $(seq 20); do ln big d/l$i; done; chmod 0 d"
    )
    fork = await box.fork("links")
    assert await shell(fork, "stat -c %h big") == "21\n"
    await fork.close()


async def test_a_difference_is_as_large_as_all_the_names_that_a_file_has_in_it(box: Sandbox) -> None:
    await shell(box, "mkdir d; head -c 1000000 /dev/urandom > d/big; for i in $(seq 20); do ln d/big d/l$i; done")
    with pytest.raises(ValueError, match="more than"):
        await box.difference(limit=15_000_000)
    assert len((await box.difference(limit=25_000_000)).tar) > 21_000_000


@pytest.mark.parametrize("made", [
    _NESTED + "for number in range(100): open(str(number), 'w').close()",
    "import os\nfor number in range(300): os.symlink('1' * 4000, f'/app/l{number}')",
], ids=["paths", "targets of links"])  # fmt: skip
async def test_long_names_count_in_a_difference(box: Sandbox, made: str) -> None:
    await python(box, made)
    with pytest.raises(ValueError):
        await box.difference(limit=1 << 20)


async def test_a_path_without_end_takes_no_descriptors(box: Sandbox) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    with pytest.raises(ValueError):
        await box.put({"/app/" + "x/" * 30_000 + "y": b""})
    assert await box.get("/app/" + "x/" * 30_000) is None
    assert len([*Path("/proc/self/fd").iterdir()]) < before + 10


async def test_large_inputs_and_outputs_travel_side_by_side(box: Sandbox) -> None:
    line = ["sh", "-c", "head -c 4000000 /dev/zero; cat > /dev/null"]
    work = [box.exec(line, timeout=20, stdin=b"x" * 3_000_000, output_limit=8 << 20) for _ in range(8)]
    assert {(done.exit_code, len(done.stdout)) for done in await asyncio.gather(*work)} == {(0, 4_000_000)}


async def test_a_file_may_have_a_name_by_which_layers_of_images_tell_removed_ones(box: Sandbox) -> None:
    await shell(box, "touch .wh.")
    with suppress(ValueError):
        await (await box.fork("whiteout")).close()


async def test_a_sandbox_whose_folders_nest_too_deeply_closes_beside_its_forks(box: Sandbox) -> None:
    child = await box.fork("child")
    await python(box, _NESTED)
    await box.close()
    with suppress(ValueError):
        await child.difference()
    await child.close()


@pytest.mark.parametrize("name", ["no space left on device", "x: no space left on device\n"])
async def test_a_file_may_be_called_as_a_full_disk_is_told(box: Sandbox, name: str) -> None:
    await shell(box, f"touch '{name}'")
    assert await box.get(f"/app/{name}/x") is None
    with pytest.raises(ValueError):
        await box.put({f"/app/{name}/x": b""})


async def test_links_that_lead_in_circles_are_part_of_the_difference_whatever_they_are_called(box: Sandbox) -> None:
    full = "x: no space left on device"
    await shell(box, f"ln -s '{full}' '{full}'; ln -s /app/d/a d; rm -rf /etc/skel data.txt; ln -s skel /etc/skel; "
                     "ln -s data.txt data.txt")  # fmt: skip
    assert await box.get(full) is None
    found = await box.difference()
    links = {f"/{member.path.lstrip('/')}": member.target for member in unpack(found.tar).members}
    assert links == {f"/app/{full}": full, "/app/d": "/app/d/a", "/app/data.txt": "data.txt", "/etc/skel": "skel"}


async def test_nobody_writes_the_list_of_removed_paths_in_our_place(box: Sandbox) -> None:
    await python(box, f"import os; open('/{DELETED}', 'w').write('[1]'); os.remove('/app/data.txt')")
    found = await box.difference()
    assert (found.changed, found.deleted) == ((), ("/app/data.txt",))
    fork = await box.fork("applied")
    await fork.put_tar(found.tar)
    await fork.close()


async def test_names_that_are_no_utf_8_are_part_of_a_difference(place: SandboxPlace, box: Sandbox) -> None:
    made = r"open(b'/app/\xff.txt', 'w').write('x'); os.mkdir(b'/srv/d\xfe'); open(b'/srv/d\xfe/y', 'w').close()"
    await python(box, f"import os; {made}")
    found = await box.difference()
    assert {"/app/\udcff.txt", "/srv/d\udcfe", "/srv/d\udcfe/y"} <= set(found.changed)
    assert "/app/data.txt" not in found.changed
    untouched = await place.create(TASK, "untouched")
    await untouched.put_tar(found.tar)
    assert (await untouched.difference()).changed == found.changed
    await untouched.close()


async def test_a_command_that_is_stopped_before_it_begins_ends_with_its_sandbox(box: Sandbox) -> None:
    await leaves(box, _STOP)
    await asyncio.sleep(3)
    async with asyncio.timeout(20):
        assert (await box.exec(["sleep", "2"], timeout=3)).exit_code is None
        await box.difference()
        await box.close()


@pytest.mark.docker
async def test_a_grading_that_is_stopped_from_inside_is_given_up_with_its_sandbox(public_root: Path) -> None:
    async with closing("docker", public_root) as place:
        box = await place.create(TASK.model_copy(update={"grading": "shared"}), "graded")
        assert isinstance(box, DockerSandbox)
        await leaves(box, _STOP)
        await asyncio.sleep(3)
        async with asyncio.timeout(100):
            assert await box.sealed(b"{}", timeout=240, limit=1000) == b"" and not box.alive
