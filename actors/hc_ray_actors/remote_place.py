"""Sandboxes in other processes: places and sandboxes for trials over calls to ``Sandboxes`` actors."""

import asyncio
import copy
import itertools
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from hc_ray.domain.errors import HcRayError, SandboxError
from hc_ray.domain.fork_steps import ForkStep
from hc_ray.domain.ports import Difference, ExecResult, Sandbox
from hc_ray.domain.task import Task
from hc_ray_actors.asking.activity import Operation, TrialActivity
from hc_ray_actors.cluster import SANDBOX

T = TypeVar("T")

LOOK_SECONDS = 5.0
"""How often a trial asks whether what it has asked for still waits for a slot."""


class Forked(NamedTuple):
    """The result of ``Sandboxes.in_fork``."""

    answer: Any
    """The last step's answer."""
    seconds: float
    """Duration in seconds, without waits for slots."""


class Station(NamedTuple):
    """What trials know about a node with sandboxes."""

    actor: Any
    slots: int = 1
    lacks: frozenset[str] = frozenset()
    """Digests of tasks that cannot run on it (yet)."""
    doubted: bool = False
    """It is being checked after a fault while others are fine, so it gets no new sandboxes."""


class RemotePlace:
    """``ports.MakesSandboxes`` over ``Sandboxes`` actors: a new sandbox goes to the node with the fewest per slot, and
    among equals to the one that has had the fewest so far."""

    def __init__(self, stations: Mapping[str, Station], name: str = "") -> None:
        """``stations``: by node; ``name``: prefix of sandbox handles."""
        self._stations = dict(stations)
        self.opened: dict[str, Any] = {}
        """Sandbox handle → its actor."""
        self._made: Counter[Any] = Counter()
        """Actor → number of sandboxes requested so far."""
        self._id, self._numbers = name or secrets.token_hex(4), itertools.count(1)
        self._closing: set[asyncio.Task[None]] = set()
        self._activity: TrialActivity | None = None

    def of(self, activity: TrialActivity) -> "RemotePlace":
        """This place for one trial, whose operations here are tracked in its activity."""
        own = copy.copy(self)
        own._activity = activity
        return own

    async def during(self, actor: Any, handle: str, call: Awaitable[T]) -> T:
        """Await a call to an actor about a sandbox; its faults name its post. Of the time of a command or of a fork's
        commands, only the last part, as reported by the actor, counts as work; before that it waited for a slot."""
        try:
            if self._activity is None:
                return await call
            with self._activity.at("sandbox") as operation:
                operation.started = operation.began
                looking = asyncio.ensure_future(self._look(actor, handle, operation, self._activity.now))
                looking.add_done_callback(lambda done: done.cancelled() or done.exception())  # the call tells the fault
                try:
                    answer = await call
                finally:
                    looking.cancel()
                if isinstance(answer, ExecResult | Forked):
                    operation.started = max(operation.began, self._activity.now() - answer.seconds)
                return answer
        except HcRayError as fault:
            fault.where = fault.where or f"{SANDBOX}@{self.node(actor)}"
            raise

    @staticmethod
    async def _look(actor: Any, handle: str, operation: Operation, now: Callable[[], float]) -> None:
        """Mark an operation that is under way as waiting or at work: its wait would else count until the answer comes,
        and end a trial of which less time is left."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            waits = await actor.waits(handle)
            operation.started = None if waits else operation.started or now()

    def arrange(self, stations: Mapping[str, Station]) -> None:
        """Replace the nodes. Sandboxes on nodes that left no longer answer."""
        self._stations.clear()
        self._stations.update(stations)

    async def create(self, task: Task, name: str, *, network: bool = False) -> Sandbox:
        able = [one for _, one in sorted(self._stations.items()) if task.digest not in one.lacks]
        if not able:
            raise SandboxError(f"no node can make a sandbox for {task.name} at present")
        able = [one for one in able if not one.doubted] or able
        load = Counter(self.opened.values())
        chosen = min(able, key=lambda one: (load[one.actor] / max(1, one.slots), self._made[one.actor])).actor
        self._made[chosen] += 1
        return await self.make(chosen, lambda handle: chosen.create(handle, task, name, network))

    async def make(self, actor: Any, start: Callable[[str], Awaitable[str]]) -> "RemoteSandbox":
        """A sandbox made by ``start`` under a new handle. If the caller gives up, the actor still finishes making it,
        so it is closed as soon as it exists."""
        handle, workdir = await self.open(actor, start)
        return RemoteSandbox(self, actor, handle, workdir)

    async def open(self, actor: Any, start: Callable[[str], Awaitable[T]]) -> tuple[str, T]:
        """Like ``make``, but returns the handle and the result of ``start``."""
        handle = f"{self._id}-{next(self._numbers)}"
        self.opened[handle] = actor
        try:
            return handle, await self.during(actor, handle, start(handle))
        except BaseException:
            self.close_soon(actor, handle)
            raise

    def close_soon(self, actor: Any, handle: str) -> "asyncio.Task[None]":
        """Close a sandbox in the background, whether or not anybody waits for it."""
        self.opened.pop(handle, None)
        task: asyncio.Task[None] = asyncio.ensure_future(actor.close(handle))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        # Only those who wait for it need to know how it ended.
        task.add_done_callback(lambda closed: closed.cancelled() or closed.exception())
        return task

    async def close(self) -> None:
        """Wait until all abandoned sandboxes are closed."""
        await asyncio.gather(*self._closing, return_exceptions=True)

    def node(self, actor: Any) -> str:
        """An actor's node; empty if it was replaced and its sandboxes are gone."""
        return next((node for node, one in self._stations.items() if one.actor == actor), "")


class RemoteSandbox:
    """``ports.Sandbox`` with one actor call per method."""

    def __init__(self, place: RemotePlace, actor: Any, handle: str, workdir: str) -> None:
        self._place, self._actor, self._handle, self.workdir = place, actor, handle, workdir
        self._closing: asyncio.Task[None] | None = None

    async def exec(self, command: Sequence[str], **options: Any) -> ExecResult:
        result: ExecResult = await self._call("exec", list(command), **options)
        return result

    async def put(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        await self._call("put", dict(files), mode=mode)

    async def put_tar(self, tar: bytes) -> None:
        await self._call("put_tar", tar)

    async def get(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        found: bytes | None = await self._call("get", path, limit=limit)
        return found

    async def difference(self, *, limit: int = 64 << 20) -> Difference:
        found: Difference = await self._call("difference", limit=limit)
        return found

    async def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        call = self._actor.call(self._handle, method, *arguments, **options)
        return await self._place.during(self._actor, self._handle, call)

    async def fork(self, name: str) -> Sandbox:
        actor, parent = self._actor, self._handle
        return await self._place.make(actor, lambda handle: actor.fork(handle, parent, name))

    async def in_fork(self, name: str, before: Sequence[ForkStep[Any]], last: ForkStep[T]) -> T:
        """Like ``fork_steps.in_fork``, in one call."""
        actor, parent = self._actor, self._handle
        handle, done = await self._place.open(
            actor, lambda handle: actor.in_fork(handle, parent, name, [*before, last])
        )
        del self._place.opened[handle]  # the actor has closed it
        answer: T = done.answer
        return answer

    async def hand_over(self) -> str:
        """See ``ports.HandsOver``; the ticket starts with the node (``given_by``)."""
        if not (node := self._place.node(self._actor)):
            raise SandboxError("the process that owned the sandbox died")
        ticket: str = await self._actor.hand_over(self._handle)
        await self.close()  # the actor has released it; this only updates our count
        return f"{node} {ticket}"

    async def close(self) -> None:
        if self._closing is None:
            self._closing = self._place.close_soon(self._actor, self._handle)
        await asyncio.shield(self._closing)


def given_by(ticket: str) -> tuple[str, str]:
    """The node that gave away a sandbox, and its place's own ticket."""
    node, _, own = ticket.partition(" ")
    return node, own
