"""Who owns a sandbox, a container, a folder or a lock: a process, named so that its number's next holder is not taken
for it.

An owner is ``<pid>-<start>`` with the process's start in clock ticks since boot (``/proc/<pid>/stat``); a word may
follow after another dash. A *label* is ``<owner>@<machine>``: it says on which machine the number means something. On
a disk ``@<computer>`` follows.

A machine is one boot of a kernel and a PID namespace in it: ``<boot id>:<namespace>``. Host names are no part of it,
since many machines may have the same. So a container is a machine of its own, and a computer another one after each
boot. Of labels with another boot or namespace:

- On a disk that no other machine can write to, another boot is an earlier one: all of its processes are gone. One that
  bears another computer's name came over the network all the same, as to a head that exports its homes: left alone.
- On a disk or a daemon that others may share, it may be another computer's: left alone.
- Another namespace of this boot is another container, alive or not: left alone until the next boot."""

import contextlib
import functools
import hashlib
import os
import re
import socket
from pathlib import Path

_NETWORK = Path("/sys/class/net")
_OWNER = re.compile(r"\d+-\d+(-[\w.-]+)?")
_BOOT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OWN_DISKS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs", "overlay"})
"""File systems that one kernel alone can have mounted for writing."""


def current_owner() -> str:
    """This process."""
    return f"{os.getpid()}-{_started(os.getpid()) or 0}"


@functools.cache
def _boot() -> str:
    """The kernel's boot id; the host name where the kernel has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()


@functools.cache
def _computer() -> str:
    """What stays the same when this computer boots again: of its system's number and its network devices' addresses.
    Copies of one disk or container image may have the same number. Wireless devices may have an address for each
    network that they join."""
    devices = [device.parent for device in _NETWORK.glob("*/device")]
    found = []
    for path in (Path("/etc/machine-id"), *(one / "address" for one in devices if not (one / "phy80211").exists())):
        with contextlib.suppress(OSError):
            found.append(path.read_text())
    return hashlib.sha256("".join(sorted(found)).encode()).hexdigest()[:12]


def _namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def machine() -> str:
    """Where owners' process numbers mean something. Disks and daemons can be shared by several machines."""
    return f"{_boot()}:{_namespace()}"


def on_own_disk(folder: Path) -> bool:
    """Whether a folder lies on a file system that no other machine can write to."""
    kinds: dict[str, str] = {}
    try:
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, point, kind, *_ = line.split(" ")
            kinds[point.replace("\\040", " ")] = kind  # the last one mounted there is what is seen
        real = folder.resolve()
    except OSError:
        return False
    return next((kinds[str(at)] for at in (real, *real.parents) if str(at) in kinds), "") in OWN_DISKS


def label(owner: str | None = None) -> str:
    """An owner (this process if none is named) with its machine and computer: what is written on things that others can
    see."""
    return f"{owner or current_owner()}@{machine()}@{_computer()}"


def is_leftover(text: str, *, own: bool = False) -> bool:
    """Whether a label names a process that runs no more. ``own``: what bears it lies where no other computer can have
    put it. What is no label, or may be another machine's, is nobody's to judge here."""
    owner, where, computer = (*text.split("@"), "", "")[:3]
    boot = where.partition(":")[0]
    if where == machine():
        return bool(_OWNER.fullmatch(owner)) and not is_alive(owner)
    earlier = _BOOT.fullmatch(boot) and _BOOT.fullmatch(_boot()) and boot != _boot()
    return bool(own and computer in ("", _computer()) and earlier and _OWNER.fullmatch(owner))


def is_alive(owner: str) -> bool:
    """Whether the process that the name stands for still runs on this machine. A malformed name is nobody's."""
    number, dash, rest = owner.partition("-")
    start = rest.partition("-")[0]
    if not dash or not number.isdigit() or not start.isdigit():
        return False
    if start == "0" or not Path(f"/proc/{number}").exists():  # there is no /proc, or it hides other users' processes
        return _answers(int(number))
    return _started(int(number)) == int(start)


def _started(pid: int) -> int | None:
    """Clock ticks from boot to the process's start; None for a process that is gone, or dead and not yet reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as fault:
        return isinstance(fault, PermissionError)  # another user's
    return True
