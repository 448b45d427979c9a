"""The slots of one node's actor, and what becomes of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple


class SlotSeconds(NamedTuple):
    """What became of slots since the last account."""

    seconds: float
    busy: float
    """Seconds of slots in use."""
    queued: float
    """Seconds of those who waited for one."""


class Slots:
    """So many may work at once; the others wait for their turn."""

    def __init__(self, count: int, now: Callable[[], float] = time.monotonic) -> None:
        self.count, self._now = count, now
        self._free = asyncio.Semaphore(count)
        self._busy = self._waiting = 0
        self._settled = now()
        self._seconds = self._busy_seconds = self._queued_seconds = 0.0

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        self._settle(waiting=1)
        try:
            await self._free.acquire()
        finally:
            self._settle(waiting=-1)
        self._settle(busy=1)
        try:
            yield
        finally:
            self._settle(busy=-1)
            self._free.release()

    def account(self) -> SlotSeconds:
        """Since the last call."""
        self._settle()
        told = SlotSeconds(round(self._seconds, 3), round(self._busy_seconds, 3), round(self._queued_seconds, 3))
        self._seconds = self._busy_seconds = self._queued_seconds = 0.0
        return told

    def _settle(self, *, busy: int = 0, waiting: int = 0) -> None:
        now = self._now()
        passed, self._settled = now - self._settled, now
        self._seconds += passed
        self._busy_seconds += passed * self._busy
        self._queued_seconds += passed * self._waiting
        self._busy += busy
        self._waiting += waiting
