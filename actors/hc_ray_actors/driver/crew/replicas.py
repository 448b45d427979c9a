"""The engines of a sweep: one set of replicas per distinct engine, however many roles share it."""

import asyncio
import itertools
from functools import partial

from hc_ray.agent.budget import side_by_side
from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import InfrastructureError, PlatformError
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver.crew.distribution import furnish
from hc_ray_actors.driver.crew.posts import Post
from hc_ray_actors.driver.crew.roster import Roster
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.engine import Endpoint
from hc_ray_actors.engine_places import located, spawn_engine, takes_slot
from hc_ray_actors.trials import RoleSetup

WATCH_SECONDS = 10.0
"""Seconds between two checks of an engine with several replicas."""


class Replicas:
    """A post per replica; one that cannot start rests as long as there is another."""

    def __init__(self, plan: Plan, cluster: Cluster, roster: Roster) -> None:
        self._plan, self._cluster, self._roster = plan, cluster, roster
        self._posts: dict[EngineConfig, list[Post]] = {}
        self._endpoints: dict[Post, Endpoint] = {}

    async def open(self) -> None:
        """Start all engines concurrently. Raises the first replica's fault if none of an engine's replicas comes up,
        and any fault that is not a machine's, without waiting for the other engines."""
        for engine in self._plan.engines:
            self._posts[engine] = [
                Post(self._roster, f"engine {engine.label}", f"the engine {engine.label}",
                     partial(self._make, engine), partial(self._start, engine), number=number)
                for number in range(engine.replicas)
            ]  # fmt: skip
        await side_by_side([asyncio.ensure_future(self._open(posts)) for posts in self._posts.values()])

    async def _open(self, posts: list[Post]) -> None:
        told = await asyncio.gather(*(post.open() for post in posts), return_exceptions=True)
        faults = [fault for fault in told if fault is not None]
        wrong = [fault for fault in faults if not isinstance(fault, InfrastructureError)]
        if wrong or len(faults) == len(posts):
            fault = (wrong or faults)[0]
            none_free = all(post.node is None for post in posts)  # like a node without free sandbox slots
            raise PlatformError(str(fault)) if none_free else fault

    def _make(self, engine: EngineConfig, post: Post) -> object:
        """Start a replica on the node with the fewest engines of this sweep."""
        others = [(other.node, own) for own, posts in self._posts.items() for other in posts if other.actor]
        known = None if post.renewed else self._plan.seen(engine, post.number)
        post.node, actor = spawn_engine(self._cluster, located(engine, post.number), others, known)
        post.units = int(takes_slot(engine))
        return actor

    async def _start(self, engine: EngineConfig, post: Post) -> None:
        self._endpoints.pop(post, None)
        await furnish(self._cluster, post.actor, engine)
        self._endpoints[post] = await post.actor.start()

    async def watch(self) -> None:
        """Check the replicas of engines that have several: trials switch to another replica and report no failure."""
        while any(len(posts) > 1 for posts in self._posts.values()):
            await asyncio.sleep(WATCH_SECONDS)
            posts = itertools.chain.from_iterable(self._posts.values())
            await asyncio.gather(*(post.check() for post in posts), return_exceptions=True)

    def roles(self) -> dict[str, RoleSetup]:
        """How to reach each model that some config names for a role, by digest of model and profile. A replica on a
        node that will leave is included only if there is no other; it still finishes its requests."""
        found = {}
        for engine, profile, digest in self._plan.asked:
            posts = self._posts[engine]
            ready = [post for post in posts if post.state == "ready"]
            taking = [post for post in ready if not self._roster.leaves(post)] or ready
            endpoints = tuple(self._endpoints.get(post) if post in taking else None for post in posts)
            found[digest] = RoleSetup(engine=engine, endpoints=endpoints, profile=profile, digest=digest)
        return found
