"""The lease on a sweep directory: who holds it, and whether that process lives. On its own machine its number tells, on
others that it renews the lease."""

import time
from collections.abc import Callable

from hc_ray.domain.value import Value
from hc_ray.machine.owner import machine

LEASE = "lease.json"
LEASE_SECONDS = 30.0
"""A lease on another machine that was not renewed for so long is dead. Its owner renews it three times as often."""


class Held(Value, extra="ignore"):
    """``lease.json``, and what an epoch is claimed with: who holds a sweep directory, since which start."""

    schema_version: int = 1
    epoch: int
    owner: str
    pid: int
    host: str
    machine: str
    renewed_at: float
    released: bool = False

    @property
    def here(self) -> bool:
        """Its holder is, or was, a process of this machine."""
        return self.machine == machine()

    @property
    def fresh(self) -> bool:
        """It was renewed a short while ago, by both clocks."""
        return 0 <= time.time() - self.renewed_at < LEASE_SECONDS


def heard(held: Held, read: Callable[[], Held | None]) -> bool:
    """Whether a holder on another machine lives, whose clock may be another too: dead is who says nothing while we
    listen. ``read``: the lease as it is now."""
    if held.fresh:
        return True
    now: Held | None = held
    until = time.monotonic() + LEASE_SECONDS / 2
    while now == held and time.monotonic() < until:
        time.sleep(min(1.0, LEASE_SECONDS / 10))
        now = read()
    return now is not None and not now.released and now != held
