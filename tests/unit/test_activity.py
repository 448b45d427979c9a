import asyncio
from types import SimpleNamespace

import pytest

from hc_ray_actors.asking.activity import Activities


@pytest.fixture
def world():
    """Trials under a clock that the test moves."""
    world = SimpleNamespace(time=100.0, told=[])
    world.all = Activities(world.told.append, now=lambda: world.time)
    return world


def account(world):
    world.all.settle(last=True)
    return world.told[-1]


async def test_the_oldest_trials_request_gets_the_next_free_slot(world):
    engine, order = world.all.engine("m", 1), []

    async def ask(name, trial):
        async with engine.slot(trial):
            order.append(name)
            await asyncio.sleep(0)

    with world.all.trial() as first, world.all.trial() as second, world.all.trial() as third:
        holder = engine.slot(third)
        await holder.__aenter__()
        asked = [asyncio.ensure_future(ask(name, trial)) for name, trial in
                 (("third", third), ("second", second), ("first", first), ("first again", first))]  # fmt: skip
        await asyncio.sleep(0)
        await holder.__aexit__(None, None, None)
        await asyncio.gather(*asked)
    assert order == ["first", "first again", "second", "third"] and engine.busy == 0


async def test_a_request_that_is_given_up_leaves_its_slot_to_the_next(world):
    engine = world.all.engine("m", 1)
    with world.all.trial() as trial:

        async def ask():
            async with engine.slot(trial):
                await asyncio.sleep(60)

        holds, waits, gets_it = (asyncio.ensure_future(ask()) for _ in range(3))
        await asyncio.sleep(0)
        waits.cancel()
        holds.cancel()
        await asyncio.sleep(0)
        gets_it.cancel()  # just when the slot is handed to it, or right after
        await asyncio.gather(holds, waits, gets_it, return_exceptions=True)
        assert (engine.busy, engine.waiting) == (0, 0)


async def test_free_slots_are_charged_to_what_the_trials_do_meanwhile(world):
    engine = world.all.engine("m", 4)
    world.time += 1.0
    with world.all.trial() as one, world.all.trial() as other:
        async with engine.slot(one):
            with other.at("sandbox"):
                world.time += 2.0
            with other.at("verdict"):
                world.time += 1.0
            async with engine.slot(other):
                world.time += 3.0
        engine.account.answered(50, 10, 20, 0.5)
        told = account(world)
    assert told.seconds == 7.0 and told.busy == 2.0 + 1.0 + 6.0
    assert told.waited == {"trials": 4.0, "sandbox": 6.0, "verdict": 3.0, "requests": 6.0}
    assert (told.requests, told.prompt_tokens, told.cached_tokens, told.completion_tokens) == (1, 50, 10, 20)
    assert told.busy + sum(told.waited.values()) == told.seconds * told.slots


async def test_a_trials_time_in_queues_counts_only_while_nothing_of_it_works(world):
    engine = world.all.engine("m", 1)
    with world.all.trial() as busy, world.all.trial() as trial:
        async with engine.slot(busy):

            async def ask():
                async with engine.slot(trial):
                    world.time += 5.0  # at work

            asked = asyncio.ensure_future(ask())
            await asyncio.sleep(0)
            world.time += 3.0
            assert trial.queued() == 3.0
            with trial.at("sandbox") as command:
                command.started = command.began
                world.time += 4.0
                assert trial.queued() == 3.0
            world.time += 2.0
            assert trial.queued() == 5.0
        await asked
        assert trial.queued() == 5.0
        with trial.at("sandbox") as command:
            world.time += 8.0
            command.started = world.time - 1.0  # it turns out to have waited for seven of the eight seconds
        assert trial.queued() == 12.0
    assert busy.queued() == 0.0
