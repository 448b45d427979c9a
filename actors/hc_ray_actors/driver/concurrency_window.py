"""A sweep's concurrency window: how many trials work at once, and how many more may wait without a slot."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

KEPT = 5.0
"""Seconds for which a waiting trial keeps its slot; after that, the next trial gets it."""
WAITING = 16
"""The least number of trials that may wait without a slot: for an image, a verdict or a back-off."""

T = TypeVar("T")
K = TypeVar("K")


class Slot:
    """One trial's right to work, given back during slow waits."""

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
        """Await ``work``, giving up the slot after ``KEPT`` seconds. It is not taken back automatically: call ``take``
        if the trial has more to do."""
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
    """Run ``go`` for every key: ``width`` hold a slot at once, and a bounded number waits without one. The first
    exception cancels all."""
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
