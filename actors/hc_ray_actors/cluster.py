"""Where actors live: on Ray (``ray_cluster``), or in this process, so that the same sweep runs without Ray."""

import math
import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

from hc_ray.domain.value import Value

ENGINE, SANDBOX, VERIFIER = "engine_slot", "sandbox_slot", "verifier_slot"
"""Custom resources of a node: inference servers, busy sandboxes and gradings that it takes at once. Actors take none of
its CPUs: six 1-CPU actors never start on two cores."""
SLOTS = (ENGINE, SANDBOX, VERIFIER)
REMEDY = "`ray status` lists the nodes' slots, `ray start --resources` gives a node some (docs/cluster.md)"
LOOPBACK = "127.0.0.1"
FREE_SECONDS = 10.0
"""How long Ray may take to see that processes which were ended hold their slots no more: one that does not end by
itself it kills after 5 s."""


class Member(Value):
    """A live node that has slots."""

    id: str
    name: str
    """Its host name; for a reader."""
    address: str = LOOPBACK
    slots: dict[str, float]
    """How many it has of each kind, taken or not."""
    gpus: float = 0
    draining: bool = False
    """It will leave soon: what runs there may end, nothing new begins."""


class Cluster:
    """Where actors live. This one leaves them plain objects of this process, for tests and for ``run``; ``RayCluster``
    turns plain classes with async methods into actors."""

    where = "in-process"
    """For a reader: ``laptop``, ``in-process`` or the cluster's address."""
    here = "here"
    """Id of the driver's node."""

    def members(self) -> list[Member]:
        """The live nodes that have slots of any kind."""
        return [Member(id=self.here, name=socket.gethostname(), slots=laptop_slots())]

    def free(self, resource: str) -> dict[str, float]:
        """Node → units that nobody holds at present."""
        return {self.here: math.inf}

    def holders(self) -> list[str]:
        """Who else works on the cluster: the drivers that are connected, for a reader."""
        return []

    def processes(self) -> set[int]:
        """Numbers of the processes of those on the driver's node that were spawned here."""
        return set()

    def spawn(
        self, cls: type, *args: Any,
        node: str | None = None, resource: str | None = None, units: float = 0, gpus: float = 0,
    ) -> Any:  # fmt: skip
        """An instance of ``cls`` in a process of its own, anonymous: only who holds the answer can call it. Its async
        methods are called as if it were local; they raise ``ActorError`` when that process is gone. It stands on
        ``node`` and nowhere else; without one, wherever Ray likes. It holds ``units`` of ``resource``, and ``gpus``,
        until it ends, and begins once they are free."""
        return cls(*args)

    def put(self, value: Any) -> Any:
        """Store a value once; the answer stands for it as an argument of any number of actors' calls."""
        return value

    def kill(self, actor: Any) -> None:
        """End an actor's process, dead or alive, at once. Another takes its place."""


def wait_until_free(cluster: Cluster, held: Mapping[tuple[str, str], float]) -> None:
    """Wait until so many units of a kind are free on a node again, as long as it is there; ``held``: by kind and
    node."""

    def taken() -> bool:
        there = {member.id for member in cluster.members()}
        return any(node in there and cluster.free(kind).get(node, 0) < units for (kind, node), units in held.items())

    until = time.monotonic() + FREE_SECONDS
    while taken() and time.monotonic() < until:
        time.sleep(0.05)


def laptop_slots() -> dict[str, float]:
    """Of a machine that one sweep has to itself: a core is left to the engine; one grading more than a task may have at
    once."""
    cores = os.cpu_count() or 2
    return {ENGINE: 16.0, SANDBOX: float(max(1, cores - 1)), VERIFIER: float(max(2, cores // 2) + 1)}


def own_address() -> str:
    """Where processes on other nodes reach this one: on a laptop, and without Ray, nowhere but on loopback."""
    ray = sys.modules.get("ray")
    return str(ray.util.get_node_ip_address()) if ray is not None and ray.is_initialized() else LOOPBACK
