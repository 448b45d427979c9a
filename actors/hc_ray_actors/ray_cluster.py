"""Actors on Ray. The only module that imports ray."""

import contextlib
import logging
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hc_ray.domain import credentials
from hc_ray.domain.errors import ActorError, PlatformError
from hc_ray.machine import sealed_guard
from hc_ray.machine.cleanup import (
    OWNER_VARIABLE,
    end_processes,
    handlers_kept,
    owned_folder,
    reap_folders,
    reap_processes,
    remove_folder,
    uninterrupted,
)
from hc_ray.machine.owner import label
from hc_ray.machine.paths import configs_dir, data_root
from hc_ray_actors.address import running_cluster
from hc_ray_actors.cluster import LOOPBACK, SLOTS, Cluster, Member, laptop_slots
from hc_ray_actors.own_ray import among, few_processes, limits
from hc_ray_actors.ray_token import token_file

CONTROL = "control"
"""Ray concurrency group (with its own thread and event loop) for health checks, so that they never wait behind an
actor's work."""
START_ATTEMPTS = 3
LEAVE_SECONDS = 20.0
"""Seconds that leaving a cluster may take."""
_OTHER_VERSION = "install the same versions on all nodes, or use a Ray of this machine alone: --address local"
SOCKET_PATH = 40
"""The longest path of Ray's folder in characters: its sockets' paths are 67 longer, and Linux allows 107."""


class Remote:
    """An actor handle whose methods are awaited like those of a local object. It can be pickled, so that actors can
    pass it on."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and bool(self._handle == other._handle)

    def __hash__(self) -> int:
        return hash(self._handle)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._handle, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            from ray.exceptions import ActorUnavailableError, RayError, RayTaskError

            try:
                return await method.remote(*args, **kwargs)
            except RayTaskError as fault:
                # Unwrap our exception: ray's wrapper adds the whole remote traceback to its message.
                raise (fault.cause if isinstance(fault.cause, Exception) else fault) from None
            except RayError as fault:
                # A failure of its process, its node or Ray, not of the method.
                says = f"{type(fault).__name__}: {' '.join(str(fault).split())[:300]}"
                what = "cannot be reached" if isinstance(fault, ActorUnavailableError) else "died"
                if getattr(fault, "actor_init_failed", False):  # the message ends with the cause
                    what, says = "did not start", str(fault).strip().splitlines()[-1][:300]
                raise ActorError(f"the process that serves {name} {what} ({says})") from None

        return call


def _environment() -> None:
    """Set the environment before ray is imported: no upload of the checkout by the uv hook, no usage statistics, no
    paragraph on stdout for every process that dies (the sweep reports those), token authentication for everything
    started here, and normal priority for actors, since Ray's nice 15 starves engines and sandboxes on busy machines."""
    if "HC_RAY_HOME" in os.environ:
        os.environ["HC_RAY_HOME"] = str(data_root())  # absolute, since actors run in another directory
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_AUTH_TOKEN_PATH", str(token_file()))
    os.environ |= {"RAY_DEDUP_LOGS": "1", "RAY_DEDUP_LOGS_SKIP_REGEX": "^"}
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


def settle(*, guarded: bool) -> None:
    """Set up an actor's process before anything else: change from its start directory, which may be a checkout with
    readable hidden tests, to an empty one, and unless it is a verifier, refuse to open sealed files."""
    if "HC_RAY_HOME" in os.environ:
        os.environ["HC_RAY_HOME"] = str(data_root())
    os.chdir(_work_folder())
    if guarded:
        for root in (data_root() / "sealed", *(configs_dir() / "tasks").glob("*.sealed.tar.gz")):
            sealed_guard.install(root)


def _work_folder() -> Path:
    """An empty working directory for processes."""
    folder = data_root() / "work"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@contextlib.contextmanager
def _empty_directory() -> Iterator[None]:
    """Start Ray from an empty directory: its processes inherit the working directory, and workers import from it.
    Unlike ``contextlib.chdir``, this can also return to a directory that has been removed."""
    before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.chdir(_work_folder())
        yield
    finally:
        os.fchdir(before)
        os.close(before)


def _settled(cls: type) -> type:
    """Wrap ``cls`` so that its process is set up (``settle``) before anything else."""
    guarded, keys = not getattr(cls, "opens_sealed", False), getattr(cls, "needs_keys", True)

    def begin(self: Any, *args: Any) -> None:
        settle(guarded=guarded)
        if not keys:
            credentials.forget_secrets()
        cls.__init__(self, *args)  # type: ignore[misc]

    own: dict[str, Any] = {"__init__": begin, "__module__": __name__, "__doc__": cls.__doc__}
    return type(cls.__name__, (cls,), own | {name: _beside(cls, name) for name in ASKED if hasattr(cls, name)})


ASKED = ("alive", "fault")
"""Methods called in the group ``CONTROL``; they touch no state that the actors' work changes."""


_REACHABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's option for clusters on Windows or macOS; without it, a node stays on loopback and others cannot reach it."""


def _beside(cls: type, name: str) -> Any:
    import ray

    method = getattr(cls, name)

    async def asked(self: Any) -> Any:
        return await method(self)

    return ray.method(concurrency_group=CONTROL)(asked)


class RayCluster(Cluster):
    """Actors on Ray: on the running cluster, or else on a Ray of this machine alone (laptop mode)."""

    def __init__(self, *, address: str | None = None, slots: Mapping[str, float] | None = None) -> None:
        found = running_cluster(address)
        _environment()
        self.where = found or "laptop"
        self._folder: Path | None = None
        with contextlib.nullcontext() if found else among({_REACHABLE: os.environ.get(_REACHABLE, "0")}):
            import ray

            self._ray = ray
            if found:
                self._init(address=found)
            else:
                self._start({**laptop_slots(), **(slots or {})})

    def _start(self, resources: Mapping[str, float]) -> None:
        """Start a private Ray for this process."""
        reap_processes()
        reap_folders()
        # A separate folder, so that a laptop Ray never becomes the "current cluster" that other commands find.
        short = len(tempfile.gettempdir()) + len("/hc-ray-ray-12345678") <= SOCKET_PATH
        self._folder = owned_folder("ray", parent=None if short else Path("/tmp"))
        # It and all its children carry this process's label.
        with few_processes(self._ray), among({OWNER_VARIABLE: label()}):
            self._init(
                address="local",
                resources=resources,
                include_dashboard=False,
                object_store_memory=256 << 20,
                _temp_dir=str(self._folder),
                _node_ip_address=LOOPBACK,
            )

    def _init(self, **options: Any) -> None:
        """Call ``ray.init``, again if the node was too busy to come up within Ray's fixed 30 s. Raises
        ``KeyboardInterrupt`` also on SIGTERM, on which Ray would exit."""
        for attempt in range(START_ATTEMPTS):
            try:
                with _empty_directory(), handlers_kept():
                    self._ray.init(log_to_driver=False, logging_level=logging.ERROR, configure_logging=False, **options)
                self.here = self._ray.get_runtime_context().get_node_id()
                return
            except BaseException as fault:
                if not isinstance(fault, Exception):
                    self.close()
                    raise KeyboardInterrupt from None
                self._ray.shutdown()
                # Another version of Ray or Python, or a machine that is not a node: a retry would not help.
                other = str(fault).startswith("Version mismatch")
                if other or isinstance(fault, ConnectionError) or attempt == START_ATTEMPTS - 1:
                    logs = f"its logs are in {options.get('_temp_dir', '/tmp/ray')}{limits()}"
                    says, how = " ".join(str(fault).split()), _OTHER_VERSION if other else logs
                    raise PlatformError(f"Ray did not start: {says}; {how}") from fault

    def members(self) -> list[Member]:
        from ray._private.state import state

        draining = state.get_draining_nodes()
        return sorted(
            (
                Member(
                    id=node["NodeID"], name=node["NodeManagerHostname"], address=node["NodeManagerAddress"],
                    slots=slots, gpus=node["Resources"].get("GPU", 0.0), draining=node["NodeID"] in draining,
                )
                for node in self._ray.nodes()
                if node["Alive"] and (slots := {kind: node["Resources"].get(kind, 0.0) for kind in SLOTS})
                and any(slots.values())
            ),
            key=lambda member: member.id,
        )  # fmt: skip

    def free(self, resource: str) -> dict[str, float]:
        from ray._private.state import available_resources_per_node  # the public function sums over all nodes

        return {node: units[resource] for node, units in available_resources_per_node().items() if resource in units}

    def holders(self) -> list[str]:
        from ray._private.state import jobs

        own = self._ray.get_runtime_context().get_job_id()
        return [
            f"{job['Entrypoint'][:200]} (process {job['DriverPid']} on {job['DriverIPAddress']})"
            for job in jobs()
            if not job["IsDead"]
            and job["JobID"] != own
            and job["DriverIPAddress"]
            and "dashboard" not in job["Entrypoint"]
        ]

    def processes(self) -> set[int]:
        from ray._private.state import actors

        job = self._ray.JobID.from_hex(self._ray.get_runtime_context().get_job_id())
        found = actors(job_id=job, actor_state_name="ALIVE").values()
        return {one["Pid"] for one in found if one["Address"]["NodeID"] == self.here}

    def spawn(
        self, cls: type, *args: Any,
        node: str | None = None, resource: str | None = None, units: float = 0, gpus: float = 0,
    ) -> Any:  # fmt: skip
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        options: dict[str, Any] = {"num_cpus": 0, "num_gpus": gpus, "max_concurrency": 1000, "max_restarts": 0}
        if resource and units:
            options["resources"] = {resource: units}
        if node:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        actor = self._ray.remote(concurrency_groups={CONTROL: 8})(_settled(cls))
        return Remote(actor.options(**options).remote(*args))

    def put(self, value: Any) -> Any:
        return self._ray.put(value)

    def kill(self, actor: Any) -> None:
        self._ray.kill(actor._handle, no_restart=True)

    def close(self) -> None:
        """End what was started here, including Ray's agents, which would live for another minute, and its logs. Does
        not wait for the hung head of a joined cluster (``cli.app.main`` checks for that thread)."""
        with uninterrupted():
            leaving = threading.Thread(target=self._ray.shutdown, name="leaving", daemon=True)
            leaving.start()
            leaving.join(None if self._folder is not None else LEAVE_SECONDS)
            if self._folder is not None:
                end_processes(lambda said: said == label(), [self._folder])
                remove_folder(self._folder)
