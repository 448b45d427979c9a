"""Where actors stand on a Ray of several raylets, all on this machine: no proof of addressing, since they share it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.ray]

SCRIPT = """
import asyncio, json, os, sys
from hc_ray_actors import cluster, ray_cluster
ray_cluster._environment()
import ray
from ray.cluster_utils import Cluster

class Whereabouts:
    async def node(self):
        import ray
        return ray.get_runtime_context().get_node_id()

    async def priority(self):
        return os.getpriority(os.PRIO_PROCESS, 0)

async def stand(actors):
    nodes = await asyncio.wait_for(asyncio.gather(*(actor.node() for actor in actors)), 60)
    return nodes, await actors[0].priority()

nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80 << 20})
crew = None
try:
    nodes.add_node(num_cpus=4, object_store_memory=80 << 20, resources={cluster.SANDBOX: 1})
    crew = ray_cluster.RayCluster(address="auto")
    actors = [crew.spawn(Whereabouts, node=crew.here) for _ in range(3)]
    print(json.dumps({
        "up": nodes.address, "head": nodes.head_node.node_id, "where": crew.where, "here": crew.here,
        "sandboxes": [one.id for one in crew.members() if one.slots[cluster.SANDBOX]],
        "stand": asyncio.run(stand(actors)), "own": os.getpriority(os.PRIO_PROCESS, 0),
    }))
finally:
    if crew is not None:
        crew.close()
    nodes.shutdown()
"""


@pytest.fixture
def ray_home():
    """Where Ray notes its current cluster: nobody else's commands find the one of these tests. Its sockets have long
    paths, so its own is short."""
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_auto_joins_the_ray_that_is_up_and_an_actor_for_the_drivers_node_stands_there(ray_home, tmp_path):
    environment = {**os.environ, "HC_RAY_HOME": str(tmp_path), "RAY_TMPDIR": ray_home}
    environment.pop("RAY_ADDRESS", None)
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=180, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["where"] == told["up"] and told["here"] == told["head"]
    assert len(told["sandboxes"]) == 1 and told["here"] not in told["sandboxes"]
    places, priority = told["stand"]
    assert set(places) == {told["here"]}  # though the other has more room
    assert priority == told["own"]  # Ray's own way is nice 15
