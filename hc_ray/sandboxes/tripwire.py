"""Cheap signs, many times a second, that somebody takes much disk or memory: only then, and once in a while, is it
worth looking who it is. Three system calls a look at most; no folder is walked, no process is read."""

import functools
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hc_ray.sandboxes.tree_size import folder_size, on_their_way

TICK = 0.05
"""Seconds between two looks."""
DISK_STEP = 32 << 20
PATHS_STEP = 4_000
MEMORY_STEP = 64 << 20
"""What has to go since the last sign for another one (bytes, files, bytes)."""
TASKS_STEP = 64
"""Processes and threads of this machine that have to come."""
DISK_FLOOR = 256 << 20
MEMORY_FLOOR = 384 << 20
"""Below this the machine itself is in danger: then somebody goes, even if what is measured is within limits."""


DISK_FULL = 1 << 20
"""With less than this left, what a program did may be no fault of its own."""


class Signs(NamedTuple):
    """What the last look showed."""

    disk: bool = False
    """Much of the file system was taken since the last sign."""
    paths: bool = False
    """Many files were made since the last sign."""
    memory: bool = False
    """Much of it was taken since the last sign."""
    tasks: bool = False
    disk_short: bool = False
    """There is hardly any left, and it is being taken."""
    memory_short: bool = False

    @property
    def any(self) -> bool:
        return self.disk or self.paths or self.memory or self.tasks


_MUCH = 1 << 60
_ROOM = 1 << 22
"""Processes that Linux can count to."""


class _Level:
    """A free quantity, and whether it sank by a step since it last did."""

    def __init__(self, step: int) -> None:
        self._step, self._from = step, 0

    def sank(self, free: int) -> bool:
        sank = free < self._from - self._step
        if sank or free > self._from:
            self._from = free
        return sank


class Tripwire:
    """Watches the file system that holds a folder and, unless that is all, this machine's memory and processes."""

    def __init__(self, folder: Path, *, disk_alone: bool = False) -> None:
        self._folder, self._disk_alone = folder, disk_alone
        self._disk, self._paths, self._memory = _Level(DISK_STEP), _Level(PATHS_STEP), _Level(MEMORY_STEP)
        self._held, self._tasks = _Level(MEMORY_STEP), _Level(TASKS_STEP)

    def look(self) -> Signs:
        disk, paths = free_on(self._folder)
        sinks, more = self._disk.sank(disk), self._paths.sank(paths)
        short = sinks and disk < DISK_FLOOR
        if self._disk_alone:
            return Signs(disk=sinks, paths=more, disk_short=short)
        available, held = memory()
        # Pages that somebody has just given back lie with a processor, up to an eighth of all memory since Linux 6.7:
        # while they are taken again, no less is available.
        takes = any([self._memory.sank(available), self._held.sank(_MUCH - held)])
        return Signs(
            disk=sinks,
            paths=more,
            memory=takes,
            tasks=self._tasks.sank(_ROOM - tasks()),
            disk_short=short,
            memory_short=takes and available < MEMORY_FLOOR,
        )


def free_on(folder: Path) -> tuple[int, int]:
    """Bytes and files that the file system of a folder still takes; much where it does not say."""
    try:
        state = os.statvfs(folder)
    except OSError:
        return _MUCH, _MUCH
    return state.f_bavail * state.f_frsize, state.f_ffree if state.f_files else _MUCH


class Sent:
    """Files that the processes of a sandbox send each other. While several are on their way no table of files shows
    them, and without a name no folder; what they hold nobody can tell. So all that the disk sinks by meanwhile counts
    as theirs."""

    _from = 0
    """What was free when they were first seen."""

    def size(self, disk: Path, processes: Iterable[int]) -> int:
        free = free_on(disk)[0]
        self._from = (self._from or free) if on_their_way(processes) > 1 else 0
        return max(0, self._from - free)


def fault_of_disk(disk: Path, written: Callable[[], Iterable[Path]]) -> str | None:
    """Why what a command did says nothing of it: the disk is full, and not by what its sandbox wrote, which lies in the
    folders that ``written`` names. None where that is not so, or cannot be told."""
    if free_on(disk)[0] >= DISK_FULL:
        return None
    with suppress(ValueError, OSError):  # folders without end are its own doing
        if sum(folder_size(folder, (DISK_STEP, _ROOM))[0] for folder in written()) < DISK_STEP:
            return f"the disk of {disk} is full, and the sandbox has not filled it"
    return None


def memory() -> tuple[int, int]:
    """Bytes that programs can still take before this machine runs out, and those that they hold and no file backs; much
    and none where the kernel does not say."""
    try:
        told = _told("/proc/meminfo")
        available, anonymous, shared = (_bytes(told, name) for name in (b"MemAvailable:", b"AnonPages:", b"Shmem:"))
    except (OSError, ValueError):
        return _MUCH, 0
    return available, anonymous + shared


def _bytes(told: bytes, name: bytes) -> int:
    """What a line of the kernel's says in kB. Read many times a second: the other fifty lines are passed over."""
    start = told.index(name) + len(name)
    return int(told[start : told.index(b"kB", start)]) << 10


def tasks() -> int:
    """Processes and threads of this machine; none where the kernel does not say."""
    try:
        return int(_told("/proc/loadavg").split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def _told(path: str) -> bytes:
    try:
        return os.pread(_kept_open(path), 4096, 0)
    except OSError:  # somebody closed what was not theirs
        _kept_open.cache_clear()
        return os.pread(_kept_open(path), 4096, 0)


@functools.cache
def _kept_open(path: str) -> int:
    """A file of the kernel's, which writes it anew for each reader: to open it costs ten times as much as to read it,
    for the guard that looks at each opening (``machine.sealed_guard``)."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
