"""Actors on Ray; the only code that imports ray."""

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
"""Ray's concurrency group (a thread and an event loop of its own) of the calls that ask whether an actor is well: they
never wait behind its work."""
START_ATTEMPTS = 3
LEAVE_SECONDS = 20.0
"""How long leaving a cluster may take."""
_OTHER_VERSION = "install the same versions on all nodes, or take a Ray of this machine alone: --address local"
SOCKET_PATH = 40
"""Characters that Ray's folder may have: the paths of its sockets are 67 longer, and Linux takes 107."""


class Remote:
    """An actor handle whose methods are awaited like those of a local object. It survives pickling, so that one actor
    can be given another."""

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
                # Ours again, as raised over there: ray's wrapper puts a whole remote traceback into the message.
                raise (fault.cause if isinstance(fault.cause, Exception) else fault) from None
            except RayError as fault:
                # Its process, its node or Ray itself: nothing that the method did.
                says = f"{type(fault).__name__}: {' '.join(str(fault).split())[:300]}"
                what = "cannot be reached" if isinstance(fault, ActorUnavailableError) else "died"
                if getattr(fault, "actor_init_failed", False):  # its words end with what happened there
                    what, says = "did not start", str(fault).strip().splitlines()[-1][:300]
                raise ActorError(f"the process that serves {name} {what} ({says})") from None

        return call


def _environment() -> None:
    """What must stand in the environment before ray is imported: no upload of the checkout by the uv hook, no usage
    statistics, none of the paragraphs that it prints on standard output for every process that dies (the sweep tells
    what becomes of those), token authentication for everything that is started here, and the priority of ordinary
    programs for actors. Ray's nice 15 leaves hardly anything for engines and sandboxes where others are at work."""
    if "HC_RAY_HOME" in os.environ:
        os.environ["HC_RAY_HOME"] = str(data_root())  # actors work in another directory: no relative path
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_AUTH_TOKEN_PATH", str(token_file()))
    os.environ |= {"RAY_DEDUP_LOGS": "1", "RAY_DEDUP_LOGS_SKIP_REGEX": "^"}
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


def settle(*, guarded: bool) -> None:
    """What every actor's process does first. It leaves the directory that it was started in, which may be a checkout
    with its hidden tests in the open, for an empty one; and it refuses to open sealed files, unless it is one of the
    verifiers."""
    if "HC_RAY_HOME" in os.environ:
        os.environ["HC_RAY_HOME"] = str(data_root())
    os.chdir(_work_folder())
    if guarded:
        for root in (data_root() / "sealed", *(configs_dir() / "tasks").glob("*.sealed.tar.gz")):
            sealed_guard.install(root)


def _work_folder() -> Path:
    """An empty folder for processes to work in."""
    folder = data_root() / "work"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@contextlib.contextmanager
def _empty_directory() -> Iterator[None]:
    """Ray hands on the directory in which it is started: its processes work there, and workers import from there. One
    that was removed meanwhile can be gone back to as well (``contextlib.chdir`` asks for its name)."""
    before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.chdir(_work_folder())
        yield
    finally:
        os.fchdir(before)
        os.close(before)


def _settled(cls: type) -> type:
    """``cls`` as an actor whose process is settled before anything else happens in it."""
    guarded, keys = not getattr(cls, "opens_sealed", False), getattr(cls, "needs_keys", True)

    def begin(self: Any, *args: Any) -> None:
        settle(guarded=guarded)
        if not keys:
            credentials.forget_secrets()
        cls.__init__(self, *args)  # type: ignore[misc]

    own: dict[str, Any] = {"__init__": begin, "__module__": __name__, "__doc__": cls.__doc__}
    return type(cls.__name__, (cls,), own | {name: _beside(cls, name) for name in ASKED if hasattr(cls, name)})


ASKED = ("alive", "fault")
"""What is asked of actors by ``CONTROL`` calls; it touches nothing that their work changes."""


_REACHABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""What Ray calls a cluster on Windows or macOS is a node that others can reach: without it, it stays on loopback."""


def _beside(cls: type, name: str) -> Any:
    import ray

    method = getattr(cls, name)

    async def asked(self: Any) -> Any:
        return await method(self)

    return ray.method(concurrency_group=CONTROL)(asked)


class RayCluster(Cluster):
    """Actors on Ray: the cluster that is up, else one of this machine alone (laptop mode)."""

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
        """A Ray of this process's own."""
        reap_processes()
        reap_folders()
        # A folder of its own: a laptop Ray never becomes the "current cluster" that somebody else's commands find.
        short = len(tempfile.gettempdir()) + len("/hc-ray-ray-12345678") <= SOCKET_PATH
        self._folder = owned_folder("ray", parent=None if short else Path("/tmp"))
        # It carries this process's label, and so does all that it starts.
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
        """``ray.init``. A node that was too busy to come up in Ray's fixed 30 s is tried again before giving up. Raises
        ``KeyboardInterrupt`` on SIGTERM, too, which Ray answers by an exit."""
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
                # Another version of Ray or Python, or a machine that is no node: it will be no other the next time.
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
        from ray._private.state import available_resources_per_node  # the public one adds up all nodes

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
        """End what was started here. Ray's agents would live on for a minute; its logs go with them. The head of a
        cluster that was joined may hang: it is not waited for (``cli.app.main`` sees that thread)."""
        with uninterrupted():
            leaving = threading.Thread(target=self._ray.shutdown, name="leaving", daemon=True)
            leaving.start()
            leaving.join(None if self._folder is not None else LEAVE_SECONDS)
            if self._folder is not None:
                end_processes(lambda said: said == label(), [self._folder])
                remove_folder(self._folder)
