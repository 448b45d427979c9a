"""The actors of one sweep: engines, sandboxes, verifiers and trials, brought up on the nodes that have their resource,
given the tasks that they lack, and started anew when they die."""

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hc_ray.domain.candidate import Submission
from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import HcRayError, InfrastructureError
from hc_ray.domain.task import Task
from hc_ray.machine import sealed_guard
from hc_ray.machine.paths import data_root
from hc_ray_actors.cluster import SANDBOX, VERIFIER, Cluster
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.engine import Endpoint, spawn_engine
from hc_ray_actors.sandboxes import Sandboxes, given_by, pack_public
from hc_ray_actors.trials import RoleSetup, Trials
from hc_ray_actors.verifiers import Rules, Verifiers, pack_sealed, sealed_digests

RESTARTS, PERIOD = 5, 600.0
"""An actor that dies more often than this in so many seconds is not started any more: the sweep stops."""
ANSWER_SECONDS = 60.0
"""How long an actor may take to say that it lives."""
POLL_SECONDS = 1.0


class Broken(Exception):
    """Something that every trial needs is gone; what is committed stays, a resume does the rest."""


class Seat:
    """One actor's place in the crew: who sits there now, how another is put there, and how often that was needed."""

    def __init__(self, what: str, make: Callable[[], Any]) -> None:
        self.what, self._make = what, make
        self.actor = make()
        self._renewals: deque[float] = deque(maxlen=RESTARTS)

    async def alive(self) -> bool:
        try:
            return bool(await asyncio.wait_for(self.actor.alive(), ANSWER_SECONDS))
        except (InfrastructureError, TimeoutError):
            return False

    def renew(self, cluster: Cluster) -> None:
        """Another actor in the place of the dead one. Raises ``Broken`` when that happens too often."""
        now = time.monotonic()
        if len(self._renewals) == RESTARTS and now - self._renewals[0] < PERIOD:
            raise Broken(f"{self.what} died {RESTARTS + 1} times within {PERIOD / 60:g} minutes")
        self._renewals.append(now)
        with contextlib.suppress(Exception):
            cluster.kill(self.actor)
        self.actor = self._make()


class Crew:
    """Who works on a sweep. Only the driver holds it, and with it the verifiers."""

    def __init__(self, plan: Plan, cluster: Cluster) -> None:
        self._plan, self._cluster = plan, cluster
        self._engines: dict[EngineConfig, list[Seat]] = {}
        self._endpoints: dict[EngineConfig, list[Endpoint]] = {}
        self._sandboxes: list[Seat] = []
        self._verifiers: list[Seat] = []
        self._sandbox_nodes: list[str] = []
        self._verifier_nodes: list[str] = []
        self._trials: Seat | None = None
        self._turn = 0
        self._mending: asyncio.Task[None] | None = None
        self._asked = False
        """Somebody has asked for a mend since everybody was looked at last."""
        self._broken: Broken | None = None
        self.renewed = 0
        """Actors that were started anew."""
        self.limits: dict[str, str] = {}
        """Which limits hold in its sandboxes, and by what."""

    @property
    def trials(self) -> Any:
        """None where no agent asks a model."""
        return self._trials.actor if self._trials else None

    @property
    def has_verifiers(self) -> bool:
        return bool(self._verifiers)

    def verifier(self) -> Any:
        """The verifiers in turn."""
        self._turn += 1
        return self._verifiers[self._turn % len(self._verifiers)].actor

    def near(self, submission: Submission) -> tuple[Any, Submission]:
        """The verifier of the node on which a submission still lives, and the submission as that one knows it. Raises
        ``InfrastructureError`` where that node has none."""
        if submission.living is None:
            return self.verifier(), submission
        number, ticket = given_by(submission.living)
        node = self._sandbox_nodes[number]
        if node not in self._verifier_nodes:
            raise InfrastructureError(f"node {node} has a sandbox for shared grading, but offers no {VERIFIER}")
        seat = self._verifiers[self._verifier_nodes.index(node)]
        return seat.actor, submission.model_copy(update={"living": ticket})

    async def open(self) -> None:
        """Bring up what trials need."""
        plan, config, cluster = self._plan, self._plan.config, self._cluster
        near = cluster.where in {"laptop", "in-process"}
        roots = (plan.public_root, plan.sealed_root) if near else (None, None)
        engines = asyncio.ensure_future(self._open_engines())
        for node in cluster.nodes(SANDBOX):
            solver_side = (plan.sandbox, roots[0], config.sandbox_slots)
            make = self._maker(Sandboxes, *solver_side, node=node, resource=SANDBOX)
            self._sandboxes.append(Seat("the sandboxes' process", make))
            self._sandbox_nodes.append(node)
        for node in cluster.nodes(VERIFIER):
            rules = Rules(threshold=config.pass_threshold, expected=plan.sealed_digests)
            make = self._maker(Verifiers, plan.sandbox, *roots, None, rules, node=node, resource=VERIFIER)
            self._verifiers.append(Seat("the verifier's process", make))
            self._verifier_nodes.append(node)
        if not self._sandboxes or not self._verifiers:
            engines.cancel()
            raise InfrastructureError(f"no node of {cluster.where} offers {SANDBOX} and {VERIFIER}")
        for seat in (*self._sandboxes, *self._verifiers):
            await self._ship(seat)
        if cluster.where != "in-process":
            # From here on only the verifiers' own processes have to open what is sealed.
            sealed_guard.install(data_root() / "sealed")
        self.limits = await self._sandboxes[0].actor.limits()
        await engines
        if plan.models:
            self._trials = Seat("the trials' process", self._make_trials)

    def _maker(self, cls: type, *args: Any, node: str, resource: str) -> Callable[[], Any]:
        """Makes an actor on its node; on another with the same resource when that node is gone."""

        def make() -> Any:
            here = node
            if node not in (living := self._cluster.nodes(resource)):
                if not living:
                    raise Broken(f"no node with {resource} is left")
                here = living[0]
            return self._cluster.spawn(cls, *args, node=here, resource=resource, units=0.01)

        return make

    def _make_trials(self) -> Any:
        out = self._plan.out if "://" in self._plan.out else str(Path(self._plan.out).absolute())
        sandboxes = [seat.actor for seat in self._sandboxes]
        # On the driver's node: there are the scripts and skills that the sweep was planned with, and what it stores.
        return self._cluster.spawn(Trials, self.roles(), sandboxes, self.limits, out, node=self._cluster.here)

    async def _ship(self, seat: Seat) -> None:
        """Give a node the public tasks, and a verifier's node the sealed parts, where they are missing."""
        public, sealed = Path(self._plan.public_root), Path(self._plan.sealed_root)
        digests = [task.digest for task in self._plan.taken]
        if seat in self._verifiers:
            for digest in await seat.actor.missing(sealed_digests(sealed, digests)):
                await seat.actor.install(pack_public(public, digest), pack_sealed(sealed, digest))
        else:
            for digest in await seat.actor.missing(digests):
                await seat.actor.install(pack_public(public, digest))

    async def _open_engines(self) -> None:
        """One set of replicas for each distinct engine, whatever number of roles share it."""
        turns = itertools.count()
        for engine in self._plan.engines:
            makers = [partial(spawn_engine, self._cluster, engine, next(turns)) for _ in range(engine.replicas)]
            seats = self._engines[engine] = [Seat(f"the engine {engine.label}", make) for make in makers]
            self._endpoints[engine] = list(await asyncio.gather(*(seat.actor.start() for seat in seats)))

    def roles(self) -> dict[str, RoleSetup]:
        """How each model that some config names for a role is reached now, by the digest of model and profile."""
        return {
            digest: RoleSetup(engine=engine, endpoints=tuple(self._endpoints[engine]), profile=profile, digest=digest)
            for engine, profile, digest in self._plan.asked
        }

    async def prepare(self, task: Task, *, solver: bool) -> None:
        """Make a task's image ready where it will be used first: by solvers, or by verifiers alone."""
        seats = self._sandboxes if solver else self._verifiers
        await asyncio.gather(*(seat.actor.prepare(task) for seat in seats))

    async def mend(self) -> None:
        """Start anew who died, and wait for a daemon or a server that does not answer. Raises ``Broken`` where that
        does not help: no further trial can succeed, and the sweep stops rather than mark them all unscored.

        One mend is for all whom the same outage stops: who asks while one is under way waits for it, and it does not
        end before everybody was looked at once more."""
        self._asked = True
        if self._broken is None and (self._mending is None or self._mending.done()):
            self._mending = asyncio.ensure_future(self._mend())
            # Where nobody waits for it any more (Ctrl-C), nobody is to be troubled with how it ended.
            self._mending.add_done_callback(lambda mended: mended.cancelled() or mended.exception())
        await self.mended()

    async def mended(self) -> None:
        """Wait for the mend that is under way, if one is: nothing begins during an outage. Raises ``Broken``."""
        if self._mending is not None and not self._mending.done():
            try:
                await asyncio.shield(self._mending)
            except Broken as fault:
                self._broken = fault
        if self._broken is not None:
            raise Broken(str(self._broken))

    async def _mend(self) -> None:
        until: float | None = None
        while self._asked:
            self._asked = False
            await self._renew_the_dead()
            fault = await self._standing_fault()
            if fault is None:
                until = None
                continue
            patience = self._plan.config.retries.outage_sec
            until = time.monotonic() + patience if until is None else until
            if time.monotonic() >= until:
                raise Broken(f"{fault} (waited {patience:g} s)")
            self._asked = True
            await asyncio.sleep(POLL_SECONDS)

    async def _renew_the_dead(self) -> None:
        for engine, seats in self._engines.items():
            for index, seat in enumerate(seats):
                if not await seat.alive():
                    await self._renew_engine(engine, index, seat)
        for index, seat in enumerate(self._sandboxes):
            if not await seat.alive():
                await self._renew(seat)
                await self._tell_trials("use_sandboxes", index, seat.actor)
        for seat in self._verifiers:
            if not await seat.alive():
                await self._renew(seat)
        if self._trials is not None and not await self._trials.alive():
            self._trials.renew(self._cluster)
            self.renewed += 1
            # Nobody is left who could close them.
            await asyncio.gather(*(seat.actor.clear() for seat in self._sandboxes), return_exceptions=True)

    async def _renew(self, seat: Seat) -> None:
        seat.renew(self._cluster)
        self.renewed += 1
        try:
            await self._ship(seat)
        except HcRayError as fault:
            raise Broken(f"{seat.what} does not come up again: {fault}") from fault

    async def _renew_engine(self, engine: EngineConfig, index: int, seat: Seat) -> None:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(seat.actor.stop(), 10)
        try:
            seat.renew(self._cluster)
            self.renewed += 1
            self._endpoints[engine][index] = await seat.actor.start()
        except HcRayError as fault:
            raise Broken(f"{seat.what} does not come up again: {fault}") from fault
        await self._tell_trials("reach", self.roles())

    async def _tell_trials(self, method: str, *args: Any) -> None:
        if self._trials is not None:
            with contextlib.suppress(InfrastructureError):  # it is dead itself, and its next will know
                await getattr(self._trials.actor, method)(*args)

    async def _standing_fault(self) -> str | None:
        engines = [seat for seats in self._engines.values() for seat in seats]
        for seat in (*engines, *self._sandboxes, *self._verifiers):
            with contextlib.suppress(InfrastructureError):  # dead since: whoever asks it next sees to that
                if fault := await seat.actor.fault():
                    return str(fault).splitlines()[0]
        return None

    async def close_trials(self) -> None:
        """Cancel every trial, and the mend that they wait for; their last events can still be asked for."""
        if self._mending is not None:
            self._mending.cancel()
            await asyncio.gather(self._mending, return_exceptions=True)
        if self._trials is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._trials.actor.stop(), 15)

    async def close(self) -> None:
        """End everything that was started."""
        closing = [seat.actor.stop() for seats in self._engines.values() for seat in seats]
        closing += [seat.actor.close_all() for seat in (*self._sandboxes, *self._verifiers)]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), 20)
