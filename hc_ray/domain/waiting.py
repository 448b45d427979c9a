"""Waiting for work that others wait for, too."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


async def result_of(work: "asyncio.Future[Result]") -> Result:
    """What ``work`` comes to; it goes on where whoever waits is cancelled. ``asyncio.shield`` does the same, but from
    Python 3.14 on the event loop then prints a failure that nobody waits for any more."""
    if not work.done():  # one that is may be of another loop
        await asyncio.wait([work])
    return work.result()


def apart(work: Callable[[], Result]) -> "asyncio.Future[Result]":
    """As ``asyncio.to_thread``, for what may never come back: at its end no loop and no process waits for it."""
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
    """Work that is done once for all who ask for it by the same key; who comes while it is under way waits for it. A
    failure is raised to those who wait; the next one who asks has it done anew."""

    def __init__(self, most: int | None = None, stored: Callable[[Any], Result | None] = lambda key: None) -> None:
        """``most``: what has ended and was used longest ago is forgotten where there is more; None: nothing is.
        ``stored`` knows what was done before this process began, or was forgotten since."""
        self._most, self._stored = most, stored
        self._works: dict[Hashable, asyncio.Future[Result]] = {}

    async def obtain(self, key: Hashable, make: Callable[[], Awaitable[Result]]) -> Result:
        """What ``make`` came to, for whoever asked first; it goes on where that one is cancelled."""
        work = self._works.pop(key, None)
        if work is None or (work.done() and (work.cancelled() or work.exception() is not None)):
            work = asyncio.ensure_future(self._done(key, make))
            work.add_done_callback(lambda made: made.cancelled() or made.exception())  # nobody may wait any more
        self._works[key] = work  # the last used stand last
        spare = 0 if self._most is None else max(0, len(self._works) - self._most)
        for old in [one for one, made in self._works.items() if made.done()][:spare]:
            del self._works[old]
        return await result_of(work)

    async def _done(self, key: Hashable, make: Callable[[], Awaitable[Result]]) -> Result:
        found = self._stored(key)
        return await make() if found is None else found

    def forget(self, key: Hashable) -> None:
        """Who asks next has it done anew."""
        self._works.pop(key, None)
