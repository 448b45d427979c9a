"""Limits that bwrap has no means for: the memory of all of a sandbox's processes together, and the size of its files.

One thread a place looks at a tripwire (``tripwire``) all the time, and at the sandboxes when it is pulled and once a
second; a sandbox beyond its limits is killed. One in which nothing runs needs no look until somebody asks something of
it again, and where that holds for all, the thread sleeps.

It sees files without a name and files in memory. What processes cannot be asked about (memory files, System V segments)
the sandbox's filter of system calls refuses. Memory of the kernel's is looked for while this machine's sinks: sockets
count in full, since nobody can tell what lies in their buffers."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hc_ray.domain.errors import SandboxError
from hc_ray.sandboxes.inside.processes import SESSIONS, everyone
from hc_ray.sandboxes.tree_size import folder_size, shared_memory, threads_of, unlinked_size
from hc_ray.sandboxes.tripwire import DISK_STEP, MEMORY_STEP, TICK, Signs, Tripwire

if TYPE_CHECKING:
    from hc_ray.sandboxes.bwrap.box import BwrapSandbox

PERIOD = 1.0
"""Seconds after which all sandboxes are checked, even if the tripwire was not pulled."""
REST = 3.0
"""After a check, the watchdog rests for this multiple of the CPU seconds that it took, up to ``PERIOD``; hundreds of
sandboxes would otherwise keep it busy all the time."""
PATIENCE = 20.0
"""A sandbox's files are measured again only after this multiple of the last measurement's duration; after a pull, only
once that duration has passed."""
SOCKET_BYTES = 208 << 10
"""Bytes counted per socket for unread buffers. (TCP buffers grow beyond, but report their size.)"""
INODE_BYTES = 1 << 10
"""Kernel memory of a file in a tmpfs."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST_SESSIONS = 2 * SESSIONS
"""Beyond which a sandbox ends, where its filter of system calls cannot ask."""


class Process(NamedTuple):
    """A process, as the watchdog sees it."""

    pid: int
    size: int
    """Resident memory in bytes."""
    session: int


Census = Mapping[int, list[Process]]
"""bwrap's process → processes below it."""


class Watchdog:
    """Checks all sandboxes of one place until ``stop``."""

    def __init__(self, sandboxes: Callable[[], list["BwrapSandbox"]], state_root: Path) -> None:
        self._sandboxes, self._wire = sandboxes, Tripwire(state_root)
        self._stopped = threading.Event()
        self._stirred = threading.Event()
        self._calm: dict[int, object] = {}
        """Sandbox → its last request when only its first process was running."""
        self._measured: dict[int, tuple[float, float, int]] = {}
        """Sandbox → time, duration and result (bytes) of the last measurement of its files."""
        self._busy: set[int] = set()
        self._ending: set[int] = set()
        self._thread = threading.Thread(target=self._run, name="bwrap-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._stirred.set()

    def stir(self) -> None:
        """Resume checking after a request to a sandbox (already noted in ``BwrapProcess.asked``) until all are idle."""
        self._stirred.set()

    def _run(self) -> None:
        due = spent = 0.0
        # Count CPU time, not wall time: a fork bomb that starves the watchdog must not make it check less often.
        while True:
            if not self._stirred.is_set() and not self._stopped.is_set():
                self._stirred.wait()
                due, spent = time.monotonic() + PERIOD, 0.0
                self._wire.look()  # what is free now: after a first rest that others made long, it may be taken already
            if self._stopped.wait(max(TICK, min(REST * spent, PERIOD))):
                return
            began = time.thread_time()
            signs, now = self._wire.look(), time.monotonic()
            if signs.any or now >= due:
                due = now + PERIOD
                try:
                    self._look(signs)
                except (OSError, RuntimeError):  # this process has no free descriptor or thread; try again
                    self._stirred.set()
            spent = time.thread_time() - began

    def _look(self, signs: Signs) -> None:
        self._stirred.clear()  # before the check, so that later requests trigger the next one
        every = self._sandboxes()
        self._measured = {id(one): self._measured[id(one)] for one in every if id(one) in self._measured}
        asked = {id(one): one.process.asked for one in every}
        restless = {id(one) for one in every if self._calm.get(id(one)) is not asked[id(one)]}
        sandboxes = [one for one in every if id(one) in restless - self._ending]
        idle = {id(one) for one in sandboxes if not one.process.at_work and alone(one.process.first)}
        began = time.monotonic()
        found = census([sandbox.process.pid for sandbox in sandboxes]) if sandboxes else {}
        below = {id(sandbox): found[sandbox.process.pid] for sandbox in sandboxes}
        busy = {id(sandbox) for sandbox in sandboxes if len(below[id(sandbox)]) > 1}
        victims = set[int]()
        for sandbox in sandboxes:
            if fault := _process_fault(sandbox, below[id(sandbox)], pulled=signs.memory):
                victims.add(id(sandbox))
                self._begin_end(sandbox, fault)
        for sandbox in sandboxes:
            urgent = (signs.disk or signs.paths) and id(sandbox) in busy | self._busy
            if id(sandbox) not in victims and (fault := self._disk_fault(sandbox, below[id(sandbox)], urgent=urgent)):
                victims.add(id(sandbox))
                self._begin_end(sandbox, fault)
        # A sandbox that holds less than a step did not cause the shortage: another program did.
        if signs.memory_short and not victims and busy:
            held, _, most = max((_holds(one, below[id(one)]), id(one), one) for one in sandboxes)
            if held >= MEMORY_STEP:
                victims.add(id(most))
                self._begin_end(most, "this machine ran short of memory, and it held most")
        if signs.disk_short and not victims and busy:
            written, _, most = max((self._written(one), id(one), one) for one in sandboxes if id(one) in busy)
            if written >= DISK_STEP:
                self._begin_end(most, "this machine ran short of disk, and it held most")
        self._busy = busy
        measured = {key for key, (at, _, _) in self._measured.items() if at >= began}
        restless -= idle & measured - busy - victims
        self._calm = {key: last for key, last in asked.items() if key not in restless}
        if restless:
            self._stirred.set()

    def _written(self, sandbox: "BwrapSandbox") -> int:
        """Bytes of a sandbox's files at the last measurement."""
        return self._measured.get(id(sandbox), (0.0, 0.0, 0))[2]

    def _begin_end(self, sandbox: "BwrapSandbox", fault: str) -> None:
        # In another thread: a sandbox that dies slowly must not stop the checks of others.
        ending = threading.Thread(target=self._end, args=(sandbox, fault), name="bwrap-kill", daemon=True)
        self._ending.add(id(sandbox))
        try:
            ending.start()
        except RuntimeError:
            self._ending.discard(id(sandbox))
            raise

    def _end(self, sandbox: "BwrapSandbox", fault: str) -> None:
        try:
            sandbox.kill(fault)
        except SandboxError:  # the next check tries again
            pass
        finally:
            self._ending.discard(id(sandbox))

    def _disk_fault(self, sandbox: "BwrapSandbox", processes: list[Process], *, urgent: bool) -> str:
        started = time.monotonic()
        last, took, _ = self._measured.get(id(sandbox), (0.0, 0.0, 0))
        if started < last + took * (1.0 if urgent else PATIENCE):
            return ""
        limits = sandbox.limits
        try:
            size, paths = folder_size(sandbox.folder, (limits.storage, limits.paths))
            if size <= limits.storage and len(processes) > 1:
                numbers = [pid for pid, _, _ in processes]
                size += unlinked_size(numbers, limits.storage - size)
                size += sandbox.sent.size(sandbox.folder, numbers)
        except ValueError as error:
            return str(error)
        except OSError:  # it is being removed
            return ""
        ended = time.monotonic()
        self._measured[id(sandbox)] = (ended, ended - started, size)
        if size > limits.storage:
            return f"its files hold more than {limits.storage >> 20} MiB"
        return f"it has more than {limits.paths} files" if paths > limits.paths else ""


def _process_fault(sandbox: "BwrapSandbox", processes: list[Process], *, pulled: bool) -> str:
    # Cheap checks first.
    if len({one.session for one in processes}) > _MOST_SESSIONS:
        return f"it has more than {_MOST_SESSIONS} sessions"
    limit = left = sandbox.limits.memory
    if sandbox.process.first > 0:
        with suppress(OSError):
            shared = os.statvfs(f"/proc/{sandbox.process.first}/root/dev/shm")
            left -= (shared.f_files - shared.f_ffree) * INODE_BYTES
    if _exceeds(processes, left) or (pulled and _exceeds(processes, left - beside(sandbox.process.first, processes))):
        return f"its processes hold more than {limit >> 20} MiB of memory"
    return ""


def _exceeds(processes: list[Process], limit: int) -> bool:
    """Whether processes hold more memory than ``limit``, with shared pages divided. Reads this for as few processes as
    necessary, since it is slow and an offender grows meanwhile."""
    held, rest = 0, sum(one.size for one in processes)
    for one in sorted(processes, key=lambda one: one.size, reverse=True):
        if held > limit or held + rest <= limit:
            break
        held, rest = held + proportional(one.pid, one.size), rest - one.size
    return held > limit


def _holds(sandbox: "BwrapSandbox", processes: list[Process]) -> int:
    return sum(size for _, size, _ in processes) + beside(sandbox.process.first, processes)


def beside(first: int, processes: list[Process]) -> int:
    """Bytes that a sandbox holds besides its processes' resident memory: sockets, even abandoned ones, page tables, and
    unmapped shared memory."""
    numbers = [pid for pid, _, _ in processes]
    tables = sum(_told(pid, "status", b"VmPTE:") for pid in numbers)
    if unseen := shared_memory(numbers):
        unseen -= sum(_told(pid, "smaps_rollup", b"Pss_Shmem:") for pid in numbers)
    return sockets(first) + tables + max(0, unseen)


def sockets(first: int) -> int:
    """Bytes that all sockets in a process's network namespace may hold, including those in transit or not accepted
    yet."""
    queued = 0
    for table in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/{first}/net/{table}", "rb") as file:  # noqa: PTH123
            next(file, None)
            queued += sum(int(half, 16) for line in file for half in line.split(None, 5)[4].split(b":"))
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{first}/net/sockstat", "rb") as file:  # noqa: PTH123
        return queued + int(file.readline().split()[2]) * SOCKET_BYTES
    return queued


def census(roots: Iterable[int]) -> Census:
    """Root process → all living processes below it."""
    children: dict[int, list[Process]] = {}
    for pid, fields in everyone():
        # Of a process whose first thread has ended while others go on the kernel says the pages of those alone.
        headless = fields[0] == b"Z" and fields[17] != b"1"
        one = Process(pid, (_of_threads(pid) if headless else int(fields[21])) * _PAGE, int(fields[3]))
        children.setdefault(int(fields[1]), []).append(one)
    found: dict[int, list[Process]] = {}
    for root in roots:
        found[root] = []
        todo = [root]
        while todo:
            here = children.get(todo.pop(), [])
            found[root] += here
            todo += [one.pid for one in here]
    return found


def _of_threads(process: int) -> int:
    with suppress(OSError):
        return next((int(fields[21]) for _, fields in everyone(f"/proc/{process}/task") if fields[0] != b"Z"), 0)
    return 0


def proportional(pid: int, resident: int) -> int:
    """A process's resident memory with shared pages shared out, where that can be read; else ``resident``."""
    return _told(pid, "smaps_rollup", b"Pss:") or resident


def _told(pid: int, name: str, line: bytes) -> int:
    """Bytes in a line of a process's kernel file; 0 if it is missing."""
    for thread in threads_of(pid):  # the first one that lives knows
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/task/{thread}/{name}", "rb") as file:  # noqa: PTH123
            if told := next((int(one.split()[1]) for one in file if one.startswith(line)), 0):
                return told << 10
    return 0


def alone(first: int) -> bool:
    """Whether a sandbox's first process has no child. The kernel answers in one step, so that rapidly forking processes
    cannot hide as they could from a walk over all processes. False if the kernel does not support it."""
    try:
        with open(f"/proc/{first}/task/{first}/children", "rb") as file:  # noqa: PTH123
            return not file.read(1)
    except OSError:
        return False
