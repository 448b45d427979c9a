"""Where an engine's servers stand on a cluster, where they listen, and who may ask them."""

import asyncio
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from hc_ray.domain.config import EngineConfig, SweepConfig
from hc_ray.domain.errors import EngineError, PlatformError
from hc_ray.domain.prompt import Prompt
from hc_ray.engines import catalogue
from hc_ray.engines.embedded import EmbeddedServer
from hc_ray.engines.http import HttpModel
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors import cluster
from hc_ray_actors.cluster import ENGINE, laptop_slots
from hc_ray_actors.driver.plan import prepare
from hc_ray_actors.driver.results import write_sweep
from hc_ray_actors.ray_token import derived_key, token_file
from tests.fakes.crew import Stage, plan_of, run
from tests.fakes.sandbox_home import data_home
from tests.fakes.tasks import make_task


def served(plan, replicas=1):
    """The plan with an engine that needs a slot."""
    engine, profile, digest = plan.models["solver"]
    engine = engine.model_copy(update={"kind": "embedded", "replicas": replicas})
    return plan.model_copy(update={"models": {"solver": (engine, profile, digest)}})


def test_an_engines_replicas_take_turns_on_the_nodes_for_engines_and_a_lost_nodes_goes_to_another(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("hc_ray_actors.cluster.FREE_SECONDS", 0.1)  # the slots of a lost node are never free
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


def two_engines(plan):
    """The plan with another engine for the tester, which is the first."""
    engine, profile, digest = plan.models["solver"]
    first = (engine.model_copy(update={"script": "nowhere:first"}), profile, "another")
    return plan.model_copy(update={"models": {"tester": first, "solver": (engine, profile, digest)}})


@pytest.mark.parametrize(("slots", "gpus"), [(1, 8), (4, 3)])
def test_an_engine_for_which_another_of_the_sweep_leaves_no_room_is_told_of_at_once(tmp_path, slots, gpus):
    class Cluster(Stage):
        def members(self):  # its free slots and cards are told as they were before
            return [
                one.model_copy(update={"gpus": gpus, "slots": {**one.slots, ENGINE: slots}})
                for one in super().members()
            ]

    stage, plan = Cluster(), two_engines(served(plan_of(tmp_path / "out")))
    update = {"kind": "server", "command": "vllm", "gpus": 2}
    both = {role: (engine.model_copy(update=update), *rest) for role, (engine, *rest) in plan.models.items()}
    with pytest.raises(PlatformError, match="has a free engine_slot and 2 free GPU"):
        run(plan.model_copy(update={"models": both}), stage)
    assert stage.stood["Engine"] == ["here"] and stage.count("solve") == 0


def test_engines_start_at_the_same_time_and_one_that_cannot_ends_the_sweep_while_another_is_still_starting(tmp_path):
    async def fails(name):
        if stage.count("engine") == 1:
            await asyncio.wait_for(asyncio.Event().wait(), 20)
        raise EngineError("no such weights")

    stage = Stage(engine=fails)
    with pytest.raises(EngineError, match="no such weights"):
        run(two_engines(plan_of(tmp_path / "out")), stage)
    assert stage.count("solve") == 0 and len(stage.living["Engine"]) == 2
    assert all(engine.dead for engine in stage.living["Engine"])


def test_without_a_node_for_engines_a_sweep_says_so_at_once(tmp_path, monkeypatch):
    stage = Stage(report=lambda kind: asyncio.sleep(60))
    monkeypatch.setattr(stage, "free", lambda resource: {} if resource == ENGINE else {"here": 4.0})
    began = time.monotonic()
    with pytest.raises(PlatformError, match="no node of in-process has a free engine_slot"):
        run(served(plan_of(tmp_path / "out")), stage)
    assert stage.count("report") and stage.count("solve") == 0 and time.monotonic() - began < 30


@pytest.mark.parametrize(("gpus", "slots", "fits"), [(0, 1, False), (2, 0, False), (2, 1, True)])
def test_an_engine_that_no_node_of_the_cluster_can_hold_is_refused_where_the_sweep_is_planned(
    tmp_path, gpus, slots, fits
):
    class Cluster(cluster.Cluster):
        def members(self):
            has = {"gpus": gpus, "slots": {**laptop_slots(), ENGINE: slots}}
            return [one.model_copy(update=has) for one in super().members()]

    make_task(tmp_path / "set")
    engine = EngineConfig(kind="server", command="vllm", model="m", context_tokens=4096, gpus=2)
    config = SweepConfig(dataset=str(tmp_path / "set"), engine=engine, sandbox="bwrap", out=str(tmp_path / "out"))
    says = r"no node of in-process has an engine_slot and 2 GPU\(s\) \(engine.gpus\); `ray status`"
    with data_home():
        with nullcontext() if fits else pytest.raises(PlatformError, match=says):
            prepare(config, cluster=Cluster())
        store = SweepStore((plan := prepare(config)).out)
        write_sweep(store, plan, 0)
        for key in plan.trials:
            store.write(f"trials/{key.name}/result.json", b"{\n\n}")
        assert prepare(config, resume=True, cluster=Cluster()).done == 3, "where nothing is left to run, none is needed"


def test_a_key_is_worked_out_wherever_the_token_is_and_nowhere_else(home, monkeypatch):
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


@pytest.mark.engine
@pytest.mark.parametrize(("host", "named"), [("127.0.0.2", "127.0.0.2"), ("::1", "[::1]")])
async def test_a_server_with_a_key_listens_where_it_is_told_and_answers_only_who_has_the_key(host, named, tmp_path):
    log, key = tmp_path / "engine.log", "of-this-sweep-alone"
    weights = catalogue.pull("smollm2-135m-instruct")
    server = EmbeddedServer(weights, parallel=1, context_tokens=256, log_path=log, host=host, key=key)
    prompt = Prompt(role="solver", purpose="test", text="def add(a, b):\n    return", max_tokens=4)
    try:
        url = server.start()
        assert url.startswith(f"http://{named}:")
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
