"""One image per task of a sweep, the same on every node: prepared when the task's first trial begins, built or pulled
on one node and sent to the others. Nodes send images to each other; nothing passes through the driver. A node that
cannot get an image is left out for that task only."""

import asyncio
from collections import Counter, defaultdict
from typing import Any

from hc_ray.domain.errors import ActorError, HcRayError, InfrastructureError, SandboxError
from hc_ray.domain.task import Task
from hc_ray_actors.cluster import SANDBOX, VERIFIER
from hc_ray_actors.driver.crew.roster import Roster


class Images:
    """Tracks each task's image, and the nodes that have it."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._wanted: dict[str, Task] = {}
        self._has: defaultdict[str, set[str]] = defaultdict(set)
        """Node → digests of the tasks that can run on it."""
        self._images: dict[str, Any] = {}
        self._holders: defaultdict[str, set[str]] = defaultdict(set)
        """Task → nodes that hold its image and could send it."""
        self._choosing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._sending: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._asked: Counter[str] = Counter()
        self._unmade: defaultdict[str, dict[str, HcRayError]] = defaultdict(dict)
        """Task → nodes that failed to make its image, while somebody waits for it."""
        self._jobs: dict[tuple[str, str], asyncio.Future[str]] = {}

    def _nodes(self) -> dict[str, Any]:
        """Node → the actor that makes its sandboxes."""
        return self._roster.by_node(VERIFIER, SANDBOX)

    def _sources(self) -> dict[str, Any]:
        """Node → the actor that may send images. Other nodes get these handles, so none is a verifier's."""
        return self._roster.by_node(SANDBOX)

    def id_of(self, task_digest: str) -> str | None:
        """The id of a task's image; None if the backend has no images."""
        return self._images[task_digest].id if self._images.get(task_digest) else None

    def lacks(self, node: str | None, task: Task) -> bool:
        return task.digest in self._wanted and task.digest not in self._has.get(node or "", set())

    def lacking(self, node: str | None) -> frozenset[str]:
        """Digests of the started tasks that cannot run on a node (yet)."""
        return frozenset(self._wanted.keys() - self._has.get(node or "", set()))

    def joined(self, node: str) -> None:
        """Send a new node the images that trials use."""
        for task in self._wanted.values():
            self.begin(task, node)

    def left(self, node: str) -> None:
        """Forget a node that has left, or whose daemon was replaced."""
        self._has.pop(node, None)
        for holders in self._holders.values():
            holders.discard(node)

    async def ready(self, task: Task) -> None:
        """Wait until some node for candidates has a task's image, while the others get it in the background. Raises if
        all fail."""
        self._wanted.setdefault(task.digest, task)
        if not (nodes := list(self._nodes())):
            raise InfrastructureError(f"no node is available for the image of {task.name}")
        able = list(self._sources()) or nodes
        if any(not self.lacks(node, task) for node in able):
            return
        jobs = {node: self.begin(task, node) for node in nodes}
        making = {jobs[node] for node in able}
        fault: BaseException | None = None
        while making:
            done, making = await asyncio.wait(making, return_when=asyncio.FIRST_COMPLETED)
            faults = [made.exception() for made in done if not made.cancelled()]
            if not all(faults):
                return
            fault = fault or next(iter(faults), None)
        raise fault or InfrastructureError(f"no node could prepare the image of {task.name}")

    def begin(self, task: Task, node: str) -> "asyncio.Future[str]":
        """Begin to get the task's image onto a node; the result is its id, empty if the backend has no images.
        Concurrent calls share the work. After a failure, the next call tries again."""
        name = (task.digest, node)
        if name not in self._jobs:
            if not any(digest == task.digest for digest, _ in self._jobs):
                self._unmade.pop(task.digest, None)
            self._jobs[name] = self._roster.begin(self._ready(task, node))
            self._jobs[name].add_done_callback(lambda done: self._jobs.pop(name, None) and None)
        return self._jobs[name]

    async def _ready(self, task: Task, node: str) -> str:
        image = await self._have(task, node)
        self._has[node].add(task.digest)
        self._roster.changed()
        return image

    async def _have(self, task: Task, node: str) -> str:
        holders, actor = self._holders[task.digest], self._actor(node)
        async with self._choosing[task.digest]:
            if not holders & self._sources().keys():
                await self._choose(task, node)
        if (image := self._images[task.digest]) is None:
            await actor.prepare(task)
            return ""
        if node not in holders:
            found = await actor.image(task)
            if found is None or found.id != image.id:
                await self._send(task, node)
            holders.add(node)
        return str(image.id)

    def _actor(self, node: str) -> Any:
        if (actor := self._nodes().get(node)) is None:
            raise SandboxError(f"node {node} has left")
        return actor

    async def _choose(self, task: Task, node: str) -> None:
        """Choose an image that some node has, preferring this node among those that can send; otherwise make it
        here."""
        sources = self._sources()
        order = sorted(sources, key=lambda one: (one != node, one))
        told = await asyncio.gather(*(sources[one].image(task) for one in order), return_exceptions=True)
        found: dict[str, Any] = {
            one: image for one, image in zip(order, told, strict=True) if image and not isinstance(image, BaseException)
        }
        if not found:
            found = await self._make(task, order or [node])
        image = self._images[task.digest] = next(iter(found.values()))
        self._holders[task.digest].clear()
        self._holders[task.digest].update(one for one, other in found.items() if image and other.id == image.id)

    async def _make(self, task: Task, order: list[str]) -> dict[str, Any]:
        """Make the image on the first node that can. If none can, raises the first failure."""
        unmade = self._unmade[task.digest]
        for maker in order:
            if maker not in unmade:
                try:
                    await self._actor(maker).prepare(task)
                    return {maker: await self._actor(maker).image(task)}
                except HcRayError as fault:
                    unmade[maker] = fault
        raise next(iter(unmade.values()))

    async def _send(self, task: Task, node: str) -> None:
        """Send the image from the least busy node; a node sends one image at a time."""
        holders = self._holders[task.digest]
        while able := sorted(holders & self._sources().keys() - {node}, key=lambda one: (self._asked[one], one)):
            source = able[0]
            self._asked[source] += 1
            try:
                async with self._sending[source]:
                    sender = self._sources()[source]
                    await self._actor(node).take_image(task, self._images[task.digest], sender)
                    return
            except (ActorError, KeyError):
                if not await _lives(self._nodes().get(node)):
                    raise
                holders.discard(source)  # the sender died
            finally:
                self._asked[source] -= 1
        raise SandboxError(f"no remaining node can send the image of {task.name}")


async def _lives(actor: Any) -> bool:
    try:
        return actor is not None and bool(await actor.alive())
    except HcRayError:
        return False
