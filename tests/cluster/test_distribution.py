"""What nodes lack reaches them once, and costs the head's wire about as much as there is of it."""

import json
import os
import shlex
import sys

import pytest

from tests.cluster.conftest import WORK, cluster_of
from tests.fakes.recording import files_of
from tests.fakes.tasks import make_task

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCRIPT = """
import asyncio, json
from pathlib import Path
from hc_ray.blind.sealing import vault
from hc_ray.domain.config import EngineConfig
from hc_ray_actors.cluster import ENGINE
from hc_ray_actors.ray_cluster import RayCluster
from hc_ray_actors.driver.crew.distribution import Deliveries, furnish
from hc_ray_actors.engine import Engine
from hc_ray_actors.role_models import role_model
from hc_ray_actors.sandboxes import Sandboxes
from hc_ray_actors.verifiers import Verifiers

def sent():
    [line] = [line for line in Path("/proc/net/dev").read_text().splitlines() if "eth0:" in line]
    return int(line.split()[9])

async def deliver():
    nodes = [member.id for member in cluster.members() if member.slots.get(ENGINE)]
    sandboxes = [cluster.spawn(Sandboxes, "bwrap", None, 1, node=node) for node in nodes]
    verifiers = [cluster.spawn(Verifiers, "bwrap", None, None, 1, node=node) for node in nodes]
    engine, _, _ = role_model(EngineConfig(model="/tmp/m.gguf"))
    engines = [cluster.spawn(Engine, engine, node=node) for node in nodes]
    await asyncio.gather(*(actor.missing([]) for actor in sandboxes), *(actor.missing({}) for actor in verifiers))
    parcels, before = Deliveries(cluster, "/srv/public", "/srv/sealed", dataset.tasks), sent()
    await asyncio.gather(*map(parcels.to_sandboxes, sandboxes), *map(parcels.to_verifiers, verifiers))
    tasks = sent() - before
    await asyncio.gather(*(furnish(cluster, actor, engine) for actor in engines))
    return {"tasks": tasks, "weights": sent() - before - tasks, "sha256": engine.sha256}

dataset = vault.seal(Path("/tmp/tasks"), Path("/srv/public"), Path("/srv/sealed"))
cluster = RayCluster(address="auto")
try:
    print(json.dumps(asyncio.run(deliver())))
finally:
    cluster.close()
"""
PART = 4 << 20


def test_tasks_and_weights_cost_the_head_at_most_a_fifth_more_than_their_size_for_each_node():
    with cluster_of(3) as cluster:
        head = cluster.head.folder
        for number in range(4):
            task = make_task(head / "tmp/tasks", f"add{number}", instruction=f"Write `add.py`, which adds {number}.\n")
            for part in ("environment", "tests"):
                (task / part / "data").write_bytes(os.urandom(PART))
        (head / "tmp/m.gguf").write_bytes(b"GGUF" + os.urandom(8 * PART))
        cluster.join(cluster.head)
        for host in cluster.hosts[1:]:
            cluster.join(host, engine_slot=1, **WORK)
        done = cluster.head.run(shlex.join([sys.executable, "-c", SCRIPT]), timeout=200)
        assert done.returncode == 0, done.stderr[-2000:]
        told = json.loads(done.stdout.strip().splitlines()[-1])
        for host in cluster.hosts[1:]:
            for root in ("public", "sealed"):
                assert files_of(host.folder / "srv" / root) == files_of(head / "srv" / root)
            [kept] = (host.folder / "srv/models/by-digest" / told["sha256"]).glob("*.gguf")
            assert kept.read_bytes() == (head / "tmp/m.gguf").read_bytes()
        assert told["tasks"] <= 1.2 * 2 * 4 * 2 * PART and told["weights"] <= 1.2 * 2 * 8 * PART, told
