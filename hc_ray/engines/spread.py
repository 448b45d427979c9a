"""One model on the servers of an embedded engine."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.engines.http import HttpModel


class Seats:
    """What an engine's servers have in hand, for all in this process who ask them.

    llama.cpp computes in one batch what lies in neighbouring slots, and left to itself it takes the slot that was free
    for longest: with a quarter to a half of the slots busy, neighbours get a fifth more tokens a second
    (docs/results.md). So the lowest free slot is named; a request waits for the slot that it names, be others free."""

    def __init__(self, servers: int, slots: int = 0) -> None:
        """``slots``: how many each server has; 0 where others ask these servers too, and none can be named."""
        self._slots = slots
        self._taken: list[set[int]] = [set() for _ in range(servers)]

    @contextmanager
    def one(self) -> Iterator[tuple[int, int | None]]:
        """A place for one request: the server that has the fewest in hand, the first of equals, and a slot there."""
        index = min(range(len(self._taken)), key=lambda server: len(self._taken[server]))
        taken = self._taken[index]
        number = next(number for number in itertools.count() if number not in taken)
        taken.add(number)
        # One that had no slot of its own sits in one that seems free.
        slot = number if max(taken) < self._slots else None
        try:
            yield index, slot
        finally:
            taken.discard(number)


class Spread:
    """``ports.Model``: each prompt goes to the server with the fewest in hand. All of them hold the same weights."""

    def __init__(self, servers: Sequence[HttpModel], seats: Seats) -> None:
        self._servers, self._seats = list(servers), seats

    async def complete(self, prompt: Prompt) -> Completion:
        with self._seats.one() as (index, slot):
            return await self._servers[index].complete(prompt, slot)

    async def count_tokens(self, text: str) -> int:
        return await self._servers[0].count_tokens(text)

    async def aclose(self) -> None:
        for server in self._servers:
            await server.aclose()
