"""Processor time on this machine by what its processes are: the engine, hc-ray's own actors, what runs in sandboxes,
Ray's and Docker's daemons, everybody else. Read from ``/proc`` as a whole, so that nobody has to report."""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from hc_ray.domain.events import ProcessorUse

LOOK_SECONDS = 10.0
SANDBOXES = "tests and commands"
OTHER = "other processes"
ORPHANS = "ended orphans, killed sandboxes among them"
"""What process 1 has waited for, since nobody else was left."""
_ACTORS = ("Engine", "Sandboxes", "Verifiers", "Trials", "Tracker")
_DAEMONS = {
    "raylet": "Ray", "gcs_server": "Ray", "ray/dashboard/": "Ray", "ray/_private/": "Ray", "ray::": "Ray",
    "dockerd": "Docker", "containerd": "Docker",
}  # fmt: skip


class ProcessorMeter:
    """Processor seconds since the last look. A process that came and went between two looks counts with whoever waited
    for it, so that nothing is lost that a living process has reaped."""

    def __init__(self) -> None:
        self._last = self._totals()

    def since(self) -> dict[str, float]:
        """By kind; what used nothing is left out."""
        totals = self._totals()
        used = {kind: max(0.0, seconds - self._last[kind]) for kind, seconds in totals.items()}
        self._last = totals
        return {kind: round(seconds, 2) for kind, seconds in sorted(used.items()) if seconds >= 0.01}

    def _totals(self) -> defaultdict[str, float]:
        tick = os.sysconf("SC_CLK_TCK")
        processes = dict(_processes())
        kinds: dict[int, str] = {}

        def kind_of(pid: int) -> str:
            """Its own kind, or that of what its nearest known ancestor starts."""
            if pid not in kinds:
                kinds[pid] = OTHER  # a loop of parents cannot be, but what is read here is not one moment's
                own = _own_kind(pid)
                parent = processes[pid][0] if pid in processes else 0
                above = kind_of(parent) if not own and parent in processes else OTHER
                kinds[pid] = own or (above if above in (OTHER, "Ray", "Docker", "engine") else SANDBOXES)
            return kinds[pid]

        totals: defaultdict[str, float] = defaultdict(float)
        for pid, (_, own, reaped) in processes.items():
            kind = kind_of(pid)
            totals[kind] += own / tick
            of_children = kind if kind in (OTHER, "Ray", "Docker", "engine") else SANDBOXES
            totals[ORPHANS if pid == 1 else of_children] += reaped / tick
        return totals


async def watch(emit: Callable[[ProcessorUse], None]) -> None:
    """Tell every few seconds, until cancelled, what used this machine's cores."""
    use, since = ProcessorMeter(), time.monotonic()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = time.monotonic()
        used = await asyncio.to_thread(use.since)
        emit(ProcessorUse(seconds=round(now - since, 3), cores=os.cpu_count() or 1, used=used))
        since = now


def _own_kind(pid: int) -> str | None:
    if pid == os.getpid():
        return "driver"
    if pid == 1:
        return OTHER
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    if "engines/launcher.py" in command:
        return "engine"
    for actor in _ACTORS:
        if command.startswith(f"ray::{actor}"):
            return f"actor {actor}"
    program = command.split(" ", 1)[0]
    return next((kind for sign, kind in _DAEMONS.items()
                 if sign in (program if kind == "Docker" else command[:400])), None)  # fmt: skip


def _processes() -> list[tuple[int, tuple[int, int, int]]]:
    """Process → its parent, its own clock ticks and those of the children that it has waited for."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 (hundreds of Path objects a look)
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            found.append((int(name), (int(fields[1]), int(fields[11]) + int(fields[12]),
                                      int(fields[13]) + int(fields[14]))))  # fmt: skip
    return found
