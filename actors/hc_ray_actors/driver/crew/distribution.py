"""Sends nodes what they lack for a sweep through Ray's object store: tasks, sealed parts, API keys, weights.

Each part is packed and stored once, and only if some node lacks it; a node fetches it once for all its actors, possibly
from other nodes. Sealed parts are encrypted with a key of this sweep, which each verifier receives encrypted for its
process alone."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from hc_ray.agent.budget import side_by_side
from hc_ray.domain.config import EngineConfig
from hc_ray.domain.credentials import of_stores
from hc_ray.domain.task import Task
from hc_ray.domain.waiting import Once
from hc_ray.machine import sealed_box
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.engine import model_of
from hc_ray_actors.engine_places import located
from hc_ray_actors.sandboxes import pack
from hc_ray_actors.verifiers import pack_sealed, sealed_marks

WINDOW = 4
"""The most tasks to send to an actor at once."""
PIECE = 16 << 20
"""Bytes of an engine's weights in the object store at once."""


class Deliveries:
    """Delivers the tasks of one sweep to nodes, whenever they join."""

    def __init__(
        self, cluster: Cluster, public_root: Path | str, sealed_root: Path | str, tasks: Sequence[Task]
    ) -> None:
        self._cluster = cluster
        self._public, self._sealed = Path(public_root), Path(sealed_root)
        self._digests = [task.digest for task in tasks]
        self._key = sealed_box.new_key()
        self._stored = Once[Any]()

    async def to_sandboxes(self, actor: Any) -> None:
        """Send a node's sandboxes the public tasks that it lacks. Raises ``SandboxError`` if it cannot store them."""

        async def send(digest: str) -> None:
            await actor.install(digest, await self._public_part(digest))

        await _each(await actor.missing(self._digests), send)

    async def to_verifiers(self, actor: Any) -> None:
        """Send a node's verifiers the tasks that it lacks, with their sealed parts."""
        marks = await asyncio.to_thread(sealed_marks, self._sealed, self._digests)
        if not (missing := await actor.missing(marks)):
            return
        key = sealed_box.seal(await actor.public_key(), self._key)

        async def send(digest: str) -> None:
            sealed = await self._once("sealed", digest, lambda: pack_sealed(self._sealed, digest, self._key))
            await actor.install(digest, await self._public_part(digest), sealed, key)

        await _each(missing, send)

    async def _public_part(self, digest: str) -> Any:
        return await self._once("public", digest, lambda: pack(self._public, digest))

    async def _once(self, part: str, digest: str, pack: Callable[[], bytes]) -> Any:
        """A reference to the packed part of a task; packs it on first use."""
        return await self._stored.obtain((part, digest), lambda: asyncio.to_thread(lambda: self._cluster.put(pack())))


async def _each(digests: Iterable[str], send: Callable[[str], Awaitable[None]]) -> None:
    """Send all, a few at a time; the first failure ends it."""
    window = asyncio.Semaphore(WINDOW)

    async def one(digest: str) -> None:
        async with window:
            await send(digest)

    await side_by_side([asyncio.ensure_future(one(digest)) for digest in digests])


async def give_keys(actor: Any, engines: Iterable[EngineConfig] = (), *, stores: bool = False) -> None:
    """Send an actor the API keys that the engines' configs name, from this process's environment, and with ``stores``
    also the credentials of object stores and tracking servers."""
    if names := {engine.api_key_env for engine in engines if engine.api_key_env} | set(of_stores() if stores else ()):
        await actor.take_keys(sealed_box.keys_for(await actor.public_key(), sorted(names)))


async def furnish(cluster: Cluster, actor: Any, engine: EngineConfig) -> None:
    """Before an engine's actor starts, send it its API key and, if its node lacks them, the weights, which the node
    checks by SHA-256 and keeps. Raises ``EngineError`` if it has no room, ``ModelError`` for unexpected weights."""
    await give_keys(actor, [engine])
    if engine.sha256 is None:
        return
    path = (await asyncio.to_thread(model_of, engine)).path
    if path is None or not await actor.lacks_weights(located(engine).model, engine.sha256, path.stat().st_size):
        return
    with path.open("rb") as weights:
        while piece := await asyncio.to_thread(weights.read, PIECE):
            await actor.take_piece(cluster.put(piece))
    await actor.keep_weights(engine.sha256, path.name)
