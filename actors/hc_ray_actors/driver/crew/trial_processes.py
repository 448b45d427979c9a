"""The processes in which a sweep's trials run, and what they are told of engines and nodes."""

import asyncio
import contextlib
import itertools
import os
from functools import partial

from hc_ray.domain.errors import InfrastructureError
from hc_ray_actors.cluster import SANDBOX, Cluster
from hc_ray_actors.driver.crew.distribution import give_keys
from hc_ray_actors.driver.crew.images import Images
from hc_ray_actors.driver.crew.posts import Post
from hc_ray_actors.driver.crew.replicas import Replicas
from hc_ray_actors.driver.crew.roster import Roster
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.driver.results import absolute
from hc_ray_actors.remote_place import Station
from hc_ray_actors.trials import Trials

KIND = "trials"
MOST = 8
"""Processes of trials, at most."""


class TrialProcesses:
    """Several where the cores and the replicas are many: each has replicas of its own, so that no two count the same
    slots. None where no agent asks a model."""

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        roster: Roster,
        replicas: Replicas,
        images: Images,
    ) -> None:
        self._plan, self._cluster, self._roster = plan, cluster, roster
        self._replicas, self._images = replicas, images
        self.posts: list[Post] = []
        self._numbers = itertools.count()
        self._names: dict[Post, str] = {}
        """How the handles of its sandboxes begin; one that takes another's place has a name of its own."""
        self._telling: asyncio.Future[None] | None = None
        self._untold = False

    def of(self, task_digest: str) -> Post:
        """Who runs the trials of a task: always the same, since they share suites."""
        return self.posts[int(task_digest[:8], 16) % len(self.posts)]

    async def open(self) -> None:
        replicas = max(engine.replicas for engine in self._plan.engines)
        count = max(1, min(replicas, (os.cpu_count() or 2) // 2, MOST))
        # On the driver's node: there are the scripts and skills that the sweep was planned with, and what it stores.
        self.posts = [
            Post(self._roster, KIND, "the trials' process", partial(self._make, count), self._begin,
                 node=self._cluster.here, number=number, stops=True)
            for number in range(count)
        ]  # fmt: skip
        await asyncio.gather(*(post.open() for post in self.posts))

    def _make(self, count: int, post: Post) -> object:
        name = self._names[post] = f"t{next(self._numbers)}"
        return self._cluster.spawn(Trials, name, absolute(self._plan.out), (post.number, count), node=post.node)

    async def _begin(self, post: Post) -> None:
        if post.renewed:  # nobody else could close what the one before left open
            names = sorted(self._names.values())
            stations = self._roster.ready(SANDBOX)
            await asyncio.gather(*(one.actor.clear(names) for one in stations), return_exceptions=True)
        await give_keys(post.actor, self._plan.engines, stores="://" in self._plan.out)
        await post.actor.arrange(self._replicas.roles(), self._stations())

    def _stations(self) -> dict[str, Station]:
        sound = self._roster.sound(SANDBOX)
        return {
            str(post.node): Station(post.actor, post.units, self._images.lacking(post.node), post not in sound)
            for post in self._roster.ready(SANDBOX)
        }

    def tell(self) -> None:
        """Something has changed: have the trials told of it."""
        self._untold = True
        if self._telling is None or self._telling.done():
            self._telling = self._roster.begin(self._tell())

    async def _tell(self) -> None:
        while self._untold:
            self._untold = False
            await asyncio.sleep(0)  # several changes at once are one
            for post in self.posts:
                if post.state == "ready":
                    with contextlib.suppress(InfrastructureError):  # it is dead itself, and its next will know
                        await post.actor.arrange(self._replicas.roles(), self._stations())

    async def told(self) -> None:
        """Wait until the trials know of every change so far."""
        if self._telling is not None:
            await asyncio.shield(self._telling)

    async def stop(self) -> None:
        """Cancel every trial; their last events can still be asked for."""
        for post in self.posts:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(post.actor.stop(), 15)
