"""Sandboxes behind an actor: a call that is given up goes on over there, and what it makes is closed all the same."""

import asyncio
from types import SimpleNamespace

import pytest

from hc_ray.agent.budget import Clock
from hc_ray.domain.errors import SandboxError
from hc_ray.domain.fork_steps import Exec
from hc_ray.domain.ports import ExecResult
from hc_ray.domain.task import Environment, Task
from hc_ray_actors import node_probe as module
from hc_ray_actors import remote_place
from hc_ray_actors.asking.activity import Activities
from hc_ray_actors.remote_place import RemotePlace, Station
from hc_ray_actors.sandboxes import Sandboxes
from tests.fakes.detached import Detached

TASK = Task(name="t", digest="d", instruction="", environment=Environment())


class Box:
    def __init__(self, place):
        self.place, self.closed, self.workdir = place, 0, "/app"

    async def fork(self, name):
        return await self.place.create(TASK, name)

    async def exec(self, command, **options):
        return ExecResult(exit_code=0, stdout=b"", stderr=b"")

    async def close(self):
        self.closed += 1


class SlowPlace:
    def __init__(self):
        self.let = asyncio.Event()
        self.made = []

    async def create(self, task, name, *, network=False):
        await self.let.wait()
        self.made.append(Box(self))
        return self.made[-1]


@pytest.fixture
async def slow(monkeypatch):
    place = SlowPlace()
    monkeypatch.setattr(module, "open_place", lambda *_, **__: place)
    actor = Sandboxes("fake", None, 2)
    return SimpleNamespace(place=place, actor=actor, remote=RemotePlace({"here": Station(Detached(actor))}))


async def given_up(call):
    waiting = asyncio.ensure_future(call)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def settled(remote):
    await asyncio.gather(*remote._closing)


async def test_a_sandbox_or_fork_whose_maker_gave_up_is_closed_when_it_is_there_and_its_parent_is_not(slow):
    await given_up(slow.remote.create(TASK, "base"))
    assert slow.place.made == []
    slow.place.let.set()
    await settled(slow.remote)
    assert [box.closed for box in slow.place.made] == [1] and not slow.actor._open
    base = await slow.remote.create(TASK, "base")
    slow.place.let.clear()
    await given_up(base.fork("fork"))
    slow.place.let.set()
    await settled(slow.remote)
    assert [box.closed for box in slow.place.made] == [1, 0, 1]
    await base.close()
    assert [box.closed for box in slow.place.made] == [1, 1, 1] and not slow.actor._open


async def crowded(slow):
    """Take both slots of the actor; returns them, since one that is forgotten is given back."""
    taken = [slow.actor._slots.one() for _ in range(2)]
    for slot in taken:
        await slot.__aenter__()
    return taken


async def test_a_trial_s_time_in_queues_holds_what_its_commands_in_forks_waited_for_a_slot(slow):
    slow.place.let.set()
    with Activities(lambda use: None).trial() as trial:
        base = await slow.remote.of(trial).create(TASK, "base")
        busy = await crowded(slow)
        asked, began = asyncio.ensure_future(base.in_fork("fork", [], Exec(command=("true",), timeout=1))), trial.now()
        await asyncio.sleep(0.2)
        await busy[0].__aexit__(None, None, None)
        await asked
        assert 0.15 < trial.queued() <= trial.now() - began
        assert len(slow.remote.opened) == 1, "the fork, closed over there, counts no more"


async def test_a_trial_whose_time_is_nearly_over_is_not_ended_while_it_waits_for_a_slot(slow, monkeypatch):
    monkeypatch.setattr(remote_place, "LOOK_SECONDS", 0.05)
    slow.place.let.set()
    with Activities(lambda use: None).trial() as trial:
        base = await slow.remote.of(trial).create(TASK, "base")
        busy = await crowded(slow)
        asyncio.get_running_loop().call_later(1.0, lambda: asyncio.ensure_future(busy[0].__aexit__(None, None, None)))
        done = await Clock(0.4, trial.queued).bound(base.exec(["true"]))
        assert done.exit_code == 0 and not await slow.actor.waits(base._handle)


async def test_a_close_that_nobody_waits_for_any_more_is_done_and_done_once(slow):
    slow.place.let.set()
    base = await slow.remote.create(TASK, "base")
    await given_up(base.close())
    await base.close()
    await settled(slow.remote)
    assert [box.closed for box in slow.place.made] == [1] and len(slow.remote.opened) == 0


async def test_an_actor_whose_trials_are_gone_closes_what_it_is_still_making(slow):
    making = asyncio.ensure_future(slow.actor.create("h", TASK, "base", False))
    await asyncio.sleep(0)
    clearing = asyncio.ensure_future(slow.actor.clear([]))
    await asyncio.sleep(0)
    slow.place.let.set()
    await asyncio.gather(making, clearing)
    assert [box.closed for box in slow.place.made] == [1] and not slow.actor._open


class Node:
    """A node's actor that makes everything at once."""

    async def create(self, handle, task, name, network):
        return "/app"

    async def close(self, handle):
        """Nothing is there."""


async def test_a_sandbox_goes_to_the_node_with_the_fewest_for_its_slots_that_has_the_task_and_is_in_no_doubt():
    a, b, c = nodes = [Node() for _ in range(3)]
    place = RemotePlace({"a": Station(a, 2), "b": Station(b, 1), "c": Station(c, 9, frozenset({TASK.digest}))})

    def held():
        return [list(place.opened.values()).count(node) for node in nodes]

    boxes = [await place.create(TASK, "x") for _ in range(6)]
    assert held() == [4, 2, 0], "c lacks what the task needs"
    await asyncio.gather(*(box.close() for box in boxes))
    await place.create(TASK, "x")
    assert held() == [0, 1, 0], "of several with as few the one that has had the fewest so far"
    place.arrange({"a": Station(a, 2), "b": Station(b, 1, doubted=True), "c": Station(c, 9, doubted=True)})
    for _ in range(3):
        await place.create(TASK, "x")
    assert held() == [3, 1, 0]
    place.arrange({"b": Station(b, 1, doubted=True)})
    await place.create(TASK, "x")
    assert held() == [3, 2, 0], "better one in doubt than none"
    place.arrange({"b": Station(b, 1, frozenset({TASK.digest}))})
    with pytest.raises(SandboxError, match="no node can make a sandbox for t at present"):
        await place.create(TASK, "x")
