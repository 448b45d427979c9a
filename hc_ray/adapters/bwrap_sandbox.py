"""Sandboxes of bubblewrap: for machines without Docker, and for tasks whose image needs only what the host has.

A sandbox is one long-lived bwrap process over a folder that is its root. Files are read and written from the host,
commands go to the first process inside; so a sandbox that was killed keeps its files readable, and forks copy files."""

import asyncio
import errno
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from hc_ray.adapters import bwrap_binary, bwrap_command
from hc_ray.adapters.bwrap_command import Layout, Limits, Unplaceable
from hc_ray.adapters.bwrap_copy import remove_tree
from hc_ray.adapters.bwrap_environment import copy_environment, environment_fault
from hc_ray.adapters.bwrap_files import Manifest, RootTree
from hc_ray.adapters.bwrap_process import BwrapProcess
from hc_ray.adapters.bwrap_watchdog import Watchdog, Watched
from hc_ray.adapters.runner_build import ensure_runner
from hc_ray.errors import DatasetError, PlatformError, SandboxError
from hc_ray.filetree import Change, Member, absolute, pack, unpack
from hc_ray.home import data_root
from hc_ray.owner import is_alive
from hc_ray.ports import Difference, ExecResult
from hc_ray.task import Task

LATE_SECONDS = 1.7
"""How long past a deadline the first process inside may be silent before the sandbox is killed from outside."""
MEMORY_MB = 1024
STORAGE_MB = 512
PROCESSES = 256
Result = TypeVar("Result")


_THEIRS = frozenset(
    getattr(errno, name)
    for name in (
        "EROFS",
        "ENOTDIR",
        "EISDIR",
        "EACCES",
        "EPERM",
        "ELOOP",
        "ENAMETOOLONG",
        "EEXIST",
        "ENOTEMPTY",
        "EBUSY",
    )
)
"""What a path, or what lies there, can bring about: the doing of who chose it, not of the machinery."""


class BwrapSandbox:
    """``ports.Sandbox``. Made by ``BwrapPlace`` only."""

    def __init__(self, place: "BwrapPlace", folder: Path, placed: Layout, task: Task) -> None:
        self._place, self.folder, self._placed, self._task = place, folder, placed, task
        environment = task.environment
        self.limits = Limits(
            (environment.memory_mb or MEMORY_MB) << 20, (environment.storage_mb or STORAGE_MB) << 20, PROCESSES
        )
        self._user = bwrap_binary.lend_user()
        user = self._user.uid if self._user else None
        self.tree = RootTree(folder / "root", user=user, mounts=placed.mounts, closed=bwrap_command.CLOSED)
        self.before: Manifest = {}
        self._env = bwrap_command.environment(environment.env)
        self._process: BwrapProcess | None = None
        self._closed = False

    @property
    def workdir(self) -> str:
        return self._task.environment.workdir

    @property
    def pid(self) -> int:
        """bwrap's process number on the host."""
        return self._process.pid if self._process else -1

    def open(self, fill: "BwrapSandbox | None") -> None:
        """Make the files (the task's own, or a copy of another sandbox's) and start. Blocking."""
        user = self._user.uid if self._user else None
        self.folder.mkdir(mode=0o700)
        if user is not None:
            os.chown(self.folder, 0, user)
            self.folder.chmod(0o710)
        self.tree.root.mkdir(mode=0o755)
        if fill is None:
            bwrap_binary.lay_out(self.tree.root, self._placed, user)
            copy_environment(self._task, self._place.public_root / self._task.digest / "environment", self.tree)
            self.before = self.tree.manifest()
        else:
            fill.tree.copy_to(self.tree)
            self.before = fill.before
            if user is not None:
                os.chown(self.tree.root, user, user)
        self._process = BwrapProcess(
            bwrap_binary.find_bwrap(), self.tree.root, self._placed, self.limits, self._user, self.folder / "start.log"
        )
        self._process.start()

    async def exec(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        output_limit: int = 1 << 20,
    ) -> ExecResult:
        process = self._running()
        merged = {**self._env, **(env or {})}
        where = absolute(cwd or self.workdir, self.workdir)
        started = time.monotonic()
        number, future = await asyncio.to_thread(process.request, command, where, merged, timeout, stdin, output_limit)
        try:
            reply = await asyncio.wait_for(asyncio.wrap_future(future), timeout + LATE_SECONDS)
        except TimeoutError:
            await asyncio.to_thread(process.kill, "its first process did not answer")
            reply = None
        except asyncio.CancelledError:
            process.cancel(number)
            raise
        if reply is None:
            seconds = time.monotonic() - started
            said = f"the sandbox was killed: {process.why or 'its first process ended'}\n".encode()
            return ExecResult(exit_code=None, stdout=b"", stderr=said, timed_out=seconds >= timeout, seconds=seconds)
        header, payload = reply
        return ExecResult(
            exit_code=header["exit_code"],
            stdout=payload[: header["stdout"]],
            stderr=payload[header["stdout"] :],
            timed_out=header["timed_out"],
            truncated=header["truncated"],
            seconds=header["seconds"],
        )

    async def put(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        self._running()
        members = [Member(absolute(path, self.workdir), "file", mode, data=data) for path, data in files.items()]
        change = Change(members=tuple(members), deleted=())
        await self._write(change)

    async def put_tar(self, tar: bytes) -> None:
        self._running()
        change = unpack(tar)
        await self._write(change)

    async def get(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        self._running()
        return await self._files(lambda: self.tree.read(absolute(path, self.workdir), limit))

    async def difference(self, *, limit: int = 64 << 20) -> Difference:
        self._running()
        return await self._files(lambda: pack(*self.tree.changes(self.before, limit)))

    async def fork(self, name: str) -> "BwrapSandbox":
        self._running()
        return await self._place.start(self._task, name, self._placed, self)

    async def close(self) -> None:
        await asyncio.to_thread(self.shut)

    def kill(self, why: str) -> None:
        """End its processes; files stay readable. Blocking."""
        if self._process is not None:
            self._process.kill(why)

    def shut(self) -> None:
        """Kill every process, remove every trace. Idempotent and blocking."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._process is not None:
                self._process.kill("it was closed")
            remove_tree(self.folder)
        finally:
            if self._user is not None:
                self._user.give_back()
            self._place.forget(self)

    def _running(self) -> BwrapProcess:
        if self._closed or self._process is None:
            raise SandboxError("the sandbox is closed")
        return self._process

    async def _write(self, change: Change) -> None:
        try:
            await asyncio.to_thread(self.tree.apply, change)
        except OSError as error:
            if error.errno in _THEIRS:
                raise ValueError(f"cannot be written: {error}") from error
            raise SandboxError(f"files of a sandbox: {error}") from error

    async def _files(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            raise SandboxError(f"files of a sandbox: {error}") from error


class BwrapPlace:
    """``ports.SandboxPlace`` of one node and one owner. State lies in ``state_root/<owner>/<name>``."""

    def __init__(self, public_root: Path, state_root: Path, *, owner: str) -> None:
        """``owner`` as of ``hc_ray.owner``. Nothing is touched before the first ``create``."""
        self.public_root, self._state_root, self._owner = public_root, state_root, owner
        self._open: list[BwrapSandbox] = []
        self._lock = threading.Lock()
        self._watchdog: Watchdog | None = None
        self._used: dict[str, int] = {}

    async def create(self, task: Task, name: str, *, network: bool = False) -> BwrapSandbox:
        reason = "it was to have a network: a bwrap sandbox has none" if network else self.refuses(task)
        if reason:
            raise DatasetError(f"{task.name}: bwrap cannot take it: {reason}")
        placed = bwrap_command.layout(bwrap_command.written_folders(task), await asyncio.to_thread(ensure_runner))
        return await self.start(task, name, placed, None)

    def refuses(self, task: Task) -> str | None:
        reason = bwrap_command.refusal(task, host_programs=bwrap_command.host_programs())
        if reason:
            return reason
        try:
            bwrap_command.layout(bwrap_command.written_folders(task), Path("/"))
        except Unplaceable as error:
            return str(error)
        return environment_fault(task, self.public_root / task.digest / "environment")

    def limits(self) -> Mapping[str, str]:
        return {
            "user": "unprivileged, in namespaces of its own",
            "network": "none (namespace)",
            "memory": "rlimit per process, watchdog for the sum (shared memory that nobody maps is not seen)",
            "disk": "rlimit per file, watchdog for the sum",
            "pids": "rlimit" if os.geteuid() == 0 else "rlimit (of this user on Linux before 5.14)",
            "cpu": "nice 19, number of cores not limited",
            "time": "deadline per command",
            "output": "cut by count",
        }

    async def close(self) -> None:
        with self._lock:
            sandboxes = list(self._open)
        await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None
        with suppress(OSError):
            (self._state_root / self._owner).rmdir()

    # For its sandboxes

    async def start(self, task: Task, name: str, placed: Layout, fill: BwrapSandbox | None) -> BwrapSandbox:
        """Make and open a sandbox; a call that is given up leaves nothing behind."""
        work = asyncio.ensure_future(asyncio.to_thread(self._start, task, name, placed, fill))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_shut_result)
            raise

    def _start(self, task: Task, name: str, placed: Layout, fill: BwrapSandbox | None) -> BwrapSandbox:
        try:
            sandbox = BwrapSandbox(self, self._folder(name), placed, task)
            with self._lock:
                self._open.append(sandbox)
        except OSError as error:
            raise SandboxError(f"no folder for a sandbox: {error}") from error
        try:
            sandbox.open(fill)
        except BaseException as error:
            sandbox.shut()
            if isinstance(error, OSError):
                raise SandboxError(f"a sandbox's files could not be made: {error}") from error
            raise
        return sandbox

    def _folder(self, name: str) -> Path:
        """A folder that no sandbox of this owner has yet; the same names always give the same folders."""
        home = self._state_root / self._owner
        with self._lock:
            if self._watchdog is None:
                reap_folder(self._state_root)
                bwrap_binary.make_reachable(home)
                self._watchdog = Watchdog(self._watched)
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".")[:80] or "sandbox"
            self._used[plain] = self._used.get(plain, 0) + 1
            return home / (plain if self._used[plain] == 1 else f"{plain}.{self._used[plain]}")

    def _watched(self) -> list[Watched]:
        with self._lock:
            return [sandbox for sandbox in self._open if sandbox.pid > 0]

    def forget(self, sandbox: BwrapSandbox) -> None:
        with self._lock, suppress(ValueError):
            self._open.remove(sandbox)


def _shut_result(work: "asyncio.Future[BwrapSandbox]") -> None:
    if not work.cancelled() and work.exception() is None:
        threading.Thread(target=work.result().shut, daemon=True).start()


def probe() -> str | None:
    """None where a sandbox can be started here (one is); else what was tried, and the remedy."""
    if sys.platform != "linux":
        return f"bubblewrap needs Linux, this is {sys.platform}: use Docker"
    try:
        bwrap_binary.find_bwrap()
    except (PlatformError, SandboxError) as error:
        return str(error)
    except OSError as error:
        return f"{error}: is {data_root()} writable? Set HC_RAY_HOME to a folder that is"
    return None


def reap(live_owners: Collection[str] = ()) -> list[str]:
    """Remove what dead owners left below ``data_root()/sandboxes``; ``live_owners`` are spared whatever they are."""
    root = data_root() / "sandboxes"
    folders = [root, *(folder for folder in root.iterdir() if folder.is_dir())] if root.is_dir() else []
    return [name for folder in folders for name in reap_folder(folder, live_owners)]


def reap_folder(state_root: Path, live_owners: Collection[str] = ()) -> list[str]:
    """The same for one state root; returns the folders that were removed."""
    removed = []
    for folder in sorted(state_root.iterdir()) if state_root.is_dir() else []:
        owner = folder.name
        if not folder.is_dir() or not re.match(r"\d+-\d+(-|$)", owner) or owner in live_owners or is_alive(owner):
            continue
        _kill_below(folder)
        remove_tree(folder)
        removed.append(str(folder))
    return removed


def _kill_below(folder: Path) -> None:
    """Kill each bwrap whose command line names a root below ``folder``: with it goes all of its sandbox."""
    wanted = f"{folder}/".encode()
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = line.read_bytes().split(b"\0")
            if b"--die-with-parent" in words and any(word.startswith(wanted) for word in words):
                os.kill(int(line.parent.name), signal.SIGKILL)
