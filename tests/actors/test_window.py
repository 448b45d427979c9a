import asyncio
import gc

import pytest

from hc_ray_actors.driver import concurrency_window
from hc_ray_actors.driver.concurrency_window import Slot, drive


async def test_no_more_hold_a_slot_than_the_window_is_wide_and_those_that_wait_without_one_are_bounded():
    now = most = 0

    async def go(key, slot):
        nonlocal now, most
        await slot.take()
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1
        ended.append(key)

    ended = []
    await drive(range(30), go, width=3)
    assert most == 3 and sorted(ended) == list(range(30))
    begun = 0
    gate = asyncio.Event()

    async def go(key, slot):
        nonlocal begun
        begun += 1
        await gate.wait()

    running = asyncio.ensure_future(drive(range(1000), go, width=1))
    await asyncio.sleep(0.01)
    assert begun == 1 + concurrency_window.WAITING
    gate.set()
    await running
    assert begun == 1000


async def test_the_first_that_raises_ends_all_and_of_several_that_end_at_once_all_are_heard(caplog):
    cancelled = []

    async def go(key, slot):
        await asyncio.sleep(0)
        if key.startswith("bad"):
            raise ValueError(key)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(key)
            raise

    with pytest.raises(ValueError, match="bad"):
        await drive(["one", "bad 1", "other", "bad 2"], go, width=4)
    gc.collect()
    assert sorted(cancelled) == ["one", "other"] and "never retrieved" not in caplog.text


async def test_a_slot_is_given_back_where_what_is_waited_for_takes_long(monkeypatch):
    monkeypatch.setattr(concurrency_window, "KEPT", 0.01)
    slots = asyncio.Semaphore(1)
    slot = Slot(slots)
    await slot.take()
    end = asyncio.Event()
    waiting = asyncio.ensure_future(slot.during(end.wait()))
    await asyncio.wait_for(slots.acquire(), 20)
    end.set()
    await waiting
