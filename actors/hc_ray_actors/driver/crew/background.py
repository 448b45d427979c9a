"""Work that goes on beside whoever began it."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any


class Background:
    """Tasks that are kept until they end; a fault of theirs troubles nobody."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, Any] | Awaitable[Any]) -> "asyncio.Future[Any]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def close(self) -> None:
        """Cancel what has not ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
