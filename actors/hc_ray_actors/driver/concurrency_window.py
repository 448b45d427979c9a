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

    async def during(self, work: Awaitable[T], *, unless: asyncio.Event | None = None) -> T:
        """Await ``work``, without the slot after ``KEPT`` seconds, or as soon as ``unless`` is set. The slot is not
        taken again: ``take`` does, where the trial has more to do."""
        task = asyncio.ensure_future(work)
        early = asyncio.ensure_future(unless.wait()) if unless is not None else None
        try:
            await asyncio.wait([task, *([early] if early else [])], timeout=KEPT, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self.give()
            return await task
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            if early is not None:
                early.cancel()


async def drive(
    keys: Iterable[K],
    go: Callable[[K, Slot], Awaitable[None]],
    *,
    width: int,
) -> None:
    """Run ``go`` for every key: ``width`` hold a slot at once, a bounded number waits beside them. The first that
    raises ends all."""
    slots = asyncio.Semaphore(width)
    most = width + max(WAITING, 4 * width)
    flying: set[asyncio.Task[None]] = set()

    async def one(key: K) -> None:
        slot = Slot(slots)
        try:
            await go(key, slot)
        finally:
            slot.give()

    async def next_end() -> None:
        nonlocal flying
        ended, flying = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
        # Of several that end at once all are heard, whatever the first of them says.
        faults = [fault for task in ended if not task.cancelled() and (fault := task.exception())]
        if faults:
            raise faults[0]

    try:
        for key in keys:
            flying.add(asyncio.ensure_future(one(key)))
            while len(flying) >= most:
                await next_end()
        while flying:
            await next_end()
    finally:
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)
