"""One bwrap sandbox: a long-lived process with a folder as its root, whose files the host reads and writes."""

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.filetree import Change, Member, absolute, pack, unpack
from hc_ray.domain.ports import Difference, ExecResult
from hc_ray.domain.task import Task, named_in_tmp
from hc_ray.sandboxes.bwrap import binary as bwrap_binary
from hc_ray.sandboxes.bwrap import command as bwrap_command
from hc_ray.sandboxes.bwrap.command import Layout, Limits
from hc_ray.sandboxes.bwrap.copy import remove_tree
from hc_ray.sandboxes.bwrap.entries import Manifest
from hc_ray.sandboxes.bwrap.environment import copy_environment
from hc_ray.sandboxes.bwrap.files import RootTree
from hc_ray.sandboxes.bwrap.process import BwrapProcess
from hc_ray.sandboxes.tripwire import Sent, fault_of_disk
from hc_ray.tasks.public_folder import environment_dir

if TYPE_CHECKING:
    from hc_ray.sandboxes.bwrap.sandbox import BwrapPlace

LATE_SECONDS = 1.7
"""Seconds past a deadline after which a silent sandbox is killed from outside."""
MEMORY_MB = 1024
STORAGE_MB = 512
PATH_BYTES = 4096
"""Minimum bytes counted per file, folder or link, so that the byte limit also limits the number of paths."""
MOST_PATHS = 200_000
_TICK_SECONDS = 0.02
"""Longer than a tick of the kernel's clock: before Linux 6.13, a file that replaces one of the same size within a tick
looks unchanged."""
Result = TypeVar("Result")


_NAMES = ("ENOENT", "ENXIO", "EROFS", "ENOTDIR", "EISDIR", "EACCES", "EPERM", "ELOOP", "ENAMETOOLONG", "EEXIST",
          "ENOTEMPTY", "EBUSY")  # fmt: skip
_THEIRS = frozenset(getattr(errno, name) for name in _NAMES)
"""Errors caused by a path or its content, and thus by whoever chose it, not by the infrastructure."""


class BwrapSandbox:
    """``ports.Sandbox``. Created only by ``bwrap.sandbox.BwrapPlace``, in a folder made by it."""

    def __init__(self, place: "BwrapPlace", bwrap: Path, folder: Path, placed: Layout, task: Task) -> None:
        self._place, self.folder, self._placed, self._task = place, folder, placed, task
        environment = task.environment
        storage = (environment.storage_mb or STORAGE_MB) << 20
        paths = min(MOST_PATHS, storage // PATH_BYTES)
        self.limits = Limits((environment.memory_mb or MEMORY_MB) << 20, storage, bwrap_command.most_processes(), paths)
        self._user = bwrap_binary.lend_user()
        owner = self._user.uid if self._user else None
        self.tree = RootTree(folder / "root", placed, owner, named_in_tmp(task.instruction))
        self.before: Manifest = {}
        self._settled = 0.0
        """Monotonic time from which new writes have distinguishable time stamps."""
        self._env = bwrap_command.environment(environment.env)
        log = folder / "start.log"
        self.process = BwrapProcess(bwrap, self.tree, placed, self.limits, self._user, log, place.stir)
        self.sent = Sent()
        self._closed = False
        self._closing = threading.Lock()

    @property
    def workdir(self) -> str:
        return self._task.environment.workdir

    @property
    def alive(self) -> bool:
        return self.process.alive

    def open(self, fill: "BwrapSandbox | None") -> None:
        """Create the files: the task's own, or a copy of another sandbox's. Blocking."""
        if (user := self.tree.user) is not None:
            os.chown(self.folder, 0, user)
            self.folder.chmod(0o710)
        self.tree.root.mkdir(mode=0o755)
        if fill is None:
            bwrap_binary.lay_out(self.tree.root, self._placed, user)
            copy_environment(self._task, environment_dir(self._place.public_root, self._task.digest), self.tree)
            self.before = self.tree.manifest()
            self._settled = time.monotonic() + _TICK_SECONDS
        else:
            fill.tree.copy_to(self.tree)
            self.before = fill.before
            if user is not None:
                os.chown(self.tree.root, user, user)

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
        try:
            future = await asyncio.to_thread(process.request, command, where, merged, timeout, stdin, output_limit)
            # Not `asyncio.wait_for`, which swallows a cancellation that coincides with the reply, so that a trial would
            # outlive its time.
            async with asyncio.timeout(timeout + LATE_SECONDS):
                reply = await asyncio.wrap_future(future)
        except TimeoutError:
            await asyncio.to_thread(process.kill, "its first process did not answer")
            reply = None
        except asyncio.CancelledError:
            with suppress(SandboxError):
                await asyncio.to_thread(process.kill, "a command of it was given up")
            raise
        if fault := await asyncio.to_thread(fault_of_disk, self.folder, lambda: [self.folder]):
            raise SandboxError(fault)
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
        change = await asyncio.to_thread(unpack, tar)
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
        # If all threads are busy, cancelling the wait would withdraw the work.
        await asyncio.shield(asyncio.to_thread(self.shut))

    def kill(self, why: str) -> None:
        """End its processes; files stay readable. Blocking."""
        self.process.kill(why)

    def shut(self) -> None:
        """Kill every process, remove every trace. Idempotent and blocking."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        try:
            self.process.kill("it was closed")
            remove_tree(self.folder)
        finally:
            if self._user is not None:
                self._user.give_back()
            self._place.forget(self)

    def _running(self) -> BwrapProcess:
        if self._closed:
            raise SandboxError("the sandbox is closed")
        return self.process

    async def _write(self, change: Change) -> None:
        try:
            await asyncio.to_thread(self._apply, change)
        except OSError as error:
            if error.errno in _THEIRS:
                raise ValueError(f"cannot be written: {error}") from error
            raise SandboxError(f"files of a sandbox: {error}") from error
        except RecursionError:
            raise ValueError("cannot be written: folders nest too deeply there") from None

    def _apply(self, change: Change) -> None:
        time.sleep(max(0.0, self._settled - time.monotonic()))
        try:
            self.tree.apply(change)
        finally:
            self.process.touch()

    async def _files(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            raise SandboxError(f"files of a sandbox: {error}") from error
