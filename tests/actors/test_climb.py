"""Climbs by sweeps with played actors: a trial passes where its config has a hint that the meta-reasoner knows of."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from hc_ray.cli.config_loader import exported_config
from hc_ray.cli.text import tell_climb_plan
from hc_ray.domain.config import EngineConfig, SweepConfig
from hc_ray.domain.errors import ConfigError, EngineError, InfrastructureError, OutputError
from hc_ray.domain.events import TrialComplete
from hc_ray.domain.prompt import Message, Prompt
from hc_ray.reports.report import summarise
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver.crew import posts
from hc_ray_actors.driver.resumption import stored_config
from hc_ray_actors.jobs import climb, climb_story, meta_reasoner
from hc_ray_actors.role_models import role_models
from tests.fakes.answers import HINT
from tests.fakes.climbs import TASKS, Watch, climbed, given
from tests.fakes.crew import Lagging
from tests.fakes.engine_server import EngineServer
from tests.fakes.screen import said
from tests.fakes.scripts import echo_request

__all__ = ["given"]


def records(out):
    return {path.name: path.read_bytes() for path in Path(out, "climb").iterdir()}


class Killed(Watch):
    """Kills this process when the first trial of a stage has ended."""

    def __init__(self, given, stage):
        super().__init__()
        self.sweeps, self.stage = Path(given["out"], "sweeps"), stage

    def emit(self, event):
        if isinstance(event, TrialComplete) and max(self.sweeps.iterdir()).name.endswith(self.stage):
            os.kill(os.getpid(), signal.SIGKILL)


def killed(given, stage):
    climbed(given, Killed(given, stage), resume=Path(given["out"], climb.SETTINGS).exists())


def test_a_climb_whose_driver_was_interrupted_and_killed_goes_on_to_the_same_records_and_champion(given, tmp_path):
    given["climb"] |= {"generations": 2}
    whole = climbed(given | {"out": str(tmp_path / "whole")}, all_of_it := Watch())
    (path,) = [one for one in whole["proposals"] if one["verdict"] == "accepted"]
    assert (path["knob"], path["after"]) == ("solver.hint", HINT)
    stages = [purpose.split(": ")[0] for purpose in all_of_it.purposes]
    assert all_of_it.purposes[0] == "generation 1, race: the incumbent (control)"
    assert all_of_it.waited == ["asking the meta-reasoner"] * 2
    assert stages[1:4] == ["generation 1, race", "generation 1, confirmation", "generation 2, race"]
    assert path["evidence"][-1]["delta"] == 1.0
    reasons = [one["reason"] for one in whole["proposals"] if one["proposer"] == "rules"]
    assert len(reasons) == 1 and "would change nothing" in reasons[0], "who says the same again has lost the turn"
    with pytest.raises(KeyboardInterrupt):
        climbed(given, Watch(2))
    with pytest.raises(OutputError, match="--resume"):
        climbed(given, Watch())
    with pytest.raises(OutputError, match=r"other settings \(budget\)"):
        climbed(given | {"budget": {"tokens": 5000}}, Watch(), resume=True)
    trials = Path(given["out"], "sweeps")
    for stage in ("race", "confirm"):
        code = "import json, sys; from tests.actors.test_climb import killed; killed(*json.loads(sys.argv[1]))"
        gone = subprocess.run(
            [sys.executable, "-c", code, json.dumps([given, stage])], capture_output=True, timeout=300
        )
        assert gone.returncode == -signal.SIGKILL, gone.stderr
        inner = max(trials.iterdir())
        assert b'"decision":null' in records(given["out"])["1-0.json"].replace(b" ", b"")
        for place in (str(inner), given["out"]):
            with pytest.raises(OutputError, match=f"hc-ray climb --resume -o {given['out']}"):
                stored_config(place)
    stored = len(list(trials.glob("*/trials/*/result.json")))
    going = climb.prepare(SweepConfig.model_validate(climb.stored_settings(given["out"])), resume=True)
    assert "0 generations (0 tokens), accepted: no change; another is in progress" in said(tell_climb_plan, going)
    again = climbed(climb.stored_settings(given["out"]), rest := Watch(), resume=True)
    assert records(given["out"]) == records(str(tmp_path / "whole"))
    assert stored + rest.ended == all_of_it.ended == len(whole["trials"]) == whole["bits"], "no stored trial ran twice"
    assert all(again[name] == whole[name] for name in ("climb", "bits", "proposals", "proposers"))
    ended = climb.prepare(SweepConfig.model_validate(climb.stored_settings(given["out"])), resume=True)
    assert f"2 generations ({again['climb']['tokens']:,} tokens), accepted: hint: " in said(tell_climb_plan, ended)
    end = json.loads(Path(given["out"], "climb.json").read_text())
    assert (end["ended_by"], end["accepted"]) == (again["climb"]["ended_by"], 1)
    told = [summarise(SweepStore(folder))["configs"] for folder in end["sweeps"]]
    assert [len(one) for one in told[:3]] == [1, 3, 2] and {one["trials"] for one in told[0]} == {TASKS}
    champion = SweepConfig.model_validate(exported_config(f"{given['out']}/champion.yaml")["settings"])
    assert (champion.solver.hint, champion.agents) == (HINT, ("hc",))
    written = yaml.safe_load(Path(given["out"], "champion.yaml").read_text())
    assert written["found"] == {"accepted": 1, "says": f"tuned on {TASKS} dev tasks"}
    assert len(written["tuned_on"]) == TASKS
    assert again["proposers"]["meta-reasoner"]["accepted"] == 1


def test_the_plan_tells_tokens_and_time_of_a_generation_a_confirmation_and_the_whole(given):
    given["climb"] |= {"generations": 3, "looks": [1, 1], "confirm": [2]}
    plan = climb.prepare(SweepConfig.model_validate(given))
    tokens, seconds = plan.sweep.estimated_tokens // TASKS, plan.sweep.estimated_seconds / TASKS
    trials = (TASKS * 4 * 2, TASKS * 2 * 2, TASKS * 4 * (2 + 2) * 3)
    assert plan.cost == tuple((count * tokens, pytest.approx(count * seconds)) for count in trials)
    told = said(tell_climb_plan, plan)
    assert f"({trials[0] * tokens:,} tokens) per generation" in told and "already done" not in told
    few = plan.model_copy(update={"terms": plan.terms.model_copy(update={"tokens": 100 * tokens})})
    assert few.cost[-1] == (100 * tokens, pytest.approx(100 * seconds)), "its tokens end it"


def test_when_the_tokens_are_spent_no_trial_starts_and_what_is_undecided_is_reverted(given):
    del given["sandbox"]
    given["budget"], given["concurrency"] = {"tokens": 30}, 1
    given["solver"] = {"testgen": {"budget_tokens": 0}}
    given["climb"] |= {"tokens": 1800}
    summary = climbed(given, Watch())
    assert summary["climb"]["ended_by"] == "tokens" and 1800 <= summary["climb"]["tokens"] < 1800 + 42
    assert {one["verdict"] for one in summary["proposals"]} <= {"undecided", "reverted"}
    champion = SweepConfig.model_validate(exported_config(f"{given['out']}/champion.yaml")["settings"])
    assert champion.sandbox == "auto", "as it was given, whatever this machine had"


def test_the_meta_reasoners_server_is_asked_one_question_where_its_plan_saw_what_it_can_do(home):
    with EngineServer(echo_request) as server:
        engine, looked = EngineConfig(kind="openai", base_url=server.base_url, model="fake"), {}
        role_models(SweepConfig(engine=engine), looked)
        plan, seen = SimpleNamespace(seen=lambda engine, replica: looked[engine][replica]), len(server.bodies())
        prompt = Prompt(role="meta", purpose="propose", messages=(Message(role="user", content="What next?"),))
        assert asyncio.run(meta_reasoner.answer(engine, plan, Cluster(), prompt)).text.startswith("answer")
        assert seen > 1 and len(server.bodies()) == seen + 1
        assert server.bodies()[-1]["max_tokens"] == 4000, "its server got the profile `capable`"


@pytest.mark.parametrize(("comes_up", "fault"), [(True, "no memory"), (False, "did not start within 0.1 s")],
                         ids=["does not start", "whose process hangs"])  # fmt: skip
def test_the_slot_of_a_meta_reasoners_engine_that_does_not_answer_is_free_again(monkeypatch, comes_up, fault):
    monkeypatch.setattr(posts, "START_SECONDS", 0.1)

    def start(name):
        raise EngineError("no memory")

    engine = EngineConfig(command="vllm", model="m", context_tokens=4096, gpus=0)
    world = Lagging(alive=lambda name: asyncio.sleep(0 if comes_up else 60), engine=start)
    plan, prompt = SimpleNamespace(seen=lambda engine, replica: None), Prompt(role="meta", purpose="propose")
    with pytest.raises(InfrastructureError, match=fault):
        asyncio.run(meta_reasoner.answer(engine, plan, world, prompt))
    assert world.looks == 4


def test_a_tracker_that_hangs_holds_a_climb_up_for_a_while_and_no_longer(monkeypatch):
    class World:
        where, here, told = "in-process", "here", []

        def spawn(self, cls, uri, out, *, node):
            return self

        async def tell(self, story, status):
            self.told.append(status)
            await asyncio.sleep(20)
            self.told.append("waited for")

    story = SimpleNamespace(model_dump_json=lambda: "{}")
    monkeypatch.setattr(climb_story, "climb_story", lambda out, whole: story)
    monkeypatch.setattr(climb_story.verifiers, "leaks", lambda root, blobs: False)
    monkeypatch.setattr(climb_story, "WAIT", 0.05)
    monkeypatch.setattr(climb_story, "PATIENCE", 0.05)
    monkeypatch.setattr(climb_story, "LONGEST", 0.05)
    notes = []
    with (
        pytest.raises(KeyboardInterrupt),
        climb_story.told("uri", "out", cluster=World(), sealed_root="", note=notes.append) as more,
    ):
        more()
        raise KeyboardInterrupt
    with climb_story.told("uri", "out", cluster=World(), sealed_root="", note=notes.append):
        """It ends by itself."""
    assert World.told == ["RUNNING", "KILLED", "FINISHED"]
    assert notes == ["not exported to MLflow: no answer in time; to export: hc-ray export mlflow out"] * 2


@pytest.mark.parametrize(("more", "says"), [
    ({"split": "holdout"}, "dev only"), ({"agents": ["raw", "hc"]}, "tunes only hc"),
    ({"grid": {"solver.samples": [1, 2]}}, "proposes its own changes"), ({"seeds": 2}, "climb.looks"),
    ({"climb": {"tokens": 1000}}, "may not pay for one look"), ({"limit": 5}, "on 5 tasks no change can be accepted"),
])  # fmt: skip
def test_what_no_climb_can_be_is_refused_in_one_line(given, more, says):
    with pytest.raises(ConfigError) as refused:
        climb.prepare(SweepConfig.model_validate(given | more))
    assert says in str(refused.value) and "\n" not in str(refused.value)
