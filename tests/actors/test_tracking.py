"""MLflow beside a sweep: told while trials run, never of what was not scanned, and at last how the sweep ended."""

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest

from hc_ray.domain.errors import LeakError, StoreError
from hc_ray.reports import report
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors import tracker
from hc_ray_actors.driver import tracking
from hc_ray_actors.driver.tracking import Tracking
from hc_ray_actors.tracker import Tracker
from tests.fakes import sweepdir
from tests.fakes.crew import Stage


class World(Stage):
    where = "laptop"

    def __init__(self, fails=0):
        super().__init__(prepare=lambda name: self.ready.set(), export=self.hears)
        self.told, self.fails = [], fails
        self.heard, self.ready = asyncio.Event(), asyncio.Event()

    def hears(self, told):
        self.fails -= 1
        if self.fails >= 0:
            raise OSError("no server")
        self.told.append(told)
        self.heard.set()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(tracking, "PERIOD", 0.01)
    monkeypatch.setattr(tracking, "SHARE", 1.0)


def following(folder, world, scan=None):
    async def clean(told):
        """Nothing is found."""

    store = SweepStore(str(sweepdir.demo_like().save(folder)))
    plan = SimpleNamespace(config=SimpleNamespace(mlflow_uri="http://tracker"), out="out")
    one = Tracking(plan, store, scan or clean)
    one.prepare(world)
    return one, report.summarise(store)


async def test_a_tracker_writes_one_update_after_the_other(monkeypatch):
    order = []

    def export(uri, out, summary, status):
        order.append(f"{summary} begins")
        time.sleep(0.02)
        order.append(f"{summary} ends")

    monkeypatch.setattr(tracker, "export", export)
    told = Tracker("sqlite:///nowhere", "out")
    await asyncio.gather(*(told.export(summary, "RUNNING") for summary in "ab"))
    assert order == ["a begins", "a ends", "b begins", "b ends"]


def test_an_update_that_never_ends_holds_up_no_process_that_gave_it_up(monkeypatch):
    answers = threading.Event()
    monkeypatch.setattr(tracker, "export", lambda *given: answers.wait())
    anyway = threading.Timer(5.0, answers.set)
    anyway.start()
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(Tracker("http://tracker", "out").export({}, "FINISHED"), 0.1))
    assert not answers.is_set() and all(one.daemon for one in threading.enumerate() if one.name == "tracker")
    anyway.cancel()
    answers.set()


@pytest.mark.parametrize("interrupted", [False, True])
async def test_runs_are_there_while_trials_run_and_say_at_last_how_the_sweep_ended(tmp_path, interrupted):
    world = World(fails=1)
    one, summary = following(tmp_path, world)
    await asyncio.wait_for(world.ready.wait(), 10)
    assert await one.end(summary, None, interrupted=True) is None and world.told == [], "the sweep never began"
    one, summary = following(tmp_path, world)
    one.begin()
    await asyncio.wait_for(world.heard.wait(), 10)
    assert await one.end(summary, None, interrupted=interrupted) == "the run"
    trials = summary["sweep"]["trials"]
    assert set(world.told[:-1]) == {f"RUNNING {trials}"}
    assert world.told[-1] == f"{'KILLED' if interrupted else 'FINISHED'} {trials}"


async def test_a_tracker_that_does_not_answer_is_waited_for_no_longer_than_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(tracking, "LONGEST", 0.2)
    monkeypatch.setattr(tracking, "A_TRIAL", 0.0)
    world = World()
    one, summary = following(tmp_path, world)
    await asyncio.wait_for(world.ready.wait(), 10)
    world.living["Tracker"][0].hung = True
    with pytest.raises(StoreError, match=r"MLflow at http://tracker did not answer within 0\.2 s"):
        await asyncio.wait_for(one.end(summary, None, interrupted=False), 10)


async def test_nothing_is_told_of_a_sweep_in_which_the_scan_finds_a_canary(tmp_path):
    found = asyncio.Event()

    async def finds(told):
        found.set()
        raise LeakError("a canary")

    world = World()
    one, _ = following(tmp_path, world, finds)
    one.begin()
    await asyncio.wait_for(found.wait(), 10)
    assert world.told == []
    one._following.cancel()
