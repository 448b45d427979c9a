"""The disk quota that overlay2 lacks: one thread a place looks at a tripwire (``tripwire``) all the time, and at what
each container wrote when it is pulled and once in a while. Who wrote more than it may is killed.

Root reads the daemon's own folders: bytes, files, volumes, files without a name. Everybody else, and root where the
daemon's storage is not overlay2, asks the daemon, which counts the bytes of named files in the writable layer, and
names what was changed where many files were made."""

import os
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hc_ray.domain.errors import SandboxError
from hc_ray.sandboxes.docker.place import Ground
from hc_ray.sandboxes.docker.values import DiskFull
from hc_ray.sandboxes.inside import processes
from hc_ray.sandboxes.tree_size import folder_size, threads_of, unlinked_size
from hc_ray.sandboxes.tripwire import DISK_STEP, TICK, Signs, Tripwire, fault_of_disk

if TYPE_CHECKING:
    from hc_ray.sandboxes.docker.lifecycle import Lifecycle

PATIENCE = 10.0
"""A check starts only after this multiple of the last one's duration; after a pull, once that duration has passed."""
PATH_BYTES = 4096
"""Minimum bytes counted per file, folder or link, so that the byte limit also limits the number of paths."""
MOST_PATHS = 500_000


class DiskWatchdog:
    """Checks the containers of one place until it closes."""

    def __init__(self, ground: Ground, seconds: float) -> None:
        """``seconds``: interval after which all are checked, even without a pull."""
        self._ground, self._seconds = ground, seconds
        self._folders: dict[str, list[Path]] = {}
        self._ending: set[str] = set()
        threading.Thread(target=self._run, name="docker-disk", daemon=True).start()

    def _run(self) -> None:
        wire: Tripwire | None = None
        ended, took = 0.0, 0.0
        while not self._ground.closing.wait(TICK):
            try:
                if wire is None:
                    wire = Tripwire(daemon_root(self._ground.facts()), disk_alone=True)
                signs, now = wire.look(), time.monotonic()
                urgent = signs.disk or signs.paths
                if now < ended + (took if urgent else max(self._seconds, PATIENCE * took)):
                    continue
                self._look(signs)
                ended = time.monotonic()
                took = ended - now
            except (SandboxError, OSError):
                self._ground.closing.wait(1.0)  # the next call of a trial says so in its place

    def _look(self, signs: Signs) -> None:
        housed = {key: one for key, one in self._ground.housed().items() if one.alive and key not in self._ending}
        if not housed:
            return
        self._folders = {key: folders for key, folders in self._folders.items() if key in housed}
        told = sizes_told(self._ground, housed)
        sizes = {}
        for container, sandbox in housed.items():
            with suppress(SandboxError, OSError):
                if container not in told and container not in self._folders:
                    self._folders[container] = written_folders(self._ground, container)
                size, fault = measured(self._ground, container, sandbox, told, self._folders.get(container, []), signs)
                sizes[container] = size
                if fault:
                    self._kill(container, sandbox, fault)
        if signs.disk_short and sizes and not self._ending:
            most = max(sizes, key=lambda container: sizes[container])
            if sizes[most] >= DISK_STEP:  # who holds less has not taken it: that was somebody else on this machine
                self._kill(most, housed[most], "the disk ran short, and it held most")

    def _kill(self, container: str, sandbox: "Lifecycle", fault: str) -> None:
        self._ending.add(container)

        def end() -> None:
            with suppress(SandboxError):  # tried again at the next look
                sandbox.kill(fault)
            self._ending.discard(container)

        threading.Thread(target=end, name="docker-kill", daemon=True).start()


def measured(
    ground: Ground, container: str, sandbox: "Lifecycle", told: Mapping[str, int], folders: list[Path], signs: Signs
) -> tuple[int, str]:
    """A container's disk use, and its excess if any. ``told``: bytes as reported by the daemon, if it was asked."""
    most = sandbox.storage_bytes, min(MOST_PATHS, sandbox.storage_bytes // PATH_BYTES)
    size, paths = told.get(container, 0), 0
    try:
        if container in told:
            paths = len(ground.daemon.changes(container)) if signs.paths else 0
        for folder in folders:
            more, files = folder_size(folder, most)
            size, paths = size + more, paths + files
    except ValueError as error:
        return size, str(error)
    if folders and size <= most[0] and signs.disk:
        inside = _beside(sandbox.first)
        size += unlinked_size(inside, most[0] - size) + sandbox.sent.size(daemon_root(ground.facts()), inside)
    if size > most[0]:
        return size, f"it wrote more than {most[0] >> 20} MB"
    return size, f"it made more than {most[1]} files" if paths > most[1] else ""


def overuse(ground: Ground, container: str, sandbox: "Lifecycle") -> str:
    """Why a container must not be copied, if it uses too much: the daemon writes out every hole of a file."""
    told = sizes_told(ground, [container])
    folders = [] if container in told else written_folders(ground, container)
    return measured(ground, container, sandbox, told, folders, Signs())[1]


def sizes_told(ground: Ground, containers: Iterable[str]) -> dict[str, int]:
    """Sizes as reported by the daemon, for when its folders cannot be read."""
    return {} if reads_folders(ground.facts()) else ground.daemon.sizes(containers)


def written_folders(ground: Ground, container: str) -> list[Path]:
    return [Path(path) for path in ground.daemon.written_folders(container)]


def check_disk(ground: Ground, container: str) -> None:
    """Raise ``DiskFull`` if the daemon's disk is full for other reasons than this container; not detectable on a remote
    daemon."""
    facts = ground.facts()
    if reads_folders(facts) and (
        fault := fault_of_disk(daemon_root(facts), lambda: written_folders(ground, container))
    ):
        raise DiskFull(fault)


def alone(first: int, container: str) -> bool:
    """Whether only a container's ``first`` process is running, by the kernel's own count, from which nothing can hide.
    False if this cannot be determined."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{first}/cgroup").read_text().splitlines():
            _, controller, path = line.split(":", 2)
            if container in path and controller in ("pids", ""):
                return int(Path(f"/sys/fs/cgroup/{controller}{path}/pids.current").read_text()) == 1
    return False


def daemon_root(facts: Mapping[str, Any]) -> Path:
    return Path(str(facts.get("DockerRootDir") or "/"))


def reads_folders(facts: Mapping[str, Any]) -> bool:
    """Whether the daemon's own folders are this machine's, open to this process, and tell what each container wrote: of
    all ways to store them overlay2 alone names a folder for that."""
    ours = os.geteuid() == 0 and os.environ.get("DOCKER_HOST", "unix:").startswith("unix:")
    return ours and facts.get("Driver") == "overlay2" and daemon_root(facts).is_dir()


def _beside(process: int) -> list[int]:
    """All processes of this machine in a process's PID namespace; none where it cannot be seen from here."""
    found: list[int] = []
    with suppress(OSError):
        space = os.stat(f"/proc/{process}/ns/pid").st_ino  # noqa: PTH116
        found = [int(name) for name in os.listdir("/proc") if name.isdigit() and _space(int(name)) == space]  # noqa: PTH208
    return found


def _space(process: int) -> int:
    """Its PID namespace by inode; 0 where it cannot be seen from here."""
    for thread in threads_of(process):  # the first one may have ended
        with suppress(OSError):
            return os.stat(f"/proc/{process}/task/{thread}/ns/pid").st_ino  # noqa: PTH116
    return 0


def helper_is_stopped(first: int, container: str) -> bool:
    """Whether a process is stopped that the daemon has brought into a container beside its ``first``. Nobody does that
    but who lives in there. False where those processes are not this machine's."""
    with suppress(OSError, KeyError):
        if container not in Path(f"/proc/{first}/cgroup").read_text():
            return False
        everyone = {number: (fields[0], int(fields[1])) for number, fields in processes.everyone()}
        shim = everyone[first][1]
        for number, (state, parent) in everyone.items():
            brought_in = number != first and shim in (parent, everyone.get(parent, (b"", 0))[1])
            if state in b"Tt" and brought_in and _namespaces(number) > _namespaces(parent):
                return True
    return False


def _namespaces(process: int) -> int:
    """How many PID namespaces a process is in, one within another."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((len(line.split()) for line in lines if line.startswith("NSpid:")), 0)


def end_first_process(process: int, container: str) -> None:
    """Kill a container's first process, and thereby all others, without the daemon, which takes half a second on a busy
    machine. Does nothing if that process is on another machine or belongs to another user."""
    with suppress(OSError):
        place = os.pidfd_open(process)
        try:
            if container in Path(f"/proc/{process}/cgroup").read_text():
                signal.pidfd_send_signal(place, signal.SIGKILL)
        finally:
            os.close(place)
