"""Suites in a process's memory: each is written once, by the first trial that asks for it."""

import asyncio
from collections.abc import Awaitable, Callable

from hc_ray.domain.suite import Suite
from hc_ray.domain.waiting import result_of

SUITES = 128
"""Suites that a process keeps in memory, the last used: more than trials are under way. Older ones lie in the sweep
directory."""


class SuiteShelf:
    """``SuiteCache``: one trial writes a suite, the others that ask for the same key wait for it. ``stored`` looks for
    suites of an earlier start of the same sweep."""

    def __init__(self, stored: Callable[[str], Suite | None] = lambda key: None) -> None:
        self._stored = stored
        self._suites: dict[str, asyncio.Task[Suite]] = {}

    async def obtain(self, key: str, make: Callable[[], Awaitable[Suite]]) -> Suite:
        task = self._suites.pop(key, None)
        if task is None:
            task = asyncio.ensure_future(self._make(key, make))
            # Whoever waits is told of a failure; where nobody waits any more (Ctrl-C), it troubles nobody.
            task.add_done_callback(lambda made: made.cancelled() or made.exception())
        self._suites[key] = task  # the last used stand last
        finished = [one for one, made in self._suites.items() if made.done()]
        for old in finished[: max(0, len(self._suites) - SUITES)]:
            del self._suites[old]
        try:
            return await result_of(task)
        except BaseException:
            # A failed writer must not fail those that come later: the next one writes again.
            if task.done() and self._suites.get(key) is task:
                del self._suites[key]
            raise

    async def _make(self, key: str, make: Callable[[], Awaitable[Suite]]) -> Suite:
        return self._stored(key) or await make()
