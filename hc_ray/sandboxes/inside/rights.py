"""What a process of a sandbox for shared grading may: Linux capabilities, given up for good. Only ``hc_shared`` and
``hc_exec`` run with more than a container usually has, and only until they call this. Standard library only."""

import ctypes
import os
from collections.abc import Iterable
from typing import Any

USUAL = (0, 1, 3, 4, 5, 6, 7, 10, 31)
"""CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE, SETFCAP: what our containers have."""
MARK = 36
"""BLOCK_SUSPEND: harmless (it keeps a laptop awake). Who has it cannot be traced by who has not."""
_LAST = 63
_VERSION = 0x20080522
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _RAISE, _CLEAR = 24, 47, 2, 4
_INVALID = 22


class Refused(Exception):
    """The kernel does not do what the locks need."""


def libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def must(result: int, what: str) -> None:
    if result != 0:
        raise Refused(f"{what}: {os.strerror(ctypes.get_errno())}")


def permitted() -> int:
    """The permitted set of this process."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1], 16) for line in file if line.startswith("CapPrm:"))


def keep(numbers: Iterable[int], *, inherited: Iterable[int] = ()) -> None:
    """Give up every capability but these, of those that this process has, with all that it starts. ``inherited``: those
    that it may pass on to processes of other users."""
    library, kept = libc(), set(numbers)
    must(library.prctl(_PR_CAP_AMBIENT, _CLEAR, 0, 0, 0), "clearing what is inherited")
    for number in range(_LAST + 1):
        if number not in kept and library.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            if ctypes.get_errno() == _INVALID:  # beyond the kernel's last
                break
            raise Refused(f"giving up capability {number}: {os.strerror(ctypes.get_errno())}")
    mask = sum(1 << number for number in kept) & permitted()
    _set(mask, mask, sum(1 << number for number in inherited) & mask)


def bear(number: int) -> None:
    """Keep one capability as a user that is not root; ``PR_SET_KEEPCAPS`` has kept it permitted."""
    _set(1 << number, 1 << number, 1 << number)
    must(libc().prctl(_PR_CAP_AMBIENT, _RAISE, number, 0, 0), "keeping the mark")


def _set(effective: int, allowed: int, inheritable: int) -> None:
    low = [mask & 0xFFFFFFFF for mask in (effective, allowed, inheritable)]
    high = [mask >> 32 for mask in (effective, allowed, inheritable)]
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    must(libc().capset(header, (ctypes.c_uint32 * 6)(*low, *high)), "giving up capabilities")
