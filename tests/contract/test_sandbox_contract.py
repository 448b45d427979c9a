"""The words of ``ports.Sandbox`` and ``ports.SandboxPlace``, tested on every backend. Run as root the bwrap half is run
a second time as a normal user (``test_sandbox_as_user``)."""

import asyncio
import contextlib
import hashlib
import io
import json
import os
import shutil
import socket
import tarfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hc_ray.candidate import DELETED
from hc_ray.errors import SandboxError
from hc_ray.ports import Sandbox, SandboxPlace
from hc_ray.runner_paths import INIT_PATH, PYTEST_PURE, RUNNER_PYTHON
from hc_ray.task import Copy, Environment, Task
from tests.fakes.sandbox_home import BACKENDS, data_home, open_place

DOCKERFILE = (
    "FROM python:3.11-slim-bookworm\nWORKDIR /app\nENV GREETING=hello\nCOPY data.txt ./\nCOPY more /opt/more/\n"
)
DIGEST = hashlib.sha256(DOCKERFILE.encode()).hexdigest()
TASK = Task(
    name="contract",
    digest=DIGEST,
    instruction="",
    environment=Environment(
        dockerfile=DOCKERFILE,
        base="python:3.11-slim-bookworm",
        env={"GREETING": "hello"},
        copies=(
            Copy(sources=("data.txt",), destination="/app/"),
            Copy(sources=("more",), destination="/opt/more/"),
        ),
    ),
)


@pytest.fixture(scope="module")
def public_root() -> Iterator[Path]:
    with data_home() as home:
        public = home / f"public-{os.getpid()}"
        folder = public / DIGEST / "environment"
        (folder / "more").mkdir(parents=True)
        (folder / "Dockerfile").write_text(DOCKERFILE)
        (folder / "data.txt").write_text("one\n")
        (folder / "more" / "tool.sh").write_text("#!/bin/sh\necho tool\n")
        (folder / "more" / "tool.sh").chmod(0o755)
        yield public
        shutil.rmtree(public)


@pytest.fixture(scope="module", params=BACKENDS)
def place(request: pytest.FixtureRequest, public_root: Path) -> Iterator[SandboxPlace]:
    opened = open_place(request.param, public_root)
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
async def box(place: SandboxPlace) -> AsyncIterator[Sandbox]:
    sandbox = await place.create(TASK, f"box-{uuid.uuid4().hex[:8]}")
    yield sandbox
    await sandbox.close()


async def shell(box: Sandbox, text: str, timeout: float = 20.0) -> str:
    """Standard output of a shell line that must succeed."""
    done = await box.exec(["sh", "-c", text], timeout=timeout)
    assert done.exit_code == 0, done
    return done.stdout.decode()


async def python(box: Sandbox, text: str, timeout: float = 20.0) -> str:
    done = await box.exec([*RUNNER_PYTHON, "-c", text], timeout=timeout)
    assert done.exit_code == 0, done
    return done.stdout.decode()


def running(marker: str) -> int:
    """Processes of this machine whose command line names the marker."""
    found = 0
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += marker.encode() in line.read_bytes().split(b"\0")
    return found


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, 0o755 if kind == tarfile.DIRTYPE else 0o644
    return info


# create


async def test_a_new_sandbox_has_the_dockerfiles_workdir_files_and_environment(box: Sandbox) -> None:
    assert box.workdir == "/app"
    assert await shell(box, "pwd; cat data.txt; /opt/more/tool.sh; echo $GREETING") == "/app\none\ntool\nhello\n"
    assert (await box.difference()).changed == ()


async def test_a_backend_says_which_limits_hold_and_what_it_refuses(place: SandboxPlace) -> None:
    limits = place.limits()
    assert {"memory", "disk", "pids", "network", "cpu"} <= set(limits)
    assert all(isinstance(text, str) and text for text in limits.values())
    assert place.refuses(TASK) is None


# exec


async def test_exec_runs_an_argv_without_a_shell_and_keeps_streams_apart(box: Sandbox) -> None:
    done = await box.exec(["printf", "%s|", "$HOME", "a b", ";"], timeout=20)
    assert (done.exit_code, done.stdout, done.stderr) == (0, b"$HOME|a b|;|", b"")
    done = await box.exec(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=20)
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert not done.timed_out and not done.truncated and 0 <= done.seconds < 20


async def test_a_command_that_is_not_there_is_data_and_raises_nothing(box: Sandbox) -> None:
    done = await box.exec(["no-such-command"], timeout=20)
    assert done.exit_code in (126, 127)


async def test_exec_takes_a_folder_an_environment_and_standard_input(box: Sandbox) -> None:
    done = await box.exec(
        ["sh", "-c", "pwd; echo $GREETING $OTHER; wc -c"],
        timeout=20,
        cwd="/opt/more",
        env={"OTHER": "ü"},
        stdin=b"x" * 300_000,
    )
    assert done.stdout.decode().split() == ["/opt/more", "hello", "ü", "300000"]
    assert (await box.exec(["cat"], timeout=20)).stdout == b""


async def test_each_stream_is_cut_at_the_limit_while_the_command_goes_on(box: Sandbox) -> None:
    text = "import sys; sys.stdout.write('o' * 5_000_000); sys.stderr.write('e' * 10); open('/app/ended', 'w')"
    done = await box.exec([*RUNNER_PYTHON, "-c", text], timeout=20, output_limit=1000)
    assert (done.exit_code, done.truncated) == (0, True)
    assert (done.stdout, done.stderr) == (b"o" * 1000, b"e" * 10)
    assert await box.get("/app/ended") == b""


async def test_commands_run_side_by_side(box: Sandbox) -> None:
    started = time.monotonic()
    done = await asyncio.gather(*(box.exec(["sh", "-c", f"sleep 1; echo {i}"], timeout=20) for i in range(5)))
    assert [result.stdout for result in done] == [f"{i}\n".encode() for i in range(5)]
    assert time.monotonic() - started < 4.0


DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.environ.clear()
        while True:
            open('/app/beat', 'a').write('x')
            time.sleep(0.02)
    os._exit(0)
time.sleep(60)
"""


async def test_past_its_deadline_a_command_is_dead_with_all_that_it_hid_within_two_seconds(box: Sandbox) -> None:
    started = time.monotonic()
    done = await box.exec([*RUNNER_PYTHON, "-c", DAEMON], timeout=1.0)
    assert (done.exit_code, done.timed_out) == (None, True)
    await asyncio.sleep(max(0.0, started + 3.0 - time.monotonic()))
    first = await box.get("/app/beat")
    assert first
    await asyncio.sleep(0.3)
    assert await box.get("/app/beat") == first
    assert "/app/beat" in (await box.difference()).changed


BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


async def test_a_fork_bomb_is_dead_within_two_seconds_of_its_deadline(box: Sandbox) -> None:
    marker = f"bomb-{uuid.uuid4().hex}"
    started = time.monotonic()
    done = await box.exec([*RUNNER_PYTHON, "-c", BOMB, marker], timeout=1.0)
    assert (done.exit_code, done.timed_out) == (None, True)
    while running(marker) and time.monotonic() < started + 3.0:
        await asyncio.sleep(0.05)
    assert running(marker) == 0
    assert await box.get("/app/data.txt") == b"one\n"


async def test_processes_live_until_close(box: Sandbox) -> None:
    marker = f"8{uuid.uuid4().int % 10**9}.25"
    await shell(box, f"sleep {marker} >/dev/null 2>&1 &")
    await shell(box, f"setsid sleep {marker} >/dev/null 2>&1 &")
    end = time.monotonic() + 10.0
    while running(marker) < 2 and time.monotonic() < end:
        await asyncio.sleep(0.02)
    assert running(marker) == 2
    assert await shell(box, f"grep -l {marker} /proc/[0-9]*/cmdline 2>/dev/null | grep -v self | wc -l") >= "2"
    await box.close()
    assert running(marker) == 0


# files


async def test_put_writes_files_where_they_are_named_and_get_reads_them(box: Sandbox) -> None:
    await box.put({"in/a.txt": b"a", "/srv/deep/b": b"\0b", "run.sh": b"#!/bin/sh\necho ran\n"}, mode=0o755)
    assert await shell(box, "cat in/a.txt; wc -c < /srv/deep/b; ./run.sh; echo more >> in/a.txt") == "a2\nran\n"
    assert await box.get("in/a.txt") == b"amore\n"
    assert await box.get("/app/in/a.txt", limit=3) == b"amo"
    assert await box.get("/srv/deep") is None
    assert await box.get("nowhere/at/all") is None
    await box.put({"in/a.txt": b"again"})
    assert await box.get("in/a.txt") == b"again"


async def test_get_of_a_pipe_is_nothing_and_does_not_hang(box: Sandbox) -> None:
    await python(box, "import os; os.mkfifo('/app/pipe')")
    assert await asyncio.wait_for(box.get("/app/pipe"), 10) is None


async def test_put_tar_writes_and_removes(box: Sandbox) -> None:
    await shell(box, "mkdir gone; touch gone/x; mkdir becomes-file; touch becomes-file/y")
    removed = json.dumps(["/app/gone", "/app/data.txt", "/app/never-was"]).encode()
    await box.put_tar(
        tar_of(
            (member(DELETED), removed),
            (member("app/new", tarfile.DIRTYPE), b""),
            (member("app/new/file"), b"data"),
            (member("app/becomes-file"), b"now a file"),
            (member("app/link", tarfile.SYMTYPE, "new/file"), b""),
        )
    )
    assert (
        await shell(box, "ls -a | tr '\\n' ' '; cat link becomes-file") == ". .. becomes-file link new datanow a file"
    )


@pytest.mark.parametrize(
    "bad",
    [
        member("../x"),
        member("app/../../x"),
        member("/app/x"),
        member("app/device", tarfile.CHRTYPE),
        member("app/pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda info: info.name,
)
async def test_put_tar_refuses_members_that_leave_the_root_or_are_devices(box: Sandbox, bad: tarfile.TarInfo) -> None:
    with pytest.raises(ValueError):
        await box.put_tar(tar_of((member("app/before"), b"x"), (bad, b"")))
    assert await box.get("/app/before") is None


async def test_put_tar_refuses_to_remove_outside_and_what_is_no_tar(box: Sandbox) -> None:
    for listed in (["../etc/passwd"], ["/app/../../etc/passwd"], ["/"], {"a": 1}):
        with pytest.raises(ValueError):
            await box.put_tar(tar_of((member(DELETED), json.dumps(listed).encode())))
    with pytest.raises(ValueError):
        await box.put_tar(b"no tar at all" * 100)


async def test_links_that_lead_out_lead_nowhere_on_the_host(box: Sandbox, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "secret").write_text("host")
    await shell(box, f"ln -s {tmp_path} out; ln -s {tmp_path}/secret secret; ln -s ../../../../../../..{tmp_path} up")
    for path in ("secret", "out/secret", "up/secret"):
        assert await box.get(path) is None
    for path in ("out/new", "up/new"):
        with contextlib.suppress(SandboxError, ValueError):
            await box.put({path: b"x"})
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert b"host" not in (await box.difference()).tar


# difference


async def test_a_difference_names_what_is_new_changed_and_removed(box: Sandbox) -> None:
    await shell(
        box,
        "echo two > data.txt; mkdir -p d/e; echo f > d/e/f; ln -s data.txt l; chmod 700 /opt/more/tool.sh;"
        "mkdir -p /srv/out; echo x > /srv/out/x; touch /tmp/t; mkdir -p /logs /tests; touch /logs/l /tests/t",
    )
    found = await box.difference()
    assert set(found.changed) == {
        "/app/d", "/app/d/e", "/app/d/e/f", "/app/data.txt", "/app/l", "/opt/more/tool.sh", "/srv/out", "/srv/out/x",
    }  # fmt: skip
    assert list(found.changed) == sorted(found.changed) and found.deleted == ()
    with tarfile.open(fileobj=io.BytesIO(found.tar)) as tar:
        assert tar.getmember("opt/more/tool.sh").mode & 0o777 == 0o700
        assert tar.getmember("app/l").linkname == "data.txt"
        content = tar.extractfile("app/data.txt")
        assert content is not None and content.read() == b"two\n"
    await shell(box, "rm -r data.txt /opt/more")
    found = await box.difference()
    assert set(found.deleted) == {"/app/data.txt", "/opt/more"}
    with tarfile.open(fileobj=io.BytesIO(found.tar)) as tar:
        assert tar.getnames()[0] == DELETED


async def test_what_was_changed_and_changed_back_is_no_difference(box: Sandbox) -> None:
    await shell(box, "cp data.txt c; echo two > data.txt; cat c > data.txt; rm c; touch data.txt")
    found = await box.difference()
    assert (found.changed, found.deleted) == ((), ())


async def test_a_difference_put_into_a_fresh_sandbox_gives_the_same_difference(
    place: SandboxPlace, box: Sandbox
) -> None:
    await shell(box, "mkdir d; echo f > d/f; chmod 755 d/f; ln -s /nowhere l; rm data.txt; mkfifo p; mkdir empty")
    found = await box.difference()
    fresh = await place.create(TASK, "fresh")
    try:
        await fresh.put_tar(found.tar)
        again = await fresh.difference()
        assert (again.changed, again.deleted, again.tar) == (found.changed, found.deleted, found.tar)
    finally:
        await fresh.close()


async def test_a_difference_beyond_its_limit_raises_and_holes_count(box: Sandbox) -> None:
    await shell(box, "head -c 3000 /dev/zero > small")
    with pytest.raises(ValueError):
        await box.difference(limit=1000)
    assert (await box.difference(limit=100_000)).changed == ("/app/small",)
    await python(box, "open('/app/sparse', 'wb').truncate(200 << 20)")
    with pytest.raises(ValueError):
        await box.difference()


# fork


async def test_a_fork_has_a_copy_of_the_files_and_none_of_the_processes(box: Sandbox) -> None:
    marker = f"9{uuid.uuid4().int % 10**9}.75"
    await shell(box, f"echo mine > f; mkdir -p /tmp/t; echo t > /tmp/t/x; sleep {marker} >/dev/null 2>&1 &")
    end = time.monotonic() + 10.0
    while not running(marker) and time.monotonic() < end:
        await asyncio.sleep(0.02)
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
        assert await shell(grandchild, "cat f") == "child\n"
        assert (await grandchild.difference()).tar == found.tar
        await grandchild.close()
    finally:
        await child.close()
    assert await shell(box, "cat f") == "mine\n"


# walls


async def test_there_is_no_network(box: Sandbox) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        server.listen()
        port = server.getsockname()[1]
        code = (
            "import socket, os\n"
            "names = {name for _, name in socket.if_nameindex()} - {'tunl0', 'ip6tnl0', 'sit0', 'gre0'}\n"
            "print(sorted(names))\n"
            f"for host in ('127.0.0.1', '192.0.2.1', '{socket.gethostbyname('localhost')}'):\n"
            f"    try: socket.create_connection((host, {port}), 2); print('reached')\n"
            "    except OSError: print('no')\n"
        )
        assert (await python(box, code)).split() == ["['lo']", "no", "no", "no"]


async def test_files_of_the_host_are_not_there(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "marker").write_text("host")
    places = [
        str(Path(__file__)),
        str(tmp_path / "marker"),
        str(Path.home() / ".bashrc"),
        "/etc/shadow",
        str(Path.cwd()),
    ]
    for path in places:
        if path not in ("/root/.bashrc", "/etc/shadow"):  # an image has its own
            assert (await box.exec(["test", "-e", path], timeout=20)).exit_code == 1, path
    found = await python(box, "import os; print([n for n in os.listdir('/proc') if n.isdigit()].__len__() < 40)")
    assert found == "True\n"


async def test_two_sandboxes_see_nothing_of_each_other(place: SandboxPlace, box: Sandbox) -> None:
    marker = f"6{uuid.uuid4().int % 10**9}.125"
    other = await place.create(TASK, "other")
    try:
        await shell(
            box, f"echo s > /app/only; echo s > /tmp/only; echo s > /dev/shm/only; sleep {marker} >/dev/null 2>&1 &"
        )
        assert await shell(other, "ls /app /tmp /dev/shm | grep only; cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'") != ""
        seen = await shell(other, "ls /app /tmp /dev/shm; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'")
        assert "only" not in seen.split() and marker not in seen.split()
    finally:
        await other.close()


# the runner


async def test_the_runner_is_there_with_pytest_and_cannot_be_written(box: Sandbox) -> None:
    assert "pytest" in (await box.exec([*RUNNER_PYTHON, "-m", "pytest", "--version"], timeout=20)).stdout.decode()
    assert await shell(box, f"test -f {INIT_PATH}; test -d {PYTEST_PURE}/_pytest; echo $?") == "0\n"
    done = await box.exec(["sh", "-c", "touch /opt/hc/x || rm /opt/hc/bin/python3"], timeout=20)
    assert done.exit_code != 0


# close


async def test_close_is_idempotent_and_a_closed_sandbox_takes_no_more_commands(place: SandboxPlace) -> None:
    sandbox = await place.create(TASK, "closing")
    await sandbox.close()
    await sandbox.close()
    with pytest.raises(SandboxError):
        await sandbox.exec(["true"], timeout=5)


async def test_a_place_closes_all_that_it_opened(
    public_root: Path, request: pytest.FixtureRequest, place: SandboxPlace
) -> None:
    second = open_place(request.node.callspec.params["place"], public_root)
    marker = f"5{uuid.uuid4().int % 10**9}.5"
    sandbox = await second.create(TASK, "left-open")
    await shell(sandbox, f"sleep {marker} >/dev/null 2>&1 &")
    await second.close()
    assert running(marker) == 0
