"""The processes that run a sweep's trials, and keep up to date on engines and nodes."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from hc_ray.domain.errors import ActorError, InfrastructureError
from hc_ray.domain.events import Event
from hc_ray.domain.trial import TrialKey
from hc_ray_actors.cluster import SANDBOX, Cluster
from hc_ray_actors.driver.crew.distribution import give_keys
from hc_ray_actors.driver.crew.images import Images
from hc_ray_actors.driver.crew.posts import Post
from hc_ray_actors.driver.crew.replicas import Replicas
from hc_ray_actors.driver.crew.roster import Roster
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.driver.results import absolute
from hc_ray_actors.remote_place import Station
from hc_ray_actors.trials import Step, Trials

KIND = "trials"
MOST = 8
"""The most trial processes."""
AWAY_SECONDS = 0.5
"""Seconds between two attempts to reach a dead process, until another takes its place."""
CLOSING_SECONDS = 10.0
"""Seconds to wait for the last events of a stopped process."""


class TrialProcesses:
    """Several if there are many cores and replicas: each has its own replicas, so that no two count the same slots.
    Zero if no agent uses a model."""

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        roster: Roster,
        replicas: Replicas,
        images: Images,
        emit: Callable[[Event], None],
    ) -> None:
        self._plan, self._cluster, self._roster = plan, cluster, roster
        self._replicas, self._images, self._emit = replicas, images, emit
        self.posts: list[Post] = []
        self._waiting: dict[str, tuple[Post, Any, asyncio.Future[Step]]] = {}
        """Trial → its post, the actor there, and the next step, which somebody awaits."""
        self._listening: list[asyncio.Task[None]] = []
        self._closing = False
        self._numbers = itertools.count()
        self._names: dict[Post, str] = {}
        """Prefix of a process's sandbox handles; a replacement has another one."""
        self._telling: asyncio.Future[None] | None = None
        self._untold = False

    async def step(self, key: TrialKey, begin: Callable[[Any], Awaitable[None]]) -> Step:
        """The next step of a trial after ``begin`` has started or resumed it. A task's trials always run in the same
        process, since they share suites. Raises ``ActorError`` if it dies."""
        post = self.posts[int(key.task_digest[:8], 16) % len(self.posts)]
        while (look := post.looked_at) is not None:
            await asyncio.wait([look])  # a replacement may not yet know any engine or node
        step: asyncio.Future[Step] = asyncio.get_running_loop().create_future()
        self._waiting[key.name] = post, post.actor, step
        try:
            await post.call(begin)
            return await step
        finally:
            self._waiting.pop(key.name, None)

    async def _listen(self, post: Post) -> None:
        while not self._closing:
            actor = post.actor
            self._lose(post, ActorError(f"{post.what} died"), but=actor)  # predecessors that died unnoticed
            try:
                for told in await post.heard(lambda actor: actor.told()):
                    self._hear(told)
            except Exception as fault:
                self._lose(post, fault, but=None if post.actor is actor else post.actor)
                await asyncio.sleep(AWAY_SECONDS)

    def _lose(self, post: Post, fault: Exception, *, but: Any) -> None:
        """Fail the pending steps of a post's former actors, all ``but`` one."""
        for where, runs, step in self._waiting.values():
            if where is post and runs is not but and not step.done():
                step.set_exception(fault)
                step.exception()  # mark it as retrieved: a caller still in ``begin`` raises its own failure

    def _hear(self, told: Event | Step) -> None:
        if not isinstance(told, Step):
            self._emit(told)
        elif (waits := self._waiting.get(told.trial)) and not waits[2].done():
            waits[2].set_result(told)

    async def open(self) -> None:
        replicas = max(engine.replicas for engine in self._plan.engines)
        count = max(1, min(replicas, (os.cpu_count() or 2) // 2, MOST))
        # On the driver's node, which has the scripts and skills of the plan, and the sweep directory.
        self.posts = [
            Post(self._roster, KIND, "the trials' process", partial(self._make, count), self._begin,
                 node=self._cluster.here, number=number)
            for number in range(count)
        ]  # fmt: skip
        await asyncio.gather(*(post.open() for post in self.posts))
        self._listening = [asyncio.ensure_future(self._listen(post)) for post in self.posts]

    def _make(self, count: int, post: Post) -> object:
        name = self._names[post] = f"t{next(self._numbers)}"
        return self._cluster.spawn(Trials, name, absolute(self._plan.out), (post.number, count), node=post.node)

    async def _begin(self, post: Post) -> None:
        if post.renewed:  # close what its predecessor left open
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
        """Inform the trials of a change, in the background."""
        self._untold = True
        if self._telling is None or self._telling.done():
            self._telling = self._roster.begin(self._tell())

    async def _tell(self) -> None:
        while self._untold:
            self._untold = False
            await asyncio.sleep(0)  # coalesce simultaneous changes
            for post in self.posts:
                if post.state == "ready":
                    with contextlib.suppress(InfrastructureError):  # the process is dead; its replacement will know
                        await post.actor.arrange(self._replicas.roles(), self._stations())

    async def told(self) -> None:
        """Wait until the trials know every change so far."""
        if self._telling is not None:
            await asyncio.shield(self._telling)

    async def stop(self) -> None:
        """Cancel every trial, and collect their last events."""
        self._closing = True
        for post in self.posts:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(post.actor.stop(), 15)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):  # a pending call may already hold events
                await asyncio.gather(*self._listening, return_exceptions=True)
        for post in self.posts:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSING_SECONDS):
                    while last := await post.call(lambda actor: actor.told(0)):
                        for told in last:
                            self._hear(told)
