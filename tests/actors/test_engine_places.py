"""Where an engine's servers stand on a cluster, where they listen, and who may ask them."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from hc_ray.domain.errors import EngineError, InfrastructureError, PlatformError
from hc_ray.domain.prompt import Prompt
from hc_ray.engines import catalogue
from hc_ray.engines.embedded import EmbeddedServer
from hc_ray.engines.http import HttpModel
from hc_ray_actors.cluster import ENGINE
from hc_ray_actors.ray_token import derived_key, token_file
from tests.fakes.crew import Stage, plan_of, run
from tests.fakes.processes import ran
from tests.fakes.sweeps import REPOSITORY


def served(plan, replicas=1):
    """The plan with an engine that needs a slot."""
    engine, profile, digest = plan.models["solver"]
    engine = engine.model_copy(update={"kind": "embedded", "replicas": replicas})
    return plan.model_copy(update={"models": {"solver": (engine, profile, digest)}})


def test_an_engines_replicas_take_turns_on_the_nodes_for_engines_and_a_lost_nodes_goes_to_another(tmp_path):
    stage = Stage()
    stage.nodes = ["a", "b", "c"]
    stage.die_once("Engine", "solve", EngineError("no route to host"))
    die = stage.scripts["solve"]

    def lose(name):
        stage.nodes = ["a", "b"]
        return die(name)

    stage.scripts["solve"] = lose
    summary, _ = run(served(plan_of(tmp_path / "out"), 3), stage)
    assert (summary.done, summary.unscored) == (2, 0) and stage.stood["Engine"] == ["a", "b", "c", "a"]


def test_without_a_node_for_engines_a_sweep_says_so_before_its_first_trial(tmp_path, monkeypatch):
    stage = Stage()
    monkeypatch.setattr(stage, "free", lambda resource: {} if resource == ENGINE else {"here": 4.0})
    with pytest.raises(InfrastructureError, match="no node of in-process has a free engine_slot"):
        run(served(plan_of(tmp_path / "out")), stage)
    assert stage.count("solve") == 0


def test_a_key_is_worked_out_wherever_the_token_is_and_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path))
    token = token_file()
    key = derived_key("engine 1")
    assert key != derived_key("engine 2") and token.read_text() not in key
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))  # as on a node of cluster.yaml
    assert derived_key("engine 1") == key
    token.write_text("of another cluster")
    assert derived_key("engine 1") != key
    token.unlink()
    with pytest.raises(PlatformError, match="this node has no token of its Ray cluster"):
        derived_key("engine 1")


GPUS = """
import asyncio, json, sys
from hc_ray_actors import cluster, ray_cluster
ray_cluster._environment()
from ray.cluster_utils import Cluster
from hc_ray.domain.config import EngineConfig
from hc_ray_actors.engine import spawn_engine
from hc_ray_actors.ray_token import derived_key
from tests.contract.test_launched_server import COMMAND, listed

own = {"num_cpus": 1, "num_gpus": 3, "object_store_memory": 80 << 20, "resources": {cluster.ENGINE: 4}}
nodes = Cluster(initialize_head=True, head_node_args=own)
crew = None

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

try:
    crew = ray_cluster.RayCluster(address="auto")
    print(json.dumps(asyncio.run(seen(EngineConfig(command=COMMAND, model="m", context_tokens=4096, gpus=1)))))
finally:
    if crew is not None:
        crew.close()
    nodes.shutdown()
"""


@pytest.mark.slow
@pytest.mark.ray
def test_two_servers_of_a_node_have_gpus_of_their_own_and_one_for_which_too_few_are_left_is_refused(tmp_path):
    home = tempfile.mkdtemp(prefix="r", dir="/tmp")  # the paths of Ray's sockets are long
    environment = {**os.environ, "HC_RAY_HOME": str(tmp_path), "RAY_TMPDIR": home, "PYTHONPATH": str(REPOSITORY)}
    environment.pop("RAY_ADDRESS", None)
    try:
        done = ran(sys.executable, "-c", GPUS, timeout=180, env=environment)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-3000:]
    one, other, refusal = json.loads(done.stdout.strip().splitlines()[-1])
    assert {one["CUDA_VISIBLE_DEVICES"], other["CUDA_VISIBLE_DEVICES"]} < {"0", "1", "2"} and one != other
    assert one["HC_RAY_ENGINE_KEY"] and "free GPU(s) (engine.gpus)" in refusal


@pytest.mark.engine
async def test_a_server_with_a_key_listens_where_it_is_told_and_answers_only_who_has_the_key(tmp_path):
    log, key = tmp_path / "engine.log", "of-this-sweep-alone"
    weights = catalogue.pull("smollm2-135m-instruct")
    server = EmbeddedServer(weights, parallel=1, context_tokens=256, log_path=log, host="127.0.0.2", key=key)
    prompt = Prompt(role="solver", purpose="test", text="def add(a, b):\n    return", max_tokens=4)
    try:
        url = server.start()
        assert url.startswith("http://127.0.0.2:")
        words = Path(f"/proc/{server.pid}/cmdline").read_text()
        for given in (key, "a-guess", None):
            client = HttpModel(url, "any", api_key=given, retries=0)
            if given == key:
                assert (await client.complete(prompt)).text
            else:
                with pytest.raises(EngineError, match="401"):
                    await client.complete(prompt)
            await client.aclose()
    finally:
        server.stop()
    assert key not in words and key not in log.read_text()
