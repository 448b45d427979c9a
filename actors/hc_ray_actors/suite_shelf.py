"""Suites in a process's memory: each is written once, by the first trial that asks for it."""

from collections.abc import Awaitable, Callable

from hc_ray.domain.suite import Suite
from hc_ray.domain.waiting import Once

SUITES = 128
"""Suites that a process keeps in memory, the last used: more than trials are under way. Older ones lie in the sweep
directory."""


class SuiteShelf:
    """``SuiteCache``: one trial writes a suite, the others that ask for the same key wait for it. ``stored`` looks for
    suites of an earlier start of the same sweep."""

    def __init__(self, stored: Callable[[str], Suite | None] = lambda key: None) -> None:
        self._stored = stored
        self._suites = Once[Suite](SUITES)

    async def obtain(self, key: str, make: Callable[[], Awaitable[Suite]]) -> Suite:
        async def found() -> Suite:
            return self._stored(key) or await make()

        return await self._suites.obtain(key, found)
