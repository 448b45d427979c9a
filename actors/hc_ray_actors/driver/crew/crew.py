"""The crew of a sweep: engines, sandboxes, verifiers and trials, each at a post on a node that has slots for it. Nodes
may join and leave while the sweep runs; a failed post loses only what ran there, and others take over its work."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from hc_ray.agent.budget import side_by_side
from hc_ray.domain.candidate import Submission
from hc_ray.domain.errors import InfrastructureError, PlatformError
from hc_ray.domain.events import Event, SlotUse
from hc_ray.domain.task import Task
from hc_ray.domain.waiting import apart, result_of
from hc_ray.machine import sealed_guard
from hc_ray.machine.paths import data_root
from hc_ray_actors.attempts import Fault
from hc_ray_actors.cluster import ENGINE, FREE_SECONDS, REMEDY, SANDBOX, VERIFIER, Cluster, Member, wait_until_free
from hc_ray_actors.driver.crew.distribution import Deliveries
from hc_ray_actors.driver.crew.images import Images
from hc_ray_actors.driver.crew.posts import FAULTS, Post
from hc_ray_actors.driver.crew.replicas import Replicas
from hc_ray_actors.driver.crew.roster import Roster
from hc_ray_actors.driver.crew.trial_processes import TrialProcesses
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.node_probe import NodeReport, differs
from hc_ray_actors.remote_place import given_by
from hc_ray_actors.sandboxes import Sandboxes
from hc_ray_actors.verifiers import Verifiers

WATCH_SECONDS = 1.0
"""Seconds between two checks of the cluster's nodes."""
ACCOUNT_SECONDS = 10.0
"""Seconds between two accounts of the nodes' slots."""
TAKEN = "every"
"""Prefix of a fault which only means that all slots are taken."""

T = TypeVar("T")


class Crew:
    """The actors of a sweep. Only the driver holds it, and with it the verifiers."""

    def __init__(self, plan: Plan, cluster: Cluster, emit: Callable[[Event], None] = lambda event: None) -> None:
        self._plan, self._cluster, self._emit = plan, cluster, emit
        self._near = cluster.where in {"laptop", "in-process"}
        self._deliveries = Deliveries(cluster, plan.public_root, plan.sealed_root, plan.taken)
        self._members: dict[str, Member] = {}
        self._machines: dict[tuple[str, str], str] = {}
        """Host name and address → display name: host names repeat, and two machines must not look like one."""
        patience = plan.config.retries.outage_sec
        self._roster = Roster(cluster, emit, lambda: self._trials.tell(), patience=patience, near=self._near)
        self._images = Images(self._roster)
        self._replicas = Replicas(plan, cluster, self._roster)
        self._trials = TrialProcesses(plan, cluster, self._roster, self._replicas, self._images, emit)
        self.roles, self.step = self._replicas.roles, self._trials.step
        self.prepare, self.image_of = self._images.ready, self._images.id_of
        self.processes: set[int] = set()
        """Process ids of its actors on the driver's node."""
        self.runners: set[str] = set()
        """Digests of its nodes' runners."""
        self.limits: dict[str, str] = {}
        """Limit → what enforces it in the sandboxes."""

    @property
    def renewed(self) -> int:
        """Number of restarted actors."""
        return sum(post.renewed for post in self._roster.posts)

    @property
    def has_verifiers(self) -> bool:
        return bool(self._roster.of(VERIFIER))

    async def verify(self, task: Task | None, work: Callable[[Any], Awaitable[T]]) -> T:
        """Run ``work`` on the least busy verifier whose node has the task's image. Without a task no sandbox is needed,
        and a resting verifier will do."""
        ready = self._roster.sound(VERIFIER)
        if task is None:
            able = ready or [post for post in self._roster.of(VERIFIER) if post.actor is not None]
        else:
            able = [post for post in ready if not self._images.lacks(post.node, task)] or ready
        if not able:
            raise InfrastructureError(self._roster.nobody(VERIFIER))
        return await min(able, key=lambda post: post.busy / max(1, post.units)).call(work)

    async def verify_near(
        self, task: Task, submission: Submission | None, work: Callable[[Any, Submission | None], Awaitable[T]]
    ) -> T:
        """Like ``verify``, for a submission; a live sandbox goes to the verifier of its own node. Raises
        ``InfrastructureError`` if that node has none."""
        if submission is None or submission.living is None:
            return await self.verify(task, lambda actor: work(actor, submission))
        node, ticket = given_by(submission.living)
        known = submission.model_copy(update={"living": ticket})
        for post in self._roster.ready(VERIFIER):
            if post.node == node:
                return await post.call(lambda actor: work(actor, known))
        raise InfrastructureError(
            f"node {self._roster.name(node)} has a sandbox for shared grading, but no working verifier ({VERIFIER})"
        )

    async def open(self) -> None:
        """Start what trials need. Raises ``InfrastructureError`` or ``UserError`` if that fails."""
        members = await self._asked(self._cluster.members)
        # Do not wait for nodes that were sick when the sweep was planned: the watch sets up their posts.
        sick = {node.id for node in self._plan.nodes if node.left_out}
        well = [member for member in members if member.id not in sick]
        for kind in (SANDBOX, VERIFIER):
            if not any(member.slots.get(kind) for member in members):
                raise PlatformError(f"no node of {self._cluster.where} offers {kind}; {REMEDY}")
            if not any(member.slots.get(kind) for member in well):
                well = members
        await side_by_side([asyncio.ensure_future(self._replicas.open()), asyncio.ensure_future(self._settle(well))])
        if self._cluster.where != "in-process":
            # From here on, only the verifiers' processes need to open sealed files.
            sealed_guard.install(data_root() / "sealed")
        if self._plan.models:
            await self._trials.open()
        self._roster.open()
        self._roster.begin(self._replicas.watch())
        self._roster.begin(self._account())
        if not self._near:
            self._roster.begin(self._watch())

    async def _settle(self, members: Sequence[Member]) -> None:
        """Start sandboxes and verifiers. Raises ``PlatformError`` if others hold all slots of a kind, since waiting
        would not help."""
        await asyncio.gather(*(self._join(member) for member in members))
        for kind in (SANDBOX, VERIFIER):
            if all(post.why.startswith(TAKEN) for post in self._roster.of(kind)):
                raise PlatformError(f"{self._cluster.where}: {self._roster.nobody(kind)}")
        await self._roster.mended(SANDBOX, VERIFIER)
        self.limits = await self._roster.ready(SANDBOX)[0].actor.limits()

    async def _account(self) -> None:
        """Report the use of the nodes' slots."""

        async def told(post: Post) -> None:
            try:
                async with asyncio.timeout(ACCOUNT_SECONDS / 2):
                    used = await post.actor.use()
            except Exception:  # it is dead or unreachable; a trial will find out
                return
            self._emit(SlotUse(kind=post.kind, node=self._roster.name(post.node), **used))

        while True:
            with contextlib.suppress(Exception):  # the head is busy: the next look tells
                self.processes = await self._asked(self._cluster.processes)
            await asyncio.sleep(ACCOUNT_SECONDS)
            await asyncio.gather(*map(told, self._roster.ready(SANDBOX, VERIFIER)))

    async def _asked(self, question: Callable[[], T]) -> T:
        """Ask the cluster in a thread. A hung head may never answer: at the end it gets a few seconds, since Ray must
        not be closed during the call."""
        answer = apart(question)
        try:
            return await result_of(answer)
        finally:
            await asyncio.wait([answer], timeout=FREE_SECONDS)

    # Nodes that join and leave

    async def _watch(self) -> None:
        """Follow the nodes that join and leave."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            with contextlib.suppress(Exception):  # the head is busy: the next look tells
                members = await self._asked(self._cluster.members)
                for node in self._members.keys() - {member.id for member in members}:
                    self._leave(node)
                for member in members:
                    if member.id not in self._members and not member.draining:
                        self._roster.begin(self._join(member))
                draining = {member.id for member in members if member.draining}
                if draining != self._roster.draining:
                    self._roster.draining = draining
                    self._roster.changed()

    async def _join(self, member: Member) -> None:
        """Set up a post for each of a node's slots; a post that cannot start rests."""
        self._members[member.id] = member
        name = f"{member.name} ({member.address})" if member.name in self._machines.values() else member.name
        self._roster.names[member.id] = self._machines.setdefault((member.name, member.address), name)
        posts = [
            Post(self._roster, kind, what, partial(self._make, member), self._begin, node=member.id)
            for kind, what in ((SANDBOX, "the sandboxes' process"), (VERIFIER, "the verifier's process"))
            if member.slots.get(kind)
        ]
        faults = await asyncio.gather(*(post.open() for post in posts), return_exceptions=True)
        for fault in faults:
            if fault is not None and not isinstance(fault, FAULTS):
                raise fault
        self._images.joined(member.id)
        if not self._near:
            away = self._addresses()
            makers = self._roster.ready(SANDBOX, VERIFIER)
            await asyncio.gather(*(post.actor.keep_from(away) for post in makers), return_exceptions=True)

    def _leave(self, node: str) -> None:
        del self._members[node]
        self._images.left(node)
        for post in self._roster.posts:
            if post.node == node and post.kind in (SANDBOX, VERIFIER):
                post.leave()
            elif post.node == node:
                self._roster.begin(post.check())

    def _make(self, member: Member, post: Post) -> Any:
        plan, config, cluster, kind = self._plan, self._plan.config, self._cluster, post.kind
        roots = (plan.public_root, plan.sealed_root) if self._near else (None, None)
        wanted = (config.sandbox_slots if kind == SANDBOX else None) or member.slots[kind]
        # A replacement gets its predecessor's slots as soon as Ray has noticed its end.
        post.units = post.units or int(min(wanted, cluster.free(kind).get(member.id, 0)))
        if not post.units:
            held = "; ".join(cluster.holders())
            raise InfrastructureError(f"{TAKEN} {kind} is taken{f' by {held}' if held else ''}")
        spawn = partial(cluster.spawn, node=member.id, resource=kind, units=post.units)
        if kind == SANDBOX:
            return spawn(Sandboxes, plan.sandbox, roots[0], post.units)
        return spawn(Verifiers, plan.sandbox, *roots, post.units, config.pass_threshold, plan.sealed_digests)

    async def _begin(self, post: Post) -> None:
        """Send a post's actor the tasks that its node lacks. Raises ``PlatformError`` if the node has another hc-ray,
        ``InfrastructureError`` if it cannot make sandboxes."""
        seen: NodeReport = await post.actor.report()
        if not self._near and (why := differs(seen)):
            raise PlatformError(why)
        if fault := await post.actor.fault():
            raise InfrastructureError(str(fault).splitlines()[0])
        self.runners.add(seen.runner)
        deliver = self._deliveries.to_sandboxes if post.kind == SANDBOX else self._deliveries.to_verifiers
        await deliver(post.actor)
        if not self._near:
            await post.actor.keep_from(self._addresses())

    def _addresses(self) -> list[str]:
        """The cluster's addresses, which sandboxes with a network must not reach."""
        return sorted(member.address for member in self._members.values())

    async def mend(self, fault: Fault) -> None:
        """Repair the post that the fault names, or else check all. Raises ``Broken`` as ``mended`` does."""
        self._roster.look(fault)
        await self.mended()

    async def mended(self) -> None:
        """Wait until every kind of work has a ready post, and the trials know it. Raises ``Broken``."""
        await self._roster.mended()
        await self._trials.told()

    async def close_trials(self) -> None:
        """Cancel every trial and the checks that they wait for, and collect their last events."""
        await self._roster.close()
        await self._trials.stop()

    async def close(self) -> None:
        """Stop everything except the processes themselves: verifiers still have to scan the results."""
        closing = [post.actor.stop() for post in self._roster.posts if post.actor is not None]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), 20)

    def leave(self) -> None:
        """End the processes of a closed crew on a cluster that stays up, so that their slots are free for the next
        sweep; otherwise they would end only at garbage collection. Does not wait for a hung head."""
        leaving = threading.Thread(target=self._leave_cluster, name="leaving", daemon=True)
        leaving.start()
        leaving.join(2 * FREE_SECONDS)

    def _leave_cluster(self) -> None:
        held: Counter[tuple[str, str]] = Counter()
        for post in self._roster.posts:
            if post.actor is not None and post.state != "gone":
                if post.units:
                    held[ENGINE if post.kind.startswith("engine ") else post.kind, str(post.node)] += post.units
                with contextlib.suppress(Exception):
                    self._cluster.kill(post.actor)
        wait_until_free(self._cluster, held)
