"""What nodes lack of a sweep, sent through Ray's object store: tasks, sealed parts, API keys, weights.

Each part is packed and stored once, whatever number of nodes gets it, and only if one lacks it; a node fetches it once
for all of its actors, and from other nodes that have it. What is sealed is stored under a key of this sweep; each
verifier is sent that key, sealed for its process alone."""

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
"""Tasks that an actor is sent at once."""
PIECE = 16 << 20
"""Bytes of weights that stand in the object store at once for one engine."""


class Deliveries:
    """The tasks of one sweep, as nodes are sent them, at any time of it."""

    def __init__(
        self, cluster: Cluster, public_root: Path | str, sealed_root: Path | str, tasks: Sequence[Task]
    ) -> None:
        self._cluster = cluster
        self._public, self._sealed = Path(public_root), Path(sealed_root)
        self._digests = [task.digest for task in tasks]
        self._key = sealed_box.new_key()
        self._stored = Once[Any]()

    async def to_sandboxes(self, actor: Any) -> None:
        """Give a node's sandboxes the public tasks that it lacks. Raises ``SandboxError`` where it cannot keep them."""

        async def send(digest: str) -> None:
            await actor.install(digest, await self._public_part(digest))

        await _each(await actor.missing(self._digests), send)

    async def to_verifiers(self, actor: Any) -> None:
        """The same for a node's verifiers, with the sealed parts."""
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
        """A reference to what ``pack`` made of the task."""
        return await self._stored.obtain((part, digest), lambda: asyncio.to_thread(lambda: self._cluster.put(pack())))


async def _each(digests: Iterable[str], send: Callable[[str], Awaitable[None]]) -> None:
    """Send all, a few at once; the first failure ends it."""
    window = asyncio.Semaphore(WINDOW)

    async def one(digest: str) -> None:
        async with window:
            await send(digest)

    await side_by_side([asyncio.ensure_future(one(digest)) for digest in digests])


async def give_keys(actor: Any, engines: Iterable[EngineConfig] = (), *, stores: bool = False) -> None:
    """Send an actor what this process's environment says of the API keys that engines' configs name, and of object
    stores and tracking servers where it uses any."""
    if names := {engine.api_key_env for engine in engines if engine.api_key_env} | set(of_stores() if stores else ()):
        await actor.take_keys(sealed_box.keys_for(await actor.public_key(), sorted(names)))


async def furnish(cluster: Cluster, actor: Any, engine: EngineConfig) -> None:
    """Before an engine's actor starts: send it its API key, and the weights that its node lacks, which that node checks
    by their SHA-256 and keeps. Raises ``EngineError`` where it has no room, ``ModelError`` for others than planned."""
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
