"""Sandboxes of bubblewrap: for machines without Docker, and for tasks whose image needs only what the host has.

A sandbox is one long-lived bwrap process over a folder that is its root. Files are read and written from the host,
commands go to the first process inside; so a sandbox that was killed keeps its files readable, and forks copy files."""

import asyncio
import os
import re
import secrets
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hc_ray.domain.errors import DatasetError, PlatformError, SandboxError
from hc_ray.domain.task import Task
from hc_ray.machine.owner import is_leftover, label, on_own_disk
from hc_ray.machine.paths import data_root, refusal
from hc_ray.sandboxes.bwrap import binary as bwrap_binary
from hc_ray.sandboxes.bwrap import command as bwrap_command
from hc_ray.sandboxes.bwrap.box import BwrapSandbox
from hc_ray.sandboxes.bwrap.command import Layout, Unplaceable
from hc_ray.sandboxes.bwrap.copy import remove_tree, scatter_folders
from hc_ray.sandboxes.bwrap.environment import environment_fault
from hc_ray.sandboxes.bwrap.watchdog import PERIOD, Watchdog
from hc_ray.sandboxes.inside.processes import NICE
from hc_ray.sandboxes.runner_build import ensure_runner
from hc_ray.sandboxes.tripwire import TICK
from hc_ray.tasks.public_folder import environment_dir

_UNOWNED_SECONDS = 60.0
"""Seconds after which a state folder without an owner file counts as a leftover: it may still be in creation."""


class BwrapPlace:
    """``ports.SandboxPlace`` of one node and one owner. State lies in ``state_root/<name>``: code inside can read where
    its root lies on the host, so the path names nothing but the sandbox; its owner is written beside the root."""

    def __init__(self, public_root: Path, state_root: Path, *, owner: str) -> None:
        """``owner`` as of ``hc_ray.machine.owner``. Nothing is touched before the first ``create``."""
        self.public_root, self._state_root, self._owner = public_root, state_root, owner
        self._open: list[BwrapSandbox] = []
        self._lock = threading.Lock()
        self._watchdog: Watchdog | None = None
        self._used: dict[str, int] = {}
        self._closed = False

    async def create(self, task: Task, name: str, *, network: bool = False) -> BwrapSandbox:
        task = _placed(task)
        reason = "it was to have a network: a bwrap sandbox has none" if network else self.refuses(task)
        if reason:
            raise DatasetError(f"{task.name}: bwrap cannot take it: {reason}")
        placed = bwrap_command.layout(bwrap_command.written_folders(task), await asyncio.to_thread(ensure_runner))
        return await self.start(task, name, placed, None)

    async def prepare(self, task: Task) -> None:
        await asyncio.to_thread(ensure_runner)

    def refuses(self, task: Task) -> str | None:
        if task.grading == "separate":
            return "its verifier has an image of its own, which needs Docker"
        if task.grading == "shared":
            return "its tests run in the candidate's own living sandbox, which bubblewrap cannot give away: use Docker"
        task = _placed(task)
        reason = bwrap_command.refusal(task, host_programs=bwrap_command.host_programs())
        if reason:
            return reason
        try:
            bwrap_command.layout(bwrap_command.written_folders(task), Path("/"))
        except Unplaceable as error:
            return str(error)
        return environment_fault(task, environment_dir(self.public_root, task.digest))

    def limits(self) -> Mapping[str, str]:
        return {
            "user": "unprivileged, in namespaces of its own",
            "network": "none (namespace)",
            "memory": f"rlimit per process, watchdog ({TICK:g} to {PERIOD:g} s) for the sum",
            "disk": f"rlimit per file, watchdog ({TICK:g} to {PERIOD:g} s) for bytes and files",
            "pids": f"rlimit ({bwrap_command.most_processes()})",
            "cpu": f"nice {min(19, os.nice(0) + NICE)}, number of cores not limited",
            "time": "deadline per command",
            "output": "cut by count",
            "system calls": "filter (seccomp)",
        }

    async def close(self) -> None:
        with self._lock:
            self._closed, sandboxes = True, list(self._open)
        await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None

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
        bwrap = bwrap_binary.find_bwrap()
        try:
            sandbox = BwrapSandbox(self, bwrap, self._folder(name), placed, task)
            with self._lock:
                self._open.append(sandbox)
        except OSError as error:
            raise SandboxError(f"no folder for a sandbox: {error}") from error
        try:
            self._is_open()  # it may have been closed meanwhile, without this one
            sandbox.open(fill)
        except BaseException as error:
            sandbox.shut()
            if isinstance(error, OSError):
                raise SandboxError(f"a sandbox's files could not be made: {error}") from error
            raise
        return sandbox

    def _is_open(self) -> None:
        if self._closed:
            raise SandboxError("this place of sandboxes is closed")

    def _folder(self, name: str) -> Path:
        """A new folder. The same names in the same order give the same folders, where no other owner has them."""
        with self._lock:
            self._is_open()
            if self._watchdog is None:
                reap_folder(self._state_root)
                bwrap_binary.open_more_files()
                bwrap_binary.make_reachable(self._state_root)
                scatter_folders(self._state_root)
                self._watchdog = Watchdog(self._watched, self._state_root)
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".")[:80] or "sandbox"
            self._used[plain] = self._used.get(plain, 0) + 1
            folder = self._state_root / (plain if self._used[plain] == 1 else f"{plain}.{self._used[plain]}")
        while True:
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                (folder / bwrap_binary.OWNER_FILE).write_text(label(self._owner))
                return folder
            folder = self._state_root / f"{plain}.{secrets.token_hex(4)}"

    def _watched(self) -> list[BwrapSandbox]:
        with self._lock:
            return [sandbox for sandbox in self._open if sandbox.alive]

    def stir(self) -> None:
        watchdog = self._watchdog
        if watchdog is not None:
            watchdog.stir()

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
        return refusal(error)
    return None


def reap(*, dry: bool = False) -> list[str]:
    """Remove what dead owners left below ``data_root()/sandboxes``; answers the folders."""
    return [name for root in sorted((data_root() / "sandboxes").glob("*")) for name in reap_folder(root, dry=dry)]


def reap_folder(state_root: Path, *, dry: bool = False) -> list[str]:
    """The same for one state root; returns the folders that were removed."""
    removed = []
    for folder in sorted(state_root.glob("*")):
        if folder.is_symlink() or not folder.is_dir() or not _is_leftover(folder):
            continue
        if not dry:
            _kill_below(folder)
            remove_tree(folder)
        removed.append(str(folder))
    return removed


def _is_leftover(folder: Path) -> bool:
    try:
        said = (folder / bwrap_binary.OWNER_FILE).read_text().strip("\0")
    except FileNotFoundError:
        said = ""
    except OSError:  # another user's
        return False
    if said:
        # The machine counts: several may share a home, and each knows its own processes only.
        return is_leftover(said, own=on_own_disk(folder))
    with suppress(FileNotFoundError):
        return time.time() - folder.stat().st_mtime > _UNOWNED_SECONDS
    return False


def _kill_below(folder: Path) -> None:
    """Kill each bwrap whose command line names a root below ``folder``: with it goes all of its sandbox. Of one whose
    owner was killed as it started, the half that waits for the other to map its users waits for ever."""
    wanted = f"{folder}/".encode()
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = line.read_bytes().split(b"\0")
            if b"--die-with-parent" in words and any(word.startswith(wanted) for word in words):
                os.kill(int(line.parent.name), signal.SIGKILL)


def _placed(task: Task) -> Task:
    """With the workdir of its image where it names none: the images whose place bwrap takes have none of their own."""
    return task.model_copy(update={"environment": task.environment.placed()})
