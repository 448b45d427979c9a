"""One model on the servers of an embedded engine."""

import itertools
from collections.abc import Sequence

from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.engines.http import HttpModel


class Spread:
    """``ports.Model``: each prompt goes to the server that has the fewest in hand, the first of equals, and there to
    the lowest free slot. All of them hold the same weights, and nobody else asks them.

    llama.cpp computes in one batch what lies in neighbouring slots, and left to itself it takes the slot that was free
    for longest: with a quarter to a half of the slots busy, neighbours get a fifth more tokens a second
    (docs/results.md)."""

    def __init__(self, servers: Sequence[HttpModel], slots: int) -> None:
        """``slots``: how many each server has."""
        self._servers, self._slots = list(servers), slots
        self._taken: list[set[int]] = [set() for _ in self._servers]

    async def complete(self, prompt: Prompt) -> Completion:
        server, taken = min(zip(self._servers, self._taken, strict=True), key=lambda one: len(one[1]))
        slot = next(number for number in itertools.count() if number not in taken)
        taken.add(slot)
        try:
            return await server.complete(prompt, slot if slot < self._slots else None)
        finally:
            taken.discard(slot)

    async def count_tokens(self, text: str) -> int:
        return await self._servers[0].count_tokens(text)

    async def aclose(self) -> None:
        for server in self._servers:
            await server.aclose()
