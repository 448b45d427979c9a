"""One model on several servers of the same machine."""

from collections.abc import Sequence

from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.engines.http import HttpModel


class Spread:
    """``ports.Model``: each prompt goes to the server that has the fewest in hand, the first of equals. All of them
    hold the same weights."""

    def __init__(self, servers: Sequence[HttpModel]) -> None:
        self._servers = list(servers)
        self._load = [0] * len(self._servers)

    async def complete(self, prompt: Prompt) -> Completion:
        index = self._load.index(min(self._load))
        self._load[index] += 1
        try:
            return await self._servers[index].complete(prompt)
        finally:
            self._load[index] -= 1

    async def count_tokens(self, text: str) -> int:
        return await self._servers[0].count_tokens(text)

    async def aclose(self) -> None:
        for server in self._servers:
            await server.aclose()
