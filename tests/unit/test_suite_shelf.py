import asyncio

from hc_ray.domain.suite import Suite
from hc_ray_actors import suite_shelf
from hc_ray_actors.suite_shelf import SuiteShelf


async def test_a_shelf_forgets_what_was_used_longest_ago_and_nothing_in_writing_or_below_its_limit(monkeypatch):
    monkeypatch.setattr(suite_shelf, "SUITES", 2)
    made: list[str] = []
    go = asyncio.Event()
    shelf = SuiteShelf()

    def writer(key: str, *, slow: bool = False):  # type: ignore[no-untyped-def]
        async def write() -> Suite:
            made.append(key)
            if slow:
                await go.wait()
            return Suite(key=key)

        return write

    waiting = asyncio.ensure_future(shelf.obtain("slow", writer("slow", slow=True)))
    await asyncio.sleep(0)
    for key in ("a", "b", "a", "c", "b"):
        assert (await shelf.obtain(key, writer(key))).key == key
    also = asyncio.ensure_future(shelf.obtain("slow", writer("slow", slow=True)))
    await asyncio.sleep(0)
    go.set()
    assert (await waiting).key == (await also).key == "slow" and made[0] == "slow" and made.count("slow") == 1
    assert made.count("a") <= 2 and made.count("c") == 1 and len(made) < 7
    monkeypatch.setattr(suite_shelf, "SUITES", 4)
    shelf, made[:] = SuiteShelf(), []
    for key in "abcabcdabcd":
        await shelf.obtain(key, writer(key))
    assert made == ["a", "b", "c", "d"]


async def test_a_suite_that_was_forgotten_is_read_where_its_trial_has_written_it(monkeypatch):
    monkeypatch.setattr(suite_shelf, "SUITES", 1)
    written: dict[str, Suite] = {}
    shelf = SuiteShelf(written.get)

    async def make(key: str) -> Suite:
        assert key not in written, "it was written twice"
        written[key] = Suite(key=key)
        return written[key]

    for key in ("a", "b", "a", "b"):
        assert (await shelf.obtain(key, lambda key=key: make(key))).key == key  # type: ignore[misc]
