"""Where actors run: on Ray (``ray_cluster``), or in this process, so that the same sweep also runs without Ray."""

import math
import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

from hc_ray.domain.value import Value

ENGINE, SANDBOX, VERIFIER = "engine_slot", "sandbox_slot", "verifier_slot"
"""Custom resources of a node: how many inference servers, busy sandboxes and gradings it takes at once. Actors reserve
no CPUs: six 1-CPU actors would never start on two cores."""
SLOTS = (ENGINE, SANDBOX, VERIFIER)
REMEDY = "`ray status` lists the nodes' slots, `ray start --resources` gives a node some (docs/cluster.md)"
LOOPBACK = "127.0.0.1"
FREE_SECONDS = 10.0
"""Seconds for Ray to release the slots of ended processes; after 5 s it kills one that does not exit."""


class Member(Value):
    """A live node that has slots."""

    id: str
    name: str
    """Its host name, for display."""
    address: str = LOOPBACK
    slots: dict[str, float]
    """Total slots of each kind, free or taken."""
    gpus: float = 0
    draining: bool = False
    """It will leave soon: running work may finish, nothing new starts."""


class Cluster:
    """Where actors run. This class keeps them as plain objects of this process, for tests and ``run``; ``RayCluster``
    turns plain classes with async methods into Ray actors."""

    where = "in-process"
    """For display: ``laptop``, ``in-process`` or the cluster's address."""
    here = "here"
    """Id of the driver's node."""

    def members(self) -> list[Member]:
        """The live nodes that have slots of any kind."""
        return [Member(id=self.here, name=socket.gethostname(), slots=laptop_slots())]

    def free(self, resource: str) -> dict[str, float]:
        """Node → free units of a resource."""
        return {self.here: math.inf}

    def holders(self) -> list[str]:
        """The other drivers connected to the cluster, for display."""
        return []

    def processes(self) -> set[int]:
        """Process ids of the actors spawned here that run on the driver's node."""
        return set()

    def spawn(
        self, cls: type, *args: Any,
        node: str | None = None, resource: str | None = None, units: float = 0, gpus: float = 0,
    ) -> Any:  # fmt: skip
        """Start ``cls`` in a process of its own and return a handle. The actor is anonymous: only holders of the handle
        can call it. Its async methods work as if it were local, but raise ``ActorError`` when the process is gone. It
        runs on ``node``, or anywhere if None. It waits for ``units`` of ``resource`` and ``gpus``, and holds them until
        it ends."""
        return cls(*args)

    def put(self, value: Any) -> Any:
        """Store a value once and return a reference, which can be passed to any number of actor calls."""
        return value

    def kill(self, actor: Any) -> None:
        """End an actor's process at once, dead or alive, so that another can take its place."""


def wait_until_free(cluster: Cluster, held: Mapping[tuple[str, str], float]) -> None:
    """Wait until the units in ``held`` (by kind and node) are free again; ignores nodes that have left."""

    def taken() -> bool:
        there = {member.id for member in cluster.members()}
        return any(node in there and cluster.free(kind).get(node, 0) < units for (kind, node), units in held.items())

    until = time.monotonic() + FREE_SECONDS
    while taken() and time.monotonic() < until:
        time.sleep(0.05)


def laptop_slots() -> dict[str, float]:
    """Slots of a machine that one sweep has to itself: one core stays free for the engine, and there is one more
    grading slot than a single task may use."""
    cores = os.cpu_count() or 2
    return {ENGINE: 16.0, SANDBOX: float(max(1, cores - 1)), VERIFIER: float(max(2, cores // 2) + 1)}


def own_address() -> str:
    """The address at which other nodes reach this process; loopback on a laptop and without Ray."""
    ray = sys.modules.get("ray")
    return str(ray.util.get_node_ip_address()) if ray is not None and ray.is_initialized() else LOOPBACK
