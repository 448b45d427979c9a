"""The actors of one sweep: engines, sandboxes, verifiers and trials, brought up on the nodes that have their resource,
and given the tasks that they lack."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from hc_ray import sealed_guard
from hc_ray.config import EngineConfig, RoleName
from hc_ray.errors import InfrastructureError
from hc_ray.home import data_root
from hc_ray_actors.cluster import ENGINE, SANDBOX, VERIFIER, Cluster
from hc_ray_actors.engine import Endpoint, Engine
from hc_ray_actors.plan import Plan
from hc_ray_actors.sandboxes import Sandboxes, pack_public
from hc_ray_actors.trials import RoleSetup, Trials
from hc_ray_actors.verifiers import Verifiers, pack_sealed, sealed_digests


class Broken(Exception):
    """Something that every trial needs is gone; what is committed stays, a resume does the rest."""


class Crew:
    """Who works on a sweep. Only the driver holds it, and with it the verifiers."""

    def __init__(self, plan: Plan, cluster: Cluster) -> None:
        self._plan, self._cluster = plan, cluster
        self._engines: list[Any] = []
        self._sandboxes: list[Any] = []
        self._verifiers: list[Any] = []
        self._turn = 0
        self.trials: Any = None
        """None where no agent asks a model."""
        self.limits: dict[str, str] = {}
        """Which limits hold in its sandboxes, and by what."""

    async def open(self) -> None:
        """Bring up what trials need."""
        plan, config, cluster = self._plan, self._plan.config, self._cluster
        roots = (None, None) if cluster.where not in {"laptop", "in-process"} else (plan.public_root, plan.sealed_root)
        roles_task = asyncio.ensure_future(self._open_roles())
        for node in cluster.nodes(SANDBOX):
            solver_side = (plan.sandbox, roots[0], config.sandbox_slots)
            self._sandboxes.append(cluster.spawn(Sandboxes, *solver_side, node=node, resource=SANDBOX, units=0.01))
        for node in cluster.nodes(VERIFIER):
            blind_side = (plan.sandbox, *roots, None)
            self._verifiers.append(cluster.spawn(Verifiers, *blind_side, node=node, resource=VERIFIER, units=0.01))
        if not self._sandboxes or not self._verifiers:
            roles_task.cancel()
            raise InfrastructureError(f"no node of {cluster.where} offers {SANDBOX} and {VERIFIER}")
        await self._ship()
        self.limits = await self._sandboxes[0].limits()
        roles = await roles_task
        if roles:
            out = plan.out if "://" in plan.out else str(Path(plan.out).absolute())
            self.trials = cluster.spawn(Trials, roles, self._sandboxes, self.limits, out)

    async def _ship(self) -> None:
        """Give every node the public tasks, and the verifiers' nodes the sealed parts, where they are missing."""
        public, sealed = Path(self._plan.public_root), Path(self._plan.sealed_root)
        digests = [task.digest for task in self._plan.taken]
        for actor in self._sandboxes:
            for digest in await actor.missing(digests):
                await actor.install(pack_public(public, digest))
        for actor in self._verifiers:
            for digest in await actor.missing(sealed_digests(sealed, digests)):
                await actor.install(pack_public(public, digest), pack_sealed(sealed, digest))
        if self._cluster.where != "in-process":
            # From here on only the verifiers' own processes have to open what is sealed.
            sealed_guard.install(data_root() / "sealed")

    async def _open_roles(self) -> dict[RoleName, RoleSetup]:
        """One set of replicas for each distinct engine, whatever number of roles share it."""
        started: dict[EngineConfig, tuple[Endpoint, ...]] = {}
        roles: dict[RoleName, RoleSetup] = {}
        for role, (engine, profile, digest) in self._plan.models.items():
            if engine not in started:
                placed = _anywhere(engine)
                replicas = [
                    self._cluster.spawn(Engine, placed, resource=ENGINE, units=0.01) for _ in range(engine.replicas)
                ]
                self._engines += replicas
                started[engine] = tuple(await asyncio.gather(*(replica.start() for replica in replicas)))
            roles[role] = RoleSetup(engine=engine, endpoints=started[engine], profile=profile, digest=digest)
        return roles

    def verifier(self) -> Any:
        """The verifiers in turn. Raises ``IndexError`` before ``open``."""
        self._turn += 1
        return self._verifiers[self._turn % len(self._verifiers)]

    @property
    def has_verifiers(self) -> bool:
        return bool(self._verifiers)

    async def check_engines(self) -> None:
        """A trial failed outside its sandbox: if an engine is gone, no further trial can succeed, and the sweep stops
        rather than mark them all unscored."""
        for engine in self._engines:
            try:
                alive = await engine.alive()
            except InfrastructureError:
                alive = False
            if not alive:
                raise Broken("an engine died")

    async def close_trials(self) -> None:
        """Cancel every trial; their last events can still be asked for."""
        if self.trials is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self.trials.stop(), 15)

    async def close(self) -> None:
        """End everything that was started."""
        closing = [engine.stop() for engine in self._engines]
        closing += [actor.close_all() for actor in (*self._sandboxes, *self._verifiers)]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), 20)


def _anywhere(engine: EngineConfig) -> EngineConfig:
    """With the absolute path of a model file: actors do not work in the driver's directory."""
    if engine.kind != "embedded" or not Path(engine.model).is_file():
        return engine
    return engine.model_copy(update={"model": str(Path(engine.model).absolute())})
