"""The cluster that a sweep joins, and its nodes' capabilities, probed on the nodes before the sweep is planned."""

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
"""Seconds that ``--wait-nodes N`` waits."""
LOOK_SECONDS = 60.0
"""Seconds within which a node must answer the probe."""


class SeenNode(Member):
    """A node of the cluster, as the plan lists it."""

    faults: dict[str, str] = {}
    """Backend → why it does not work there."""
    left_out: str = ""
    """Why the node is not used; empty if it is."""


@contextlib.contextmanager
def joined(address: str | None, wait_nodes: str | None) -> Iterator[RayCluster | None]:
    """The running cluster; None if the sweep is to start its own Ray. ``wait_nodes``: ``N[:SECONDS]``, the nodes to
    wait for. Raises ``PlatformError`` if they do not come, ``ConfigError`` if the text is invalid."""
    wanted = _wanted(wait_nodes)
    if running_cluster(address) is None:
        if wanted is not None:
            raise PlatformError("--wait-nodes: no Ray cluster is running here; start one first (ray up cluster.yaml)")
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
        raise ConfigError(f"--wait-nodes {text}: expected N or N:SECONDS, as in --wait-nodes 3:600")
    return found


def wait_for(cluster: Cluster, count: int, seconds: float) -> None:
    """Wait until ``count`` nodes with slots are up. Raises ``PlatformError`` after ``seconds``."""
    until = time.monotonic() + seconds
    while len(members := cluster.members()) < count:
        if time.monotonic() >= until:
            there = ", ".join(member.name for member in members) or "none"
            raise PlatformError(
                f"--wait-nodes: {len(members)} of {count} nodes joined within {seconds:g} s ({there}); see "
                "`ray status` and the nodes' logs, or wait for fewer"
            )
        time.sleep(0.5)


def look(cluster: Cluster, sandbox: str) -> tuple[SeenNode, ...]:
    """Probe the nodes with slots. ``sandbox`` is the config's backend."""
    return asyncio.run(_look(cluster, ("docker", "bwrap") if sandbox == "auto" else (sandbox,)))


async def _look(cluster: Cluster, backends: tuple[str, ...]) -> tuple[SeenNode, ...]:
    async def at(member: Member) -> SeenNode:
        node = SeenNode(**dict(member))
        probe = cluster.spawn(NodeProbe, node=member.id)
        try:
            seen: NodeReport = await asyncio.wait_for(probe.report(backends), LOOK_SECONDS)
        except TimeoutError:
            return node.model_copy(update={"left_out": f"it did not answer within {LOOK_SECONDS:g} s"})
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
    """The backends of a cluster: one that works on any node counts as working."""

    def __init__(self, nodes: Sequence[SeenNode]) -> None:
        self._nodes = [node for node in nodes if node.slots.get(SANDBOX)]

    def fault(self, backend: str) -> str | None:
        faults = [node.faults.get(backend, node.left_out) for node in self._nodes]
        if not all(faults):
            return None
        told = (f"{node.name}: {fault}" for node, fault in zip(self._nodes, faults, strict=True))
        return "; ".join(told) or f"no node offers {SANDBOX}"

    def images(self, tasks: Sequence[Task], public_root: Path) -> Availability:
        """As the driver's Docker sees them, if it has one; otherwise nodes will report missing images when needed."""
        return super().images(tasks, public_root) if Backends().fault("docker") is None else Availability()
