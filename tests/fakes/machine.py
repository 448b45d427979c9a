"""What a test sees of this machine while something hostile runs in a sandbox."""

import asyncio
import contextlib
import math
import os
import platform
import threading
import time
from pathlib import Path

from hc_ray.sandboxes.tripwire import memory

THREAD_EXIT = {"x86_64": 60, "aarch64": 93}[platform.machine()]
"""The number of the call that ends one thread alone."""


def running(marker: str) -> int:
    found = 0
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:  # noqa: PTH123
                found += marker.encode() in file.read().split(b"\0")
    return found


async def becomes(marker: str, count: int) -> None:
    """Wait until so many processes have a marker; fails the test where they never do. One look suffices: a process that
    becomes another program has no command line for an instant, and a second look may fall into it."""
    end = time.monotonic() + 10.0
    while (seen := running(marker)) != count:
        assert time.monotonic() < end, f"{seen} processes, not {count}"
        await asyncio.sleep(0.02)


def seconds_until_gone(marker: str, *, at_most: float) -> float:
    """How long processes with a marker live on, from now; ``at_most`` where they do not end. They are gone when four
    looks in a row see none: one alone can miss a crowd of which the old die, and the new come, while it lasts."""
    started, unseen = time.monotonic(), 0
    while unseen < 4 and time.monotonic() < started + at_most:
        unseen = 0 if running(marker) else unseen + 1
        time.sleep(0.03)
    return time.monotonic() - started


class Watch:
    """Looks at this machine fifty times a second while its block runs: what memory and disk sank by at most, and how
    many processes were there at most. Others who use the machine meanwhile are in it."""

    def __init__(self, folder: Path, *, mark_mib: int = 0) -> None:
        self._folder, self._over, self._mark = folder, threading.Event(), mark_mib
        self.beyond_since = math.inf
        """When memory had sunk by more than ``mark_mib`` first, of ``time.monotonic``."""
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.memory_mib = self.disk_mib = self.processes = 0

    def __enter__(self) -> "Watch":
        self._memory, self._disk = memory(), self._free()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _free(self) -> int:
        state = os.statvfs(self._folder)
        return state.f_bavail * state.f_frsize

    def _look(self) -> None:
        while not self._over.wait(0.02):
            (before, held_before), (now, held) = self._memory, memory()
            self.memory_mib = max(self.memory_mib, (before - now) >> 20, (held - held_before) >> 20)
            if self.memory_mib > self._mark:
                self.beyond_since = min(self.beyond_since, time.monotonic())
            self.disk_mib = max(self.disk_mib, (self._disk - self._free()) >> 20)
            self.processes = max(self.processes, int(Path("/proc/loadavg").read_text().split()[3].split("/")[1]))
