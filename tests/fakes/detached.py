"""An actor as Ray has it: a call goes on to its end though its caller was cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class Detached:
    def __init__(self, actor: Any) -> None:
        self._actor, self._calls = actor, set[asyncio.Task[Any]]()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **options: Any) -> Any:
            task = asyncio.ensure_future(getattr(self._actor, name)(*arguments, **options))
            self._calls.add(task)
            return await asyncio.shield(task)

        return call
