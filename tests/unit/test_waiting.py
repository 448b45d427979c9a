import asyncio
import gc

import pytest

from hc_ray.domain.suite import Suite
from hc_ray.domain.waiting import Once


async def test_a_shelf_forgets_what_was_used_longest_ago_and_nothing_in_writing_or_below_its_limit():
    go, made = asyncio.Event(), list[str]()

    def obtain(shelf: Once[Suite], key: str) -> asyncio.Future[Suite]:
        async def write() -> Suite:
            made.append(key)
            if key == "slow":
                await go.wait()
            return Suite(key=key)

        return asyncio.ensure_future(shelf.obtain(key, write))

    for limit, keys, written in ((3, "abacab", "abcb"), (4, "abcabc", "abc")):
        shelf, made[:] = Once[Suite](limit), []
        go.clear()
        slow = [obtain(shelf, "slow")]
        for key in keys:
            assert (await obtain(shelf, key)).key == key
        slow.append(obtain(shelf, "slow"))
        await asyncio.sleep(0)
        go.set()
        assert [(await one).key for one in slow] == ["slow"] * 2 and made == ["slow", *written]


async def test_a_suite_that_was_forgotten_is_read_where_its_trial_has_written_it():
    written: dict[str, Suite] = {}
    shelf = Once[Suite](1, written.get)

    async def make(key: str) -> Suite:
        assert key not in written, "it was written twice"
        written[key] = Suite(key=key)
        return written[key]

    for key in ("a", "b", "a", "b"):
        assert (await shelf.obtain(key, lambda key=key: make(key))).key == key  # type: ignore[misc]


async def test_a_suite_that_fails_when_nobody_waits_any_more_troubles_nobody():
    troubled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: troubled.append(context))
    shelf, go = Once[Suite](), asyncio.Event()

    async def fails() -> Suite:
        await go.wait()
        raise RuntimeError("the engine has gone")

    waiting = asyncio.ensure_future(shelf.obtain("a", fails))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    await asyncio.sleep(0)
    del shelf, waiting
    gc.collect()
    await asyncio.sleep(0)
    assert troubled == []
