"""Where actors and servers stand on a Ray of several raylets, all on this machine: no proof of addressing, since they
share it."""

import json
import os
import shutil
import sys
import tempfile

import pytest

from tests.fakes.processes import ran
from tests.fakes.sweeps import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.ray]

SCRIPT = '''
import asyncio, json, os, signal, subprocess, sys, threading, time
from pathlib import Path
from hc_ray_actors import cluster, ray_cluster
ray_cluster._environment()
import ray
from ray._private.utils import publish_error_to_driver
from ray.cluster_utils import Cluster
from hc_ray.domain.config import EngineConfig
from hc_ray_actors.engine_places import spawn_engine
from hc_ray.machine.processor_use import ray_threads
from hc_ray_actors.ray_token import derived_key
from tests.fakes.launched import COMMAND, listed

OTHER = """
import asyncio, os, sys
from hc_ray_actors.ray_cluster import RayCluster
class Other:
    async def process(self):
        return os.getpid()
crew = RayCluster(address=sys.argv[1])
print(asyncio.run(crew.spawn(Other, node=crew.here).process()), flush=True)
sys.stdin.read()
crew.close()
"""

class Whereabouts:
    async def node(self):
        import ray
        return ray.get_runtime_context().get_node_id()

    async def process(self):
        return os.getpid()

    async def ours(self):
        # Where a method of an actor runs, and whether that is one of Ray's threads; so of the first one.
        own = ray_threads(os.getpid())
        return threading.get_native_id() in own, os.getpid() in own, len(own)

    async def priority(self):
        return os.getpriority(os.PRIO_PROCESS, 0)

class Stopped:
    def __init__(self, told):
        Path(told).write_text("")
        os.kill(os.getpid(), signal.SIGSTOP)

def freed(node, told):
    actor = crew.spawn(Stopped, told, node=node, resource=cluster.SANDBOX, units=1)
    while not os.path.exists(told):
        time.sleep(0.1)
    before = crew.free(cluster.SANDBOX)
    crew.kill(actor)
    cluster.wait_until_free(crew, {(cluster.SANDBOX, node): 1})
    return before.get(node, 0), crew.free(cluster.SANDBOX)[node]

async def stand(actors):
    nodes = await asyncio.wait_for(asyncio.gather(*(actor.node() for actor in actors)), 180)
    return nodes, await actors[0].priority()

def of_another_driver(address):
    # A process of its own, which ends with its standard input.
    with subprocess.Popen([sys.executable, "-c", OTHER, address], stdin=-1, stdout=-1, text=True) as other:
        return int(other.stdout.readline()), sorted(crew.processes())

async def processes(actors):
    return sorted(await asyncio.gather(*(actor.process() for actor in actors)))

async def seen(config):
    engines = [spawn_engine(crew, config)[1] for _ in range(2)]
    ends = await asyncio.gather(*(engine.start() for engine in engines))
    told = [listed(end.base_urls[0], derived_key(end.key_name))["environment"] for end in ends]
    try:
        told.append(str(spawn_engine(crew, config.model_copy(update={"gpus": 2}))))
    except Exception as fault:
        told.append(str(fault))
    await asyncio.gather(*(engine.stop() for engine in engines))
    return told

def heard(address):
    # What Ray tells every driver, as when a process of its dies.
    listener = ray._raylet.GcsErrorSubscriber(worker_id=b"test", address=address)
    listener.subscribe()
    publish_error_to_driver("died", "a paragraph of Ray's", gcs_client=ray._raylet.GcsClient(address=address))
    return listener.poll()[1]["error_message"]

head = {"num_cpus": 1, "num_gpus": 3, "object_store_memory": 80 << 20, "resources": {cluster.ENGINE: 4}}
nodes = Cluster(initialize_head=True, head_node_args=head)
crew = None
try:
    nodes.add_node(num_cpus=2, object_store_memory=80 << 20, resources={cluster.SANDBOX: 1})
    crew = ray_cluster.RayCluster(address="auto")
    actors = [crew.spawn(Whereabouts, node=crew.here) for _ in range(3)]
    [away] = [one.id for one in crew.members() if one.slots[cluster.SANDBOX]]
    elsewhere = crew.spawn(Whereabouts, node=away)
    asyncio.run(elsewhere.process())
    print(json.dumps({
        "up": nodes.address, "head": nodes.head_node.node_id, "where": crew.where, "here": crew.here,
        "away": away, "gpus": {one.id: one.gpus for one in crew.members()}, "freed": freed(away, sys.argv[1]),
        "stand": asyncio.run(stand(actors)), "processes": asyncio.run(processes(actors)),
        "other": of_another_driver(nodes.address), "own": os.getpriority(os.PRIO_PROCESS, 0),
        "servers": asyncio.run(seen(EngineConfig(command=COMMAND, model="m", context_tokens=4096, gpus=1))),
        "heard": heard(nodes.address), "ours": asyncio.run(elsewhere.ours()), "driver": len(ray_threads(os.getpid())),
    }))
finally:
    if crew is not None:
        crew.close()
    nodes.shutdown()
'''


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What was seen there, from a process of its own. Ray notes its current cluster in a folder where nobody else's
    commands find it; its sockets have long paths, so that one is short."""
    for _ in range(3):
        home = tempfile.mkdtemp(prefix="r", dir="/tmp")
        own = {"HC_RAY_HOME": str(tmp_path_factory.mktemp("home")), "RAY_TMPDIR": home, "PYTHONPATH": str(REPOSITORY)}
        environment = {name: value for name, value in (os.environ | own).items() if name != "RAY_ADDRESS"}
        try:
            done = ran(sys.executable, "-c", SCRIPT, f"{home}/stopped", timeout=500, env=environment)
        finally:
            shutil.rmtree(home, ignore_errors=True)
        if (
            "timed out during startup" not in done.stderr
        ):  # Ray gives a node 30 s, which may be short beside other tests
            break
    assert done.returncode == 0, done.stderr[-3000:]
    [seen] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {**seen, "said": done.stdout}


def test_auto_joins_the_ray_that_is_up_and_an_actor_for_the_drivers_node_stands_there(told):
    assert told["where"] == told["up"] and told["here"] == told["head"]
    assert told["away"] != told["here"] and told["gpus"] == {told["here"]: 3, told["away"]: 0}
    places, priority = told["stand"]
    assert set(places) == {told["here"]}  # though the other has more room
    assert priority == told["own"]  # Ray's own way is nice 15


def test_of_the_actors_on_a_drivers_node_those_that_are_its_own_are_known(told):
    other, own = told["other"]
    assert own == told["processes"] and other not in own, "one was started on the other node, too"


def test_rays_threads_in_an_actor_and_in_a_driver_are_known_from_those_that_run_what_is_ours(told):
    runs_in_one, first_is_one, all_in_actor = told["ours"]
    assert first_is_one and not runs_in_one and min(all_in_actor, told["driver"]) > 5


def test_what_ray_tells_of_its_own_is_not_on_standard_output_where_a_command_says_one_object(told):
    assert told["said"].count(told["heard"]) == 1, "as the script itself tells it"


def test_two_servers_of_a_node_have_gpus_of_their_own_and_one_for_which_too_few_are_left_is_refused(told):
    one, other, refusal = told["servers"]
    assert {one["CUDA_VISIBLE_DEVICES"], other["CUDA_VISIBLE_DEVICES"]} < {"0", "1", "2"} and one != other
    assert one["HC_RAY_ENGINE_KEY"] and "free GPU(s) (engine.gpus)" in refusal


def test_a_process_that_was_stopped_while_its_actor_was_made_holds_its_slot_no_more_when_it_is_ended(told):
    assert told["freed"] == [0, 1]
