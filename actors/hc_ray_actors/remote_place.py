"""The sandboxes of other processes as trials use them: places and sandboxes over calls to ``Sandboxes`` actors."""

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
    """What ``Sandboxes.in_fork`` answers."""

    answer: Any
    """Of the last step."""
    seconds: float
    """How long it took, without what it waited for slots."""


class Station(NamedTuple):
    """What trials know of a node that has sandboxes."""

    actor: Any
    slots: int = 1
    lacks: frozenset[str] = frozenset()
    """Digests of tasks that cannot run there (yet)."""
    doubted: bool = False
    """It is being looked at after a fault, and others are not: it gets nothing new meanwhile."""


class RemotePlace:
    """``ports.MakesSandboxes`` over ``Sandboxes`` actors: a sandbox goes to the node with the fewest for its slots,
    of several such to the one that has had the fewest so far."""

    def __init__(self, stations: Mapping[str, Station], name: str = "") -> None:
        """``stations`` by node; handles of sandboxes begin with ``name``."""
        self._stations = dict(stations)
        self.opened: dict[str, Any] = {}
        """Handle of each sandbox → the actor that has it."""
        self._made: Counter[Any] = Counter()
        """Sandboxes that each actor was ever asked for."""
        self._id, self._numbers = name or secrets.token_hex(4), itertools.count(1)
        self._closing: set[asyncio.Task[None]] = set()
        self._activity: TrialActivity | None = None

    def of(self, activity: TrialActivity) -> "RemotePlace":
        """The same place as one trial uses it: what it does here is a part of its activity."""
        own = copy.copy(self)
        own._activity = activity
        return own

    async def during(self, actor: Any, handle: str, call: Awaitable[T]) -> T:
        """Await a call to an actor about a sandbox; a fault of it names its post. Of a command's only the last seconds
        are work: before it waited for a slot. The same goes for the commands in a fork."""
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
        """Other nodes from now on. Sandboxes on those that left answer no more."""
        self._stations.clear()
        self._stations.update(stations)

    async def create(self, task: Task, name: str, *, network: bool = False) -> Sandbox:
        able = [one for _, one in sorted(self._stations.items()) if task.digest not in one.lacks]
        if not able:
            raise SandboxError(f"no node can make a sandbox of {task.name} at present")
        able = [one for one in able if not one.doubted] or able
        load = Counter(self.opened.values())
        chosen = min(able, key=lambda one: (load[one.actor] / max(1, one.slots), self._made[one.actor])).actor
        self._made[chosen] += 1
        return await self.make(chosen, lambda handle: chosen.create(handle, task, name, network))

    async def make(self, actor: Any, start: Callable[[str], Awaitable[str]]) -> "RemoteSandbox":
        """A sandbox that ``start`` makes under the handle that it is given. Where the caller gives up meanwhile, the
        actor goes on making it: it is closed as soon as it is there."""
        handle, workdir = await self.open(actor, start)
        return RemoteSandbox(self, actor, handle, workdir)

    async def open(self, actor: Any, start: Callable[[str], Awaitable[T]]) -> tuple[str, T]:
        """As ``make``: the handle, and what ``start`` answered."""
        handle = f"{self._id}-{next(self._numbers)}"
        self.opened[handle] = actor
        try:
            return handle, await self.during(actor, handle, start(handle))
        except BaseException:
            self.close_soon(actor, handle)
            raise

    def close_soon(self, actor: Any, handle: str) -> "asyncio.Task[None]":
        """Begin to close a sandbox; that it is closed does not depend on who waits for it."""
        self.opened.pop(handle, None)
        task: asyncio.Task[None] = asyncio.ensure_future(actor.close(handle))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        # Whoever waits for it is told how it ended; nobody else needs to be.
        task.add_done_callback(lambda closed: closed.cancelled() or closed.exception())
        return task

    async def close(self) -> None:
        """Wait until the sandboxes that were given up are closed."""
        await asyncio.gather(*self._closing, return_exceptions=True)

    def node(self, actor: Any) -> str:
        """Where an actor stands; empty for one that was replaced: its sandboxes are gone."""
        return next((node for node, one in self._stations.items() if one.actor == actor), "")


class RemoteSandbox:
    """``ports.Sandbox`` over an actor call each."""

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
        """As ``fork_steps.in_fork``, in one call."""
        actor, parent = self._actor, self._handle
        handle, done = await self._place.open(
            actor, lambda handle: actor.in_fork(handle, parent, name, [*before, last])
        )
        del self._place.opened[handle]  # closed over there
        answer: T = done.answer
        return answer

    async def hand_over(self) -> str:
        """As ``ports.HandsOver``; the ticket begins with the node (``given_by``)."""
        if not (node := self._place.node(self._actor)):
            raise SandboxError("the process that owned the sandbox died")
        ticket: str = await self._actor.hand_over(self._handle)
        await self.close()  # the actor has forgotten it: this only counts
        return f"{node} {ticket}"

    async def close(self) -> None:
        if self._closing is None:
            self._closing = self._place.close_soon(self._actor, self._handle)
        await asyncio.shield(self._closing)


def given_by(ticket: str) -> tuple[str, str]:
    """Which node's actor gave a sandbox away, and its place's own ticket."""
    node, _, own = ticket.partition(" ")
    return node, own
