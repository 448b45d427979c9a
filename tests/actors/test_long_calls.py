"""Calls of which hundreds are in flight: what the caller's and the actor's side of them make of it."""

import asyncio
import pickle

import pytest

from hc_ray.domain.errors import ActorError
from hc_ray_actors.long_calls import AT_ONCE, Caller, Desk


class Actor:
    """An actor whose process can die."""

    def __init__(self):
        self.desk, self.dead, self.collected = Desk(), asyncio.Event(), []

    async def begin(self, caller, number, method, arguments):
        self._lives()
        self.desk.begin(caller, number, getattr(self, method)(*arguments))

    async def collect(self, caller):
        self._lives()
        work, death = asyncio.ensure_future(self.desk.collect(caller)), asyncio.ensure_future(self.dead.wait())
        await asyncio.wait([work, death], return_when=asyncio.FIRST_COMPLETED)
        self._lives()
        death.cancel()
        self.collected.append(len(work.result()))
        return pickle.loads(pickle.dumps(work.result()))

    def _lives(self):
        if self.dead.is_set():
            raise ActorError("the process died")

    async def double(self, number, pause=0.0):
        await asyncio.sleep(pause)
        return 2 * number

    async def refuse(self, why):
        raise ValueError(why)

    async def unsendable(self, raises):
        if raises:
            raise ValueError(lambda: None)
        return lambda: None

    async def never(self):
        await asyncio.Event().wait()


def calling(actor):
    return Caller(actor.begin, actor.collect)


async def test_each_of_a_thousand_calls_gets_its_own_answer_a_few_at_a_time():
    actor = Actor()
    caller, other = calling(actor), calling(actor)
    asked = [one.call("double", number, 0.001 * (number % 7)) for number in range(500) for one in (caller, other)]
    assert await asyncio.gather(*asked) == [2 * number for number in range(500) for _ in range(2)]
    assert max(actor.collected) <= AT_ONCE and sum(actor.collected) == 1000, "none came twice"


@pytest.mark.parametrize("raises", [False, True])
async def test_what_the_method_raises_and_what_cannot_be_sent_is_the_fault_of_its_own_call_alone(raises):
    caller = calling(Actor())
    calls = caller.call("unsendable", raises), caller.call("refuse", "no"), caller.call("double", 2, 0.05)
    unsendable, refused, doubled = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(unsendable, Exception) and isinstance(refused, ValueError) and str(refused) == "no"
    assert doubled == 4


async def test_when_the_process_dies_every_call_that_waits_raises_and_so_does_the_next():
    actor = Actor()
    caller = calling(actor)
    waiting = [asyncio.ensure_future(caller.call("never")) for _ in range(3)]
    await asyncio.sleep(0.01)
    actor.dead.set()
    assert all(isinstance(one, ActorError) for one in await asyncio.gather(*waiting, return_exceptions=True))
    with pytest.raises(ActorError):
        await caller.call("double", 1)


async def test_a_call_that_is_given_up_hinders_none_of_the_others():
    caller = calling(Actor())
    gone = asyncio.ensure_future(caller.call("never"))
    slow = asyncio.ensure_future(caller.call("double", 3, 0.1))
    await asyncio.sleep(0.02)
    gone.cancel()
    assert await slow == 6 and await caller.call("double", 5) == 10
