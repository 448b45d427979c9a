"""The actors of one sweep: engines, sandboxes, verifiers and trials, each at a post on a node that has slots for it.
Nodes may join and leave while the sweep runs; a post that fails costs what ran there, and others do its work
meanwhile."""

import asyncio
import contextlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hc_ray.domain.candidate import Submission
from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import InfrastructureError, PlatformError
from hc_ray.domain.events import Event, PostState
from hc_ray.domain.task import Task
from hc_ray.machine import sealed_guard
from hc_ray.machine.paths import data_root
from hc_ray_actors.attempts import Fault
from hc_ray_actors.cluster import ENGINE, SANDBOX, VERIFIER, Cluster, Member
from hc_ray_actors.driver.distribution import Deliveries, furnish, give_keys
from hc_ray_actors.driver.node_images import NodeImages
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.driver.posts import FAULTS, Post
from hc_ray_actors.engine import Engine, located, room_for, takes_slot
from hc_ray_actors.node_probe import NodeReport, differs
from hc_ray_actors.remote_place import Station, given_by
from hc_ray_actors.sandboxes import Sandboxes
from hc_ray_actors.trials import RoleSetup, Trials
from hc_ray_actors.verifiers import Rules, Verifiers

WATCH_SECONDS = 1.0
"""Between two looks at who belongs to the cluster."""
ENGINE_SECONDS = 10.0
"""Between two looks at an engine's replicas, where it has several."""
TRIALS = "trials"
TAKEN = "every"
"""How a fault begins that only says whose the slots are."""
MOST_TRIALS = 8
"""Processes of trials, at most."""

T = TypeVar("T")


class Broken(Exception):
    """Something that every trial needs is gone; what is committed stays, a resume does the rest."""


class Crew:
    """Who works on a sweep. Only the driver holds it, and with it the verifiers."""

    def __init__(self, plan: Plan, cluster: Cluster, emit: Callable[[Event], None] = lambda event: None) -> None:
        self._plan, self._cluster, self._emit = plan, cluster, emit
        self._near = cluster.where in {"laptop", "in-process"}
        self._deliveries = Deliveries(cluster, plan.public_root, plan.sealed_root, plan.taken)
        self._members: dict[str, Member] = {}
        self._posts: list[Post] = []
        self._replicas: dict[EngineConfig, list[Post]] = {}
        self.trials: list[Post] = []
        """Processes of trials; none where no agent asks a model."""
        self._images = NodeImages(self._on_nodes, self._senders, self._changed)
        self._change = asyncio.Event()
        self._telling: asyncio.Task[None] | None = None
        self._untold = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lacking_since: dict[str, float] = {}
        self._broken: Broken | None = None
        self._opened = False
        self.runners: set[str] = set()
        """Digests of the runners that its nodes have."""
        self.limits: dict[str, str] = {}
        """Which limits hold in its sandboxes, and by what."""

    @property
    def renewed(self) -> int:
        """Actors that were started anew."""
        return sum(post.renewed for post in self._posts)

    def trials_of(self, task_digest: str) -> Post:
        """Who runs the trials of a task: always the same, since they share suites."""
        return self.trials[int(task_digest[:8], 16) % len(self.trials)]

    def _ready(self, kind: str) -> list[Post]:
        return [post for post in self._posts if post.kind == kind and post.state == "ready"]

    @property
    def has_verifiers(self) -> bool:
        return any(post.kind == VERIFIER for post in self._posts)

    async def verify(self, task: Task | None, work: Callable[[Any], Awaitable[T]]) -> T:
        """Have a verifier do something: the least busy of those whose node has the task's image. Without a task it
        needs no sandbox, and one that rests will do."""
        ready = self._ready(VERIFIER)
        if task is None:
            able = ready or [post for post in self._posts if post.kind == VERIFIER and post.actor is not None]
        else:
            able = [post for post in ready if not self._images.lacks(post.node, task)] or ready
        if not able:
            raise InfrastructureError(self._nobody(VERIFIER))
        answer: T = await min(able, key=lambda post: post.busy / max(1, post.units)).call(work)
        return answer

    async def verify_near(
        self, task: Task, submission: Submission, work: Callable[[Any, Submission], Awaitable[T]]
    ) -> T:
        """As ``verify``, of a submission; one that still lives goes to the verifier of its node. Raises
        ``InfrastructureError`` where that node has none."""
        if submission.living is None:
            return await self.verify(task, lambda actor: work(actor, submission))
        node, ticket = given_by(submission.living)
        known = submission.model_copy(update={"living": ticket})
        for post in self._ready(VERIFIER):
            if post.node == node:
                answer: T = await post.call(lambda actor: work(actor, known))
                return answer
        raise InfrastructureError(
            f"node {self._name(node)} has a sandbox for shared grading, but no verifier at work ({VERIFIER})"
        )

    async def open(self) -> None:
        """Bring up what trials need. Raises ``InfrastructureError`` or ``UserError`` where that cannot be had."""
        members = await asyncio.to_thread(self._cluster.members)
        for kind in (SANDBOX, VERIFIER):
            if not any(member.slots.get(kind) for member in members):
                raise InfrastructureError(f"no node of {self._cluster.where} offers {kind}")
        engines = asyncio.ensure_future(self._open_engines())
        try:
            await asyncio.gather(*(self._join(member) for member in members))
            self._not_taken()
            await self.mended(SANDBOX, VERIFIER)
            self.limits = await self._ready(SANDBOX)[0].actor.limits()
            await engines
        except BaseException:
            engines.cancel()
            await asyncio.gather(engines, return_exceptions=True)
            raise
        if self._cluster.where != "in-process":
            # From here on only the verifiers' own processes have to open what is sealed.
            sealed_guard.install(data_root() / "sealed")
        if self._plan.models:
            await self._open_trials()
        self._opened = True
        for post in sorted(self._posts, key=lambda post: post.name):  # who came up first tells nothing
            self._tell_state(post)
        if not self._near:
            self._begin(self._watch())
        if any(len(posts) > 1 for posts in self._replicas.values()):
            self._begin(self._look_after_engines())

    def _not_taken(self) -> None:
        """Raises ``PlatformError`` where somebody else has all slots of a kind: there is nothing to wait for."""
        for kind in (SANDBOX, VERIFIER):
            if all(post.why.startswith(TAKEN) for post in self._posts if post.kind == kind):
                raise PlatformError(f"{self._cluster.where}: {self._nobody(kind)}")

    def _nobody(self, kind: str) -> str:
        """Why no post of a kind is ready, for a reader."""
        posts = [post for post in self._posts if post.kind == kind and post.why]
        if len(posts) == 1:
            return posts[0].why
        told = "; ".join(dict.fromkeys(f"{self._name(post.node)}: {post.why}" for post in posts))
        return f"no node does the work of {kind} any more: {told}"

    def _name(self, node: str | None) -> str:
        return self._members[node].name if node in self._members else str(node)

    # Nodes that join and leave

    async def _watch(self) -> None:
        """Keep up with the cluster's nodes."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            with contextlib.suppress(Exception):  # the head is busy: the next look tells
                members = await asyncio.to_thread(self._cluster.members)
                for node in self._members.keys() - {member.id for member in members}:
                    self._leave(node)
                for member in members:
                    if member.id not in self._members:
                        self._begin(self._join(member))

    async def _join(self, member: Member) -> None:
        """Put up what a node has slots for; what cannot be had there rests."""
        self._members[member.id] = member
        posts = [
            self._post(kind, what, self._maker(kind, member), begin, node=member.id)
            for kind, what, begin in (
                (SANDBOX, "the sandboxes' process", self._begin_sandboxes),
                (VERIFIER, "the verifier's process", self._begin_verifier),
            )
            if member.slots.get(kind)
        ]
        faults = await asyncio.gather(*(post.open() for post in posts), return_exceptions=True)
        for fault in faults:
            if fault is not None and not isinstance(fault, FAULTS):
                raise fault
        self._images.joined(member.id)
        if not self._near:
            away = sorted(other.address for other in self._members.values())
            makers = (*self._ready(SANDBOX), *self._ready(VERIFIER))
            await asyncio.gather(*(post.actor.keep_from(away) for post in makers), return_exceptions=True)

    def _leave(self, node: str) -> None:
        del self._members[node]
        self._images.left(node)
        for post in self._posts:
            if post.node == node and post.kind in (SANDBOX, VERIFIER):
                post.leave()
            elif post.node == node:
                self._begin(post.check())

    def _on_nodes(self) -> dict[str, Any]:
        """Who makes images ready on each node that works."""
        return {post.node: post.actor for kind in (VERIFIER, SANDBOX) for post in self._ready(kind) if post.node}

    def _senders(self) -> dict[str, Any]:
        return {post.node: post.actor for post in self._ready(SANDBOX) if post.node}

    # Posts

    def _post(
        self,
        kind: str,
        what: str,
        make: Callable[[Post], Any],
        begin: Callable[[Post], Awaitable[None]],
        node: str | None = None,
    ) -> Post:
        post = Post(kind, what, make, begin, node=node, kill=self._cluster.kill, changed=self._of_post,
                    alone=self._alone)  # fmt: skip
        self._posts.append(post)
        return post

    def _alone(self, post: Post) -> bool:
        return not any(other is not post for other in self._ready(post.kind))

    def _of_post(self, post: Post) -> None:
        if self._opened:
            self._tell_state(post)
        self._changed()

    def _tell_state(self, post: Post) -> None:
        node = self._name(post.node) if post.node else ""
        self._emit(PostState(kind=post.kind, node=node, state=post.state, slots=int(post.units), why=post.why))

    def _maker(self, kind: str, member: Member) -> Callable[[Post], Any]:
        plan, config, cluster = self._plan, self._plan.config, self._cluster
        roots = (plan.public_root, plan.sealed_root) if self._near else (None, None)

        def make(post: Post) -> Any:
            wanted = (config.sandbox_slots if kind == SANDBOX else None) or member.slots[kind]
            # One that takes another's place has its slots, as soon as Ray has seen that one's end.
            post.units = post.units or int(min(wanted, cluster.free(kind).get(member.id, 0)))
            if not post.units:
                held = "; ".join(cluster.holders())
                raise InfrastructureError(f"{TAKEN} {kind} is taken{f' by {held}' if held else ''}")
            spawn = partial(cluster.spawn, node=member.id, resource=kind, units=post.units)
            if kind == SANDBOX:
                return spawn(Sandboxes, plan.sandbox, roots[0], post.units)
            rules = Rules(threshold=config.pass_threshold, expected=plan.sealed_digests)
            return spawn(Verifiers, plan.sandbox, *roots, post.units, rules)

        return make

    async def _begin_sandboxes(self, post: Post) -> None:
        await self._fit(post)
        await self._deliveries.to_sandboxes(post.actor)

    async def _begin_verifier(self, post: Post) -> None:
        await self._fit(post)
        await self._deliveries.to_verifiers(post.actor)

    async def _fit(self, post: Post) -> None:
        """Raises ``PlatformError`` where the post's node has another hc-ray, ``InfrastructureError`` where it can make
        no sandbox."""
        seen: NodeReport = await post.actor.report()
        if not self._near and (why := differs(seen)):
            raise PlatformError(why)
        if fault := await post.actor.fault():
            raise InfrastructureError(str(fault).splitlines()[0])
        self.runners.add(seen.runner)

    # Engines

    async def _open_engines(self) -> None:
        """One set of replicas for each distinct engine, whatever number of roles share it. A replica that cannot be
        had rests, as long as there is another."""
        for engine in self._plan.engines:
            self._replicas[engine] = [
                self._post(f"engine {engine.label}", f"the engine {engine.label}", self._engine_maker(engine),
                           partial(self._begin_engine, engine))
                for _ in range(engine.replicas)
            ]  # fmt: skip
        for posts in self._replicas.values():
            told = await asyncio.gather(*(post.open() for post in posts), return_exceptions=True)
            faults = [fault for fault in told if fault is not None]
            wrong = [fault for fault in faults if not isinstance(fault, InfrastructureError)]
            if wrong or len(faults) == len(posts):
                raise (wrong or faults)[0]

    def _engine_maker(self, engine: EngineConfig) -> Callable[[Post], Any]:
        """Puts a replica where the fewest engines of this sweep stand, of the nodes with a free slot."""

        def make(post: Post) -> Any:
            own = located(engine, self._replicas[engine].index(post))
            if not takes_slot(engine):
                post.node = self._cluster.here
                return self._cluster.spawn(Engine, own, node=post.node)
            free = room_for(self._cluster, engine)
            stand = Counter(other.node for other in self._posts if other.kind.startswith("engine ") and other.actor)
            post.node = min(free, key=lambda node: (stand[node], -free[node], node))
            post.units = 1
            return self._cluster.spawn(Engine, own, node=post.node, resource=ENGINE, units=1,
                                       gpus=engine.num_gpus)  # fmt: skip

        return make

    async def _look_after_engines(self) -> None:
        """What one of several replicas does not answer another one is asked: no trial tells of it."""
        while True:
            await asyncio.sleep(ENGINE_SECONDS)
            posts = itertools.chain.from_iterable(self._replicas.values())
            await asyncio.gather(*(post.check() for post in posts), return_exceptions=True)

    async def _begin_engine(self, engine: EngineConfig, post: Post) -> None:
        post.answer = None
        await furnish(self._cluster, post.actor, engine)
        post.answer = await post.actor.start()

    def roles(self) -> dict[str, RoleSetup]:
        """How each model that some config names for a role is reached now, by the digest of model and profile."""
        found = {}
        for engine, profile, digest in self._plan.asked:
            posts = self._replicas[engine]
            endpoints = tuple(post.answer if post.state == "ready" else None for post in posts)
            found[digest] = RoleSetup(engine=engine, endpoints=endpoints, profile=profile, digest=digest)
        return found

    # Trials

    async def _open_trials(self) -> None:
        """Several processes where the cores and the replicas are many: each has replicas of its own, so that no two
        count the same slots."""
        replicas = max(engine.replicas for engine in self._plan.engines)
        count = max(1, min(replicas, (os.cpu_count() or 2) // 2, MOST_TRIALS))
        # On the driver's node: there are the scripts and skills that the sweep was planned with, and what it stores.
        numbers = itertools.count()
        out = self._plan.out if "://" in self._plan.out else str(Path(self._plan.out).absolute())

        def maker(share: tuple[int, int]) -> Callable[[Post], Any]:
            def make(post: Post) -> Any:
                post.answer = f"t{next(numbers)}"
                return self._cluster.spawn(
                    Trials, post.answer, self.limits, out, share, node=self._cluster.here
                )  # fmt: skip

            return make

        self.trials = [
            self._post(
                TRIALS, "the trials' process", maker((number, count)), self._begin_trials, node=self._cluster.here
            )
            for number in range(count)
        ]
        await asyncio.gather(*(post.open() for post in self.trials))

    async def _begin_trials(self, post: Post) -> None:
        if post.renewed:  # nobody else could close what the one before left open
            names = sorted(other.answer for other in self.trials)
            await asyncio.gather(*(one.actor.clear(names) for one in self._ready(SANDBOX)), return_exceptions=True)
        await give_keys(post.actor, self._plan.engines, stores="://" in self._plan.out)
        await post.actor.arrange(self.roles(), self._stations())

    def _stations(self) -> dict[str, Station]:
        found = {}
        for post in self._ready(SANDBOX):
            found[str(post.node)] = Station(post.actor, post.units, self._images.lacking(post.node))
        return found

    def _changed(self) -> None:
        """Somebody came or went: who waits looks again, and the trials are told."""
        self._change.set()
        self._untold = True
        if self._telling is None or self._telling.done():
            self._telling = self._begin(self._tell_trials())

    async def _tell_trials(self) -> None:
        while self._untold:
            self._untold = False
            await asyncio.sleep(0)  # several changes at once are one
            for post in self.trials:
                if post.state == "ready":
                    with contextlib.suppress(InfrastructureError):  # it is dead itself, and its next will know
                        await post.actor.arrange(self.roles(), self._stations())

    def _begin(self, work: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def prepare(self, task: Task) -> None:
        """Make a task's image ready on the nodes that work; answers with the first of them. Raises what hindered them
        all."""
        await self._images.ready(task)

    def image_of(self, task: Task) -> str | None:
        """The image that a task's sandboxes are made from; None where the backend has none."""
        return self._images.id_of(task.digest)

    # What fails

    async def mend(self, fault: Fault | None = None) -> None:
        """See to what failed: the post that the fault names, else all. Raises ``Broken`` where nobody is left for some
        kind of work, and nobody comes back in time: no further trial can succeed, and the sweep stops rather than mark
        them all unscored."""
        if self._broken is None:
            named = [post for post in self._posts if fault is not None and fault.where == post.name]
            looks = [post.suspect(fault.text) for post in named] if fault and named else []
            looks = looks or [post.check() for post in self._posts]
            await asyncio.gather(*looks)
            if self._telling is not None:
                await asyncio.shield(self._telling)
        await self.mended()

    async def mended(self, *kinds: str) -> None:
        """Wait until somebody is there for every kind of work, or for these: nothing begins during an outage. Raises
        ``Broken``."""
        patience = self._plan.config.retries.outage_sec
        while doubtful := self._in_doubt():
            await asyncio.wait(doubtful, return_when=asyncio.FIRST_COMPLETED)
        while self._broken is None and (lacking := self._lacking(kinds)):
            since = self._lacking_since.setdefault(lacking, time.monotonic())
            left = since + patience - time.monotonic()
            posts = [post for post in self._posts if post.kind == lacking]
            lost = self._near and all(post.state == "spent" for post in posts)
            if lost or left <= 0:
                self._broken = Broken(self._nobody(lacking) + ("" if lost else f" (waited {patience:g} s)"))
                break
            self._change.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._change.wait()
        if self._broken is not None:
            raise Broken(str(self._broken))
        self._lacking_since.clear()

    def _in_doubt(self) -> "list[asyncio.Task[None]]":
        """The looks at a kind of posts of which each that seems ready is being looked at."""
        for kind in dict.fromkeys(post.kind for post in self._posts):
            looks = [post.looked_at for post in self._ready(kind)]
            if looks and all(looks):
                return [look for look in looks if look is not None]
        return []

    def _lacking(self, kinds: Sequence[str]) -> str | None:
        """A kind of post, of these or of all, of which none is ready."""
        known = dict.fromkeys(post.kind for post in self._posts if post.state != "starting")
        return next((kind for kind in kinds or known if not self._ready(kind)), None)

    async def close_trials(self) -> None:
        """Cancel every trial, and the looks that they wait for; their last events can still be asked for."""
        await asyncio.gather(self._images.close(), *(post.close() for post in self._posts))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for post in self.trials:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(post.actor.stop(), 15)

    async def close(self) -> None:
        """End everything that was started."""
        actors = [(post.kind, post.actor) for post in self._posts if post.actor is not None]
        closing = [actor.stop() for kind, actor in actors if kind.startswith("engine ")]
        closing += [actor.close_all() for kind, actor in actors if kind in (SANDBOX, VERIFIER)]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), 20)
