"""Which nodes have the images of which tasks. A task's image is made ready where its trials may run once the first of
them begins; a node that cannot have it is left out for that task alone."""

import asyncio
from collections.abc import Callable
from typing import Any

from hc_ray.domain.errors import InfrastructureError
from hc_ray.domain.task import Task
from hc_ray_actors.driver.crew.images import Images


class NodeImages:
    """The images of a sweep's tasks, by node."""

    def __init__(
        self,
        nodes: Callable[[], dict[str, Any]],
        sources: Callable[[], dict[str, Any]],
        changed: Callable[[], None],
    ) -> None:
        """``nodes`` and ``sources`` as for ``Images``; ``changed`` is called when an image has become ready on a
        node."""
        self._nodes, self._changed = nodes, changed
        self._images = Images(nodes, sources)
        self._wanted: dict[str, Task] = {}
        self._has: dict[str, set[str]] = {}
        self._making: dict[tuple[str, str], asyncio.Task[None]] = {}
        self.id_of = self._images.id_of

    def lacks(self, node: str | None, task: Task) -> bool:
        return task.digest in self._wanted and task.digest not in self._has.get(node or "", set())

    def lacking(self, node: str | None) -> frozenset[str]:
        """Digests of the tasks that have begun and cannot run on a node (yet)."""
        return frozenset(self._wanted.keys() - self._has.get(node or "", set()))

    def joined(self, node: str) -> None:
        """A node has come: it is given what trials use."""
        for task in self._wanted.values():
            self._make(node, task)

    def left(self, node: str) -> None:
        """It has left, or its daemon is another."""
        self._has.pop(node, None)
        self._images.left(node)

    async def ready(self, task: Task) -> None:
        """Have a task's image on some node, and begin to have it on the others. Raises what hindered them all."""
        self._wanted.setdefault(task.digest, task)
        if not (nodes := list(self._nodes())):
            raise InfrastructureError(f"no node is there for the image of {task.name}")
        if any(not self.lacks(node, task) for node in nodes):
            return
        making = {self._make(node, task) for node in nodes}
        fault: BaseException | None = None
        while making:
            done, making = await asyncio.wait(making, return_when=asyncio.FIRST_COMPLETED)
            faults = [made.exception() for made in done if not made.cancelled()]
            if not all(faults):
                return
            fault = fault or next(iter(faults), None)
        raise fault or InfrastructureError(f"the image of {task.name} was not made")

    def _make(self, node: str, task: Task) -> "asyncio.Task[None]":
        name = (node, task.digest)
        if name not in self._making:
            made = self._making[name] = asyncio.ensure_future(self._made(node, task))
            made.add_done_callback(lambda done: self._making.pop(name, None) and None)
            made.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._making[name]

    async def _made(self, node: str, task: Task) -> None:
        await self._images.ready(task, node)
        self._has.setdefault(node, set()).add(task.digest)
        self._changed()

    async def close(self) -> None:
        """End what nobody waits for any more."""
        for made in (left := list(self._making.values())):
            made.cancel()
        await asyncio.gather(self._images.close(), *left, return_exceptions=True)
