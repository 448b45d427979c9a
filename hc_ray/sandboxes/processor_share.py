"""What sandboxes get of the cores beside an engine: a tenth of what anybody else gets, all of them together.

Priorities alone do not do that. The kernel shares the cores out among groups first (cgroups; and sessions, where it
makes each a group, as most do by default), and only inside of a group by priority: a busy process of priority 19 in a
session of its own takes half of a core from an engine, whose threads wait for each other, and so nearly all of its
speed (docs/results.md). Root makes one cgroup for all sandboxes. Everybody else tells the kernel to count a
sandbox's sessions for little, which it hears ten times a second at most."""

import functools
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

GROUP = "hc-ray"
"""The cgroup of all sandboxes of a machine, below the root of the hierarchy that shares out the cores."""
BWRAP = "bwrap"
"""Below it: the bubblewrap sandboxes. Containers have groups of their own beside it."""
_SHARES = {"cpu.shares": "102", "cpu.weight": "10"}
"""A tenth of the default, in cgroup v1 and v2. With less whatever runs in a sandbox misses its deadlines beside a busy
engine, and the killed do not find the time to die."""
SESSION_NICE = 10
"""What makes a session count for about a tenth."""


class ProcessorShare:
    """The cgroup of this machine's sandboxes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def take(self, processes: Iterable[int]) -> None:
        """Move processes into it; what they start from then on is there from the start."""
        for process in processes:
            with suppress(OSError):  # it has ended
                (self.folder / BWRAP / "cgroup.procs").write_text(str(process))


@functools.cache
def processor_share() -> ProcessorShare | None:
    """The cgroup, made if need be; None where this user cannot, or the machine has none."""
    if os.geteuid() != 0:
        return None
    for mounted in _hierarchies():
        folder = mounted / GROUP
        try:
            with suppress(OSError):  # v2: its root hands the controller on, if it does not already
                (mounted / "cgroup.subtree_control").write_text("+cpu")
            (folder / BWRAP).mkdir(parents=True, exist_ok=True)
            name = next(name for name in _SHARES if (folder / name).exists())
            (folder / name).write_text(_SHARES[name])
            return ProcessorShare(folder)
        except (OSError, StopIteration):
            continue
    return None


def _hierarchies() -> list[Path]:
    """Where the hierarchies that may share out the cores are mounted: v1's, then v2's."""
    found: dict[str, Path] = {}
    with suppress(OSError):
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, place, kind, options, *_ = line.split(" ")
            if kind == "cgroup2" or (kind == "cgroup" and "cpu" in options.split(",")):
                found.setdefault(kind, Path(place))
    return [found[kind] for kind in ("cgroup", "cgroup2") if kind in found]


def sessions_are_groups() -> bool:
    """Whether the kernel makes every session a group of its own: it does where no cgroup of ours is one."""
    try:
        if Path("/proc/sys/kernel/sched_autogroup_enabled").read_text().strip() != "1":
            return False
        groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return False
    controllers = {name: path for _, names, path in groups for name in names.split(",")}
    return controllers.get("cpu", controllers.get("", "/")) == "/"


def count_for_little(process: int) -> bool:
    """Let the session of a process of this user count for a tenth; whether the kernel heard it."""
    try:
        Path(f"/proc/{process}/autogroup").write_text(str(SESSION_NICE))
    except OSError:
        return False
    return True
