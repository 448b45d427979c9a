"""Waiting for work that is shared with others."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


async def result_of(work: "asyncio.Future[Result]") -> Result:
    """The result of ``work``, which continues if the waiter is cancelled. Like ``asyncio.shield``, but from Python 3.14
    on, that prints failures that nobody waits for."""
    if not work.done():  # finished work may belong to another loop
        await asyncio.wait([work])
    return work.result()


def apart(work: Callable[[], Result]) -> "asyncio.Future[Result]":
    """Like ``asyncio.to_thread``, for work that may never return: neither loop nor process waits for it at exit."""
    done: concurrent.futures.Future[Result] = concurrent.futures.Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as fault:
            done.set_exception(fault)

    threading.Thread(target=run, name="apart", daemon=True).start()
    return asyncio.wrap_future(done)


class Once(Generic[Result]):
    """Does work once per key and shares the result; callers that arrive while it runs wait for it. All waiters get its
    exception; the next call tries again."""

    def __init__(self, most: int | None = None, stored: Callable[[Any], Result | None] = lambda key: None) -> None:
        """``most``: number of finished results to keep, the most recently used; None keeps all. ``stored`` looks up
        results from before this process or already dropped."""
        self._most, self._stored = most, stored
        self._works: dict[Hashable, asyncio.Future[Result]] = {}

    async def obtain(self, key: Hashable, make: Callable[[], Awaitable[Result]]) -> Result:
        """The result of the first caller's ``make``, which continues even if that caller is cancelled."""
        work = self._works.pop(key, None)
        if work is None or (work.done() and (work.cancelled() or work.exception() is not None)):
            work = asyncio.ensure_future(self._done(key, make))
            work.add_done_callback(lambda made: made.cancelled() or made.exception())  # there may be no waiter left
        self._works[key] = work  # most recently used last
        spare = 0 if self._most is None else max(0, len(self._works) - self._most)
        for old in [one for one, made in self._works.items() if made.done()][:spare]:
            del self._works[old]
        return await result_of(work)

    async def _done(self, key: Hashable, make: Callable[[], Awaitable[Result]]) -> Result:
        found = self._stored(key)
        return await make() if found is None else found

    def forget(self, key: Hashable) -> None:
        """Drop a result, so that the next call makes it again."""
        self._works.pop(key, None)
