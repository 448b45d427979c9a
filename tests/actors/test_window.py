import asyncio

from hc_ray_actors.driver import concurrency_window
from hc_ray_actors.driver.concurrency_window import drive


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
