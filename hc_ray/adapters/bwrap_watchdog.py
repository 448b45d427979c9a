"""Limits that bwrap has no means for: resident memory of all of a sandbox's processes, and the size of its files.

One thread a place looks once a second; a sandbox beyond its limits is killed. What it cannot see: shared memory that
no process maps (System V segments, memory files)."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from hc_ray.adapters.bwrap_command import Limits
from hc_ray.adapters.bwrap_copy import folder_size

PERIOD = 1.0
PATIENCE = 20.0
"""A sandbox's files are measured again only after so many times what the last measurement took."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watched(Protocol):
    """A sandbox, as far as the watchdog needs to know it."""

    folder: Path
    limits: Limits

    @property
    def pid(self) -> int: ...

    def kill(self, why: str) -> None: ...


class Watchdog:
    """Looks at all sandboxes of one place until ``stop``."""

    def __init__(self, sandboxes: Callable[[], list[Watched]]) -> None:
        self._sandboxes = sandboxes
        self._stopped = threading.Event()
        self._next: dict[int, float] = {}
        self._thread = threading.Thread(target=self._run, name="bwrap-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD):
            sandboxes = self._sandboxes()
            memory = resident_below([sandbox.pid for sandbox in sandboxes]) if sandboxes else {}
            for sandbox in sandboxes:
                fault = self._fault(sandbox, memory.get(sandbox.pid, 0))
                if fault:
                    with suppress(Exception):  # one sandbox that does not die must not end the watch over the others
                        sandbox.kill(fault)

    def _fault(self, sandbox: Watched, memory: int) -> str:
        if memory > sandbox.limits.memory:
            return f"its processes hold more than {sandbox.limits.memory >> 20} MiB of memory"
        now = time.monotonic()
        if now < self._next.get(id(sandbox), 0.0):
            return ""
        try:
            size, paths = folder_size(sandbox.folder)
        except (OSError, RecursionError):
            size, paths = 0, sandbox.limits.paths + 1 if sandbox.folder.exists() else 0
        self._next[id(sandbox)] = now + PATIENCE * (time.monotonic() - now)
        if size > sandbox.limits.storage:
            return f"its files hold more than {sandbox.limits.storage >> 20} MiB"
        return f"it has more than {sandbox.limits.paths} files" if paths > sandbox.limits.paths else ""


def resident_below(roots: list[int]) -> dict[int, int]:
    """Bytes of resident memory of all that lies below each process. Shared pages are counted once for each process only
    where the plain sum is small; a large sum is taken again in proportional shares where they can be read."""
    children: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 (a thousand Path objects a second)
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(fields[1]), []).append((int(name), int(fields[21]) * _PAGE))
    found = {}
    for root in roots:
        below: list[tuple[int, int]] = []
        todo = [root]
        while todo:
            here = children.get(todo.pop(), [])
            below += here
            todo += [pid for pid, _ in here]
        total = sum(size for _, size in below)
        found[root] = total if total < 256 << 20 else sum(_proportional(pid, size) for pid, size in below)
    return found


def _proportional(pid: int, resident: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return resident
