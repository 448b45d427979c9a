"""A whole sweep against a server of our own: which requests reach it, and what the trials are told and charged."""

import itertools
import json
import shutil
from collections import Counter
from types import SimpleNamespace

from hc_ray.domain.config import SolverConfig, TestgenConfig
from hc_ray.stores.sweep_directory import SweepStore
from tests.boundary.noninterference.datasets import only_add
from tests.fakes.engine_server import EngineServer
from tests.fakes.recording import record
from tests.fakes.sandbox_home import data_home
from tests.fakes.unsteady_model import answer

SOLVER = SolverConfig(samples=2, max_rounds=2, testgen=TestgenConfig(total_min=3, total_max=6, budget_tokens=600))
AGENTS = ("raw", "best_of_n", "hc")


def swept(root, answers, agents=AGENTS):
    """One sweep after its plan: how often the server was sent each request, how many others it was sent, how many were
    reused, and what each trial was charged."""
    with data_home() as home:
        place = home / f"equal-{root.name}"
        place.mkdir()
        try:
            with EngineServer(answers) as server:
                record(place, home, server, only_add, agents=agents, solver=SOLVER, concurrency=3)
                sent = Counter(
                    json.dumps(body, sort_keys=True) for body in server.bodies() if "two numbers" in str(body)
                )
                probes = len(server.bodies()) - sent.total()
            store = SweepStore(str(place / "out"))
            results = [json.loads(path.read_text()) for path in (place / "out").glob("trials/*/result.json")]
            events = [json.loads(line) for path in store.list("events") for line in store.read(path).splitlines()]
        finally:
            shutil.rmtree(place)
    reused = sum(event["reused"] for event in events if event["type"] == "engine_use")
    charged = {one["agent_info"]["name"]: one["agent_result"]["n_output_tokens"] for one in results}
    return SimpleNamespace(sent=sent, probes=probes, reused=reused, charged=charged)


def test_a_server_that_honours_seeds_is_sent_no_request_twice_and_every_trial_is_charged_as_if_alone(tmp_path):
    found = swept(tmp_path, answer)
    assert len(found.charged) == 3 and found.sent and max(found.sent.values()) == 1 and found.reused >= 2
    assert found.probes == 0, "what it can do was seen when the sweep was planned"
    for agent, tokens in found.charged.items():
        assert tokens >= found.charged["raw"] > 0, agent


def test_a_server_that_draws_anew_is_sent_what_each_trial_asks(tmp_path):
    number = itertools.count()
    found = swept(tmp_path, lambda body: f"{answer(body)}# {next(number)}\n", AGENTS[:2])
    assert max(found.sent.values()) == 2 and found.reused == 0
