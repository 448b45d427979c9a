"""Places an engine's server on a node that has a slot and the GPUs for it."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.engine_config import program_of
from hc_ray.domain.errors import InfrastructureError, PlatformError
from hc_ray.domain.ports import Capabilities
from hc_ray_actors.cluster import ENGINE, REMEDY, Cluster, Member
from hc_ray_actors.engine import Engine


def takes_slot(engine: EngineConfig) -> bool:
    """Whether the engine's server runs in a slot of a cluster node."""
    return engine.kind in ("embedded", "server")


def has_place(engine: EngineConfig, nodes: Sequence[Member], where: str) -> None:
    """Raise ``PlatformError`` if no node of the cluster ``where`` could ever hold the engine's server."""
    able = [one for one in nodes if one.slots.get(ENGINE, 0) >= 1 and one.gpus >= engine.num_gpus]
    if takes_slot(engine) and not able:
        raise PlatformError(f"no node of {where} has {_needs(engine)}; {REMEDY}")


def _needs(engine: EngineConfig, free: str = "") -> str:
    gpus = f" and {engine.num_gpus} {free}GPU(s) (engine.gpus)" if engine.num_gpus else ""
    return f"{'a free' if free else 'an'} {ENGINE}{gpus}"


Standing = Sequence[tuple[str | None, EngineConfig]]
"""Placed engines, each with its node."""


def spawn_engine(
    cluster: Cluster, engine: EngineConfig, others: Standing = (), known: Capabilities | None = None
) -> tuple[str, Any]:
    """Start an engine's actor on the node with a free slot and the fewest ``others``; returns node and actor.
    ``known``: see ``Engine``. Raises ``InfrastructureError`` if there is no such node."""
    if not takes_slot(engine):
        return cluster.here, cluster.spawn(Engine, engine, known, node=cluster.here)
    free, stand = _room_for(cluster, engine, others), Counter(node for node, _ in others)
    node = min(free, key=lambda one: (stand[one], -free[one], one))
    return node, cluster.spawn(Engine, engine, node=node, resource=ENGINE, units=1, gpus=engine.num_gpus)


def _room_for(cluster: Cluster, engine: EngineConfig, others: Standing) -> dict[str, float]:
    """Node → free slots, for nodes that can take another server of the engine. A slot that was just taken may still
    count as free, so a node has at most its total minus the ``others``. Raises ``InfrastructureError`` if none has
    room."""
    slots, idle = cluster.free(ENGINE), cluster.free("GPU") if engine.num_gpus else {}
    free = {}
    for one in cluster.members():
        own = [other for node, other in others if node == one.id and takes_slot(other)]
        units = min(slots.get(one.id, 0), one.slots.get(ENGINE, 0) - len(own))
        gpus = min(idle.get(one.id, 0), one.gpus - sum(other.num_gpus for other in own))
        if units >= 1 and gpus >= engine.num_gpus:
            free[one.id] = units
    if not free:
        held = "; ".join(cluster.holders())
        needs = _needs(engine, "free ")
        raise InfrastructureError(f"no node of {cluster.where} has {needs}; {f'at work: {held}' if held else REMEDY}")
    return free


def located(engine: EngineConfig, replica: int = 0) -> EngineConfig:
    """The config for one replica's actor: with its own URL, and absolute paths of model files and program, since actors
    do not run in the driver's working directory."""
    if engine.base_urls:
        return engine.model_copy(update={"base_url": engine.urls[replica], "base_urls": (), "replicas": 1})
    if engine.kind not in ("embedded", "server"):
        return engine
    update = {"model": str(Path(engine.model).absolute())} if Path(engine.model).exists() else {}
    program = program_of(shlex.split(engine.command or ""))
    if "/" in program and Path(program).exists():
        update["command"] = (engine.command or "").replace(program, str(Path(program).absolute()), 1)
    return engine.model_copy(update=update)
