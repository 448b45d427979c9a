"""The processes in which a sweep's trials run, and what they are told of engines and nodes."""

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
"""Processes of trials, at most."""
AWAY_SECONDS = 0.5
"""Between two attempts to hear a process that has died: another takes its place."""
CLOSING_SECONDS = 10.0
"""How long a process that was stopped is waited for, for its last events."""


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
        emit: Callable[[Event], None],
    ) -> None:
        self._plan, self._cluster, self._roster = plan, cluster, roster
        self._replicas, self._images, self._emit = replicas, images, emit
        self.posts: list[Post] = []
        self._waiting: dict[str, tuple[Post, Any, asyncio.Future[Step]]] = {}
        """Trial → where it runs, the actor there, and its next step, which somebody waits for."""
        self._listening: list[asyncio.Task[None]] = []
        self._closing = False
        self._numbers = itertools.count()
        self._names: dict[Post, str] = {}
        """How the handles of its sandboxes begin; one that takes another's place has a name of its own."""
        self._telling: asyncio.Future[None] | None = None
        self._untold = False

    async def step(self, key: TrialKey, begin: Callable[[Any], Awaitable[None]]) -> Step:
        """What a trial comes to next once ``begin`` has made its process go on with it. Always the same process runs
        the trials of a task, since they share suites. Raises ``ActorError`` where it dies."""
        post = self.posts[int(key.task_digest[:8], 16) % len(self.posts)]
        while (look := post.looked_at) is not None:
            await asyncio.wait([look])  # another may stand there by now, and know of no engine and no node yet
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
            self._lose(post, ActorError(f"{post.what} died"), but=actor)  # one that came and went unheard
            try:
                for told in await post.heard(lambda actor: actor.told()):
                    self._hear(told)
            except Exception as fault:
                self._lose(post, fault, but=None if post.actor is actor else post.actor)
                await asyncio.sleep(AWAY_SECONDS)

    def _lose(self, post: Post, fault: Exception, *, but: Any) -> None:
        """The actors that stood at a post, all ``but`` one, tell nothing more."""
        for where, runs, step in self._waiting.values():
            if where is post and runs is not but and not step.done():
                step.set_exception(fault)
                step.exception()  # asked for: who is still about to begin raises what that meets

    def _hear(self, told: Event | Step) -> None:
        if not isinstance(told, Step):
            self._emit(told)
        elif (waits := self._waiting.get(told.trial)) and not waits[2].done():
            waits[2].set_result(told)

    async def open(self) -> None:
        replicas = max(engine.replicas for engine in self._plan.engines)
        count = max(1, min(replicas, (os.cpu_count() or 2) // 2, MOST))
        # On the driver's node: there are the scripts and skills that the sweep was planned with, and what it stores.
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
        """Cancel every trial, and hear their last events."""
        self._closing = True
        for post in self.posts:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(post.actor.stop(), 15)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):  # a call under way has taken events already
                await asyncio.gather(*self._listening, return_exceptions=True)
        for post in self.posts:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSING_SECONDS):
                    while last := await post.call(lambda actor: actor.told(0)):
                        for told in last:
                            self._hear(told)
