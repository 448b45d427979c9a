import asyncio
import io
import json

import pytest

from hc_ray.domain.events import EngineUse, PostState, SlotUse, TrialStart
from hc_ray.reports.progress import CrewView
from hc_ray.reports.status import status_of
from hc_ray.reports.terminal import Progress
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.node_probe import Slots
from tests.fakes.screen import drawn

SANDBOX, VERIFIER = "sandbox_slot", "verifier_slot"
EVENTS = [
    PostState(kind=SANDBOX, node="a", state="ready", slots=8),
    PostState(kind=VERIFIER, node="a", state="ready", slots=2),
    PostState(kind="engine llama", node="a", number=0, state="ready"),
    PostState(kind="engine llama", node="b", number=1, state="ready"),
    PostState(kind=SANDBOX, node="b", state="ready", slots=4),
    SlotUse(kind=SANDBOX, node="a", seconds=10, busy=75, queued=25),
    SlotUse(kind=VERIFIER, node="a", seconds=10, busy=5, queued=0),
    EngineUse(engine="llama", slots=16, seconds=10, busy=150, queued=30, requests=9, prompt_tokens=1, cached_tokens=0,
              completion_tokens=640),
    PostState(kind=SANDBOX, node="b", state="resting", slots=4, why="no answer from the Docker daemon"),
    PostState(kind="engine llama", node="a", number=1, state="ready"),
]  # fmt: skip


def seen(events=EVENTS):
    view = CrewView()
    for event in events:
        view.take(event)
    return view


def test_a_node_is_shown_with_its_slots_its_engines_and_what_is_wrong_with_it():
    a, b = seen().nodes
    assert (a.sandboxes, a.gradings, a.engines, a.note) == ("7.5 of 8, 2.5 queued", "0.5 of 2", "2 × llama", "")
    assert (b.sandboxes, b.engines, b.note) == ("", "", "sandboxes resting: no answer from the Docker daemon")
    assert seen().engines == ["llama: 15.0 of 16 slots busy, 3.0 queued, 64 answer tokens/s"]


def test_the_live_display_tells_what_waits_on_a_single_node_and_lists_several_or_one_in_trouble():
    progress = Progress(2, stream=io.StringIO())
    for event in (TrialStart(trial="t", task="greeting", agent="raw", seed=0), *EVENTS[:2]):
        progress.emit(event)
    assert "node" not in drawn(progress)
    for queued in (0, 30):
        progress.emit(SlotUse(kind=SANDBOX, node="a", seconds=10, busy=80, queued=queued))
        assert ("sandboxes: 8.0 of 8 slots busy, 3.0 queued" in drawn(progress)) is bool(queued)
    for event in EVENTS[2:]:
        progress.emit(event)
    assert "7.5 of 8, 2.5 queued" in drawn(progress) and "no answer from the Docker daemon" in drawn(progress)


def test_status_tells_the_same_from_the_journal(tmp_path):
    store = SweepStore(str(tmp_path))
    store.write("sweep.json", json.dumps({"schema_version": 1, "planned_trials": 2, "config": {}}).encode())
    lines = [event.model_copy(update={"at": 1.0}).model_dump_json() for event in EVENTS]
    store.write("events/000000.jsonl", "\n".join([*lines, '{"trial":"half a li']).encode())
    told = status_of(store)
    assert [node["node"] for node in told["nodes"]] == ["a", "b"] and told["engines"] == seen().engines


async def test_slots_are_accounted_for_by_the_clock():
    time = [0.0]
    slots = Slots(1, now=lambda: time[0])
    first, ends = asyncio.Event(), asyncio.Event()

    async def work():
        async with slots.one():
            first.set()
            await ends.wait()

    tasks = [asyncio.ensure_future(work()) for _ in range(2)]
    await first.wait()
    time[0] = 4.0
    assert slots.account() == {"seconds": 4.0, "busy": 4.0, "queued": 4.0}
    ends.set()
    await asyncio.gather(*tasks)
    time[0] = 6.0
    assert slots.account() == {"seconds": 2.0, "busy": 0.0, "queued": 0.0}


async def test_who_gives_up_waiting_for_a_slot_leaves_it_to_others():
    slots = Slots(1)
    async with slots.one():
        waits = asyncio.ensure_future(slots.one().__aenter__())
        await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
    async with slots.one():
        pass
