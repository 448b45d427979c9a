"""The cluster that a sweep joins, and what its nodes can do, seen there before the sweep is planned."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from hc_ray.domain.errors import ConfigError, InfrastructureError, PlatformError
from hc_ray.domain.task import Task
from hc_ray.sandboxes.docker.availability import Availability
from hc_ray_actors.address import running_cluster
from hc_ray_actors.backends import Backends
from hc_ray_actors.cluster import SANDBOX, Cluster, Member
from hc_ray_actors.node_probe import NodeProbe, NodeReport, differs
from hc_ray_actors.ray_cluster import RayCluster

WAIT_SECONDS = 300.0
"""How long ``--wait-nodes N`` waits."""
LOOK_SECONDS = 60.0
"""How long a node may take to say what it can do."""


class SeenNode(Member):
    """A node of the cluster, as the plan lists it."""

    faults: dict[str, str] = {}
    """Backend → why it does not work there."""
    left_out: str = ""
    """Why nothing runs there."""


@contextlib.contextmanager
def joined(address: str | None, wait_nodes: str | None) -> Iterator[RayCluster | None]:
    """The cluster that is up; None where a sweep starts a Ray of its own. ``wait_nodes``: ``N[:SECONDS]``, the nodes
    that are waited for. Raises ``PlatformError`` where they do not come, ``ConfigError`` for another text."""
    wanted = _wanted(wait_nodes)
    if running_cluster(address) is None:
        if wanted is not None:
            raise PlatformError("--wait-nodes: no Ray cluster is up here; start one (ray up cluster.yaml) first")
        yield None
        return
    cluster = RayCluster(address=address)
    try:
        if wanted is not None:
            wait_for(cluster, *wanted)
        yield cluster
    finally:
        cluster.close()


def _wanted(text: str | None) -> tuple[int, float] | None:
    if text is None:
        return None
    count, _, seconds = text.partition(":")
    try:
        found = int(count), float(seconds) if seconds else WAIT_SECONDS
    except ValueError:
        found = 0, 0.0
    if found[0] < 1 or not 0 <= found[1] < 1e6:
        raise ConfigError(f"--wait-nodes {text}: give N or N:SECONDS, as in --wait-nodes 3:600")
    return found


def wait_for(cluster: Cluster, count: int, seconds: float) -> None:
    """Wait until so many nodes with slots are up. Raises ``PlatformError``."""
    until = time.monotonic() + seconds
    while len(members := cluster.members()) < count:
        if time.monotonic() >= until:
            there = ", ".join(member.name for member in members) or "none"
            raise PlatformError(
                f"--wait-nodes: {len(members)} of {count} nodes came within {seconds:g} s ({there}); see `ray status` "
                "and the nodes' logs, or wait for fewer"
            )
        time.sleep(0.5)


def look(cluster: Cluster, sandbox: str) -> tuple[SeenNode, ...]:
    """The nodes with slots, each as it sees itself; ``sandbox`` as in the config."""
    return asyncio.run(_look(cluster, ("docker", "bwrap") if sandbox == "auto" else (sandbox,)))


async def _look(cluster: Cluster, backends: tuple[str, ...]) -> tuple[SeenNode, ...]:
    async def at(member: Member) -> SeenNode:
        node = SeenNode(**dict(member))
        probe = cluster.spawn(NodeProbe, node=member.id)
        try:
            seen: NodeReport = await asyncio.wait_for(probe.report(backends), LOOK_SECONDS)
        except TimeoutError:
            return node.model_copy(update={"left_out": f"it does not answer within {LOOK_SECONDS:g} s"})
        except InfrastructureError as fault:
            return node.model_copy(update={"left_out": f"hc-ray does not start there: {str(fault).splitlines()[0]}"})
        finally:
            cluster.kill(probe)
        why = differs(seen) or ""
        if not why and member.slots.get(SANDBOX) and len(seen.faults) == len(backends):
            why = "no sandbox works there: " + "; ".join(f"{one}: {fault}" for one, fault in seen.faults.items())
        return node.model_copy(update={"faults": seen.faults, "left_out": why})

    return tuple(await asyncio.gather(*(at(member) for member in cluster.members())))


class BackendsOfNodes(Backends):
    """What a cluster's nodes say of their backends: one that works on some node is taken."""

    def __init__(self, nodes: Sequence[SeenNode]) -> None:
        self._nodes = [node for node in nodes if node.slots.get(SANDBOX)]

    def fault(self, backend: str) -> str | None:
        faults = [node.faults.get(backend, node.left_out) for node in self._nodes]  # by no name: several may have one
        if not all(faults):
            return None
        told = (f"{node.name}: {fault}" for node, fault in zip(self._nodes, faults, strict=True))
        return "; ".join(told) or f"no node offers {SANDBOX}"

    def images(self, tasks: Sequence[Task], public_root: Path) -> Availability:
        """As the driver's Docker says, if it has one; else nodes will say when they need them."""
        return super().images(tasks, public_root) if Backends().fault("docker") is None else Availability()
