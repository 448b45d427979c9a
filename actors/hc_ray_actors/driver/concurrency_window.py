"""The window of a sweep: how many trials work at once, and how many more wait beside them without a slot."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

KEPT = 5.0
"""Seconds that something which is waited for keeps its trial's slot; what takes longer lets the next trial work."""
WAITING = 16
"""Trials that may wait without a slot, at least: for an image, a verdict or the end of a back-off."""

T = TypeVar("T")
K = TypeVar("K")


class Slot:
    """One trial's right to work. Whoever waits for something slow gives it back meanwhile."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._held = False

    async def take(self) -> None:
        if not self._held:
            await self._slots.acquire()
            self._held = True

    def give(self) -> None:
        if self._held:
            self._held = False
            self._slots.release()

    async def during(self, work: Awaitable[T]) -> T:
        """Await ``work``, without the slot after ``KEPT`` seconds. The slot is not taken again: ``take`` does, where
        the trial has more to do."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task], timeout=KEPT)
            if not task.done():
                self.give()
            return await task
        except asyncio.CancelledError:
            task.cancel()
            raise


async def drive(keys: Iterable[K], go: Callable[[K, Slot], Awaitable[None]], *, width: int) -> None:
    """Run ``go`` for every key: ``width`` hold a slot at once, a bounded number waits beside them. The first that
    raises ends all."""
    slots, places = asyncio.Semaphore(width), asyncio.Semaphore(width + max(WAITING, 4 * width))

    async def one(key: K) -> None:
        slot = Slot(slots)
        try:
            await go(key, slot)
        finally:
            slot.give()
            places.release()

    try:
        async with asyncio.TaskGroup() as trials:
            for key in keys:
                await places.acquire()
                trials.create_task(one(key))
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None
