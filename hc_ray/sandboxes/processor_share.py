"""What sandboxes get of the cores beside an engine: all of them together as much as one other program.

Priorities alone do not do that. The kernel shares the cores out among groups first (cgroups; and sessions, where it
makes each a group, as most do by default), and only inside of a group by priority. Root makes one cgroup for all
sandboxes of a machine; a normal user's sandboxes remain sessions like others."""

import functools
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

GROUP = "hc-ray"
"""The cgroup of all sandboxes of a machine, below the root of the hierarchy that shares out the cores."""
BWRAP = "bwrap"
"""Below it: the bubblewrap sandboxes. Containers have groups of their own beside it."""
_SHARES = {"cpu.shares": "1024", "cpu.weight": "100"}
"""The default, in cgroup v1 and v2. With a tenth of it whatever runs in a sandbox misses its deadlines beside anything
that is busy (docs/results.md)."""


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
