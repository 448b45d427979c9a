"""Processor time on this machine by what its processes are: the engine, hc-ray's own actors, what runs in sandboxes,
Ray's and Docker's daemons, everybody else. Read from ``/proc`` as a whole, so that nobody has to report."""

import asyncio
import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from hc_ray.domain.events import OWN, RAY_INSIDE, ProcessorUse

LOOK_SECONDS = 10.0
SANDBOXES = "tests and commands"
OTHER = "other processes"
ORPHANS = "processes that ended with their sandbox"
"""What process 1 has waited for, since nobody else was left."""
_WHOLE = (OTHER, "Ray", "Docker", "engine")
"""Kinds that what they start belongs to, too."""
_ACTORS = ("Engine", "Sandboxes", "Verifiers", "Trials", "Tracker")
_LOOP, _ACTOR = b"worker.io", b"ray::"
"""Names of threads: one that each process has which Ray works in, and how those of an actor's own begin."""
_RAYS = (
    b"worker.", b"client.", b"server.", b"gcs_", b"global.", b"grpc", b"event_engine", b"default-exec",
    b"resolver-exec", b"timer_manager", b"nexting_thread", b"task_event", b"jemalloc",
)  # fmt: skip
"""How the names of the threads begin that Ray and its libraries start. Python's own have their process's name, and from
3.14 on names of theirs."""
_DAEMONS = {
    "raylet": "Ray", "gcs_server": "Ray", "ray/dashboard/": "Ray", "ray/_private/": "Ray", "ray::": "Ray",
    "dockerd": "Docker", "containerd": "Docker",
}  # fmt: skip


_Id = tuple[int, int]
"""Process number and when it started, in ticks since the boot: a number alone is used again."""


Own = Callable[[], Collection[int]]
"""Numbers of the processes that are actors of this sweep; those of another one are other processes."""


class Process(NamedTuple):
    pid: int
    started: int
    parent: int
    own: int
    """Clock ticks of its own."""
    reaped: int
    """Clock ticks of the children that it has waited for, theirs included."""

    @property
    def id(self) -> _Id:
        return self.pid, self.started


class ProcessorMeter:
    """Processor seconds since the last look. What a process used after the last look that saw it counts with whoever
    waited for it, so that nothing is lost that a living process has reaped."""

    def __init__(self, look: Callable[[], list[Process]] | None = None, own: Own = tuple) -> None:
        """``look`` lists all processes; by default it reads this machine's ``/proc``."""
        self._look, self._own = look or all_processes, own
        self._last: dict[_Id, Process] = {}
        self._kinds: dict[_Id, str] = {}
        self._inside: dict[_Id, dict[int, int]] = {}
        self.since()

    def since(self) -> dict[str, float]:
        """By kind; what used nothing is left out."""
        processes = {process.id: process for process in self._look()}
        self._kinds = _kinds(processes, self._kinds, self._own())
        counted, before = self._counted_before(processes), self._inside
        self._inside = {id_: ray_threads(id_[0]) for id_, kind in self._kinds.items() if kind.startswith(OWN)}
        ticks: defaultdict[str, int] = defaultdict(int)
        for id_, process in processes.items():
            last, kind = self._last.get(id_), self._kinds[id_]
            # What was used before a thread was first seen is hc-ray's: an actor's start, in its first thread.
            known = before.get(id_, {})
            inside = sum(used - known.get(thread, used) for thread, used in self._inside.get(id_, {}).items())
            ticks[RAY_INSIDE] += inside
            ticks[kind] += process.own - (last.own if last else 0) - inside
            of_children = ORPHANS if process.pid == 1 else kind if kind in _WHOLE else SANDBOXES
            ticks[of_children] += max(0, process.reaped - (last.reaped if last else 0) - counted[id_])
        self._last = processes
        tick = os.sysconf("SC_CLK_TCK")
        return {kind: round(used / tick, 2) for kind, used in sorted(ticks.items()) if used > 0}

    def _counted_before(self, processes: dict[_Id, Process]) -> defaultdict[_Id, int]:
        """Reaper → ticks of processes that ended, which earlier looks counted already and the reaper's time of children
        has now. The reaper is the nearest living ancestor, at last process 1."""
        last_by_pid = {process.pid: process for process in self._last.values()}
        counted: defaultdict[_Id, int] = defaultdict(int)
        for id_, process in self._last.items():
            if id_ not in processes:
                above: Process | None = process
                for _ in self._last:  # a bound: what was read there is not one moment's, so parents may form a loop
                    if above is None or above.id in processes:
                        break
                    above = last_by_pid.get(above.parent)
                if reaper := above or last_by_pid.get(1):
                    counted[reaper.id] += process.own + process.reaped
        return counted


async def watch(emit: Callable[[ProcessorUse], None], ended: asyncio.Event, own: Own = tuple) -> None:
    """Tell every few seconds what used this machine's cores, for the last time when all has ``ended``."""
    use, since = ProcessorMeter(own=own), time.monotonic()
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await ended.wait()
        now = time.monotonic()
        used = await asyncio.to_thread(use.since)
        emit(ProcessorUse(seconds=round(now - since, 3), cores=os.cpu_count() or 1, used=used))
        since = now


def _kinds(processes: dict[_Id, Process], known: dict[_Id, str], actors: Collection[int]) -> dict[_Id, str]:
    """What a process is now: its command may have changed. An orphan stays what it was when its parent lived."""
    by_pid = {process.pid: process for process in processes.values()}
    kinds: dict[_Id, str] = {}

    def kind_of(process: Process) -> str:
        """Its own kind, or that of what its nearest known ancestor starts."""
        if process.id not in kinds:
            kinds[process.id] = OTHER  # a loop of parents cannot be, but what is read here is not one moment's
            own, parent = _own_kind(process.pid, actors), by_pid.get(process.parent)
            if not own and process.parent == 1:
                own = known.get(process.id)
            above = kind_of(parent) if not own and parent else OTHER
            kinds[process.id] = own or (above if above in _WHOLE else SANDBOXES)
        return kinds[process.id]

    return {id_: kind_of(process) for id_, process in processes.items()}


def _own_kind(pid: int, actors: Collection[int]) -> str | None:
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
            return f"actor {actor}" if pid in actors else OTHER
    program = command.split(" ", 1)[0]
    return next((kind for sign, kind in _DAEMONS.items()
                 if sign in (program if kind == "Docker" else command[:400])), None)  # fmt: skip


def all_processes() -> list[Process]:
    """Every process of this machine that can be seen from here."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 (hundreds of Path objects a look)
        if name.isdigit():
            try:
                _, fields = _stat(f"/proc/{name}")
            except OSError:
                continue
            found.append(Process(int(name), int(fields[19]), int(fields[1]), int(fields[11]) + int(fields[12]),
                                  int(fields[13]) + int(fields[14])))  # fmt: skip
    return found


def ray_threads(pid: int) -> dict[int, int]:
    """Clock ticks of each of Ray's threads in a process, the first one of an actor included; none where it has none, or
    is gone."""
    found: dict[int, tuple[bytes, int]] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                comm, fields = _stat(f"/proc/{pid}/task/{name}")
                found[int(name)] = comm, int(fields[11]) + int(fields[12])
    if not any(comm == _LOOP for comm, _ in found.values()):
        return {}
    return {thread: used for thread, (comm, used) in found.items()
            if comm.startswith(_RAYS) or (thread == pid and comm.startswith(_ACTOR))}  # fmt: skip


def _stat(folder: str) -> tuple[bytes, list[bytes]]:
    """The name of a process or thread, and what the kernel says of it after that."""
    told, _, fields = Path(f"{folder}/stat").read_bytes().rpartition(b")")
    return told.partition(b"(")[2], fields.split()
