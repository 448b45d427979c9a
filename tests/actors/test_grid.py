"""One sweep over several configs, with real sandboxes and a scripted model: one plan, shared suites, one resume, and a
report that tells the configs apart."""

import json
from pathlib import Path

import pytest

from hc_ray.cli.text import plan_data
from hc_ray.domain.config import EngineConfig, SweepConfig
from hc_ray.domain.errors import OutputError
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver import sweep
from hc_ray_actors.driver.plan import prepare
from hc_ray_actors.driver.resumption import stored_config
from tests.fakes.crew import Watcher
from tests.fakes.sandbox_home import data_home
from tests.fakes.tasks import make_task

ADDS, WAVERS = (f"tests.fakes.answers:{name}" for name in ("adds", "wavers"))


@pytest.fixture
def given(tmp_path):
    make_task(tmp_path / "set")
    with data_home():
        yield {
            "dataset": str(tmp_path / "set"), "agents": ["raw", "hc"], "sandbox": "bwrap", "mlflow_uri": "none",
            "out": str(tmp_path / "out"), "engine": EngineConfig(kind="scripted", script=ADDS).model_dump(),
        }  # fmt: skip


def run(given, *, resume=False, **more):
    plan = prepare(SweepConfig.model_validate(given), resume=resume)
    return sweep.run(plan, events=Watcher(), cluster=Cluster(), **more)


def test_configs_share_suites_and_a_trial_that_an_agent_cannot_tell_apart_and_one_resume_ends_them_all(given):
    given |= {"configs": [{"name": "wide", "solver.samples": 6}, {"name": "base"}]}
    out = Path(given["out"])
    assert (run(given, max_trials=2).done, len(list(out.glob("suites/*.json")))) == (2, 1)
    again = stored_config(str(out)).model_dump(mode="json", exclude_unset=True)
    assert run(again | {"out": str(out)}, resume=True).done == 3
    (suite,) = out.glob("suites/*.json")
    report = json.loads((out / "report.json").read_text())
    rows = [(one["label"], one["trials"]) for one in report["configs"]]
    assert rows == [("raw", 1), ("hc (wide)", 1), ("hc (base)", 1)]
    assert [one["config"] for one in report["configs"]] == ["", "wide: samples=6", "base: samples=4"]
    told = [json.loads(path.read_text())["agent_result"]["metadata"] for path in out.glob("trials/*/result.json")]
    assert {one["suite_key"] for one in told if one["agent"] == "hc"} == {suite.stem}
    pairs = [(one["a"], one["b"]) for one in report["comparisons"]]
    assert pairs == [("hc (wide)", "raw"), ("hc (base)", "raw"), ("hc (base)", "hc (wide)")]
    # Nothing is left to do, and another grid is another sweep.
    assert prepare(SweepConfig.model_validate(given), resume=True).done == 3
    with pytest.raises(OutputError, match="different config"):
        prepare(SweepConfig.model_validate(given | {"grid": {"solver.repairs": [0, 1]}}), resume=True)
    with pytest.raises(OutputError, match=r"config \(budget\.tokens: \d+ there, 99000 here\); leave out what differs"):
        prepare(SweepConfig.model_validate(given | {"budget": {"tokens": 99000}}), resume=True)


def test_configs_may_have_engines_of_their_own(given):
    run(given | {"agents": ["raw"], "grid": {"engine.script": [ADDS, WAVERS]}})
    sweep_json = json.loads((Path(given["out"]) / "sweep.json").read_text())
    report = json.loads((Path(given["out"]) / "report.json").read_text())
    assert set(sweep_json["engines"]) == {ADDS, WAVERS}
    rates = {one["config"]: one["blind_pass"]["value"] for one in report["configs"]}
    assert rates[f"script={ADDS}"] == 1.0 and set(rates) == {f"script={ADDS}", f"script={WAVERS}"}
    names = {json.loads(path.read_text())["agent_info"]["model_info"]["name"]
             for path in Path(given["out"]).glob("trials/*/result.json")}  # fmt: skip
    assert names == {ADDS, WAVERS}


def test_the_plan_lists_the_configs_and_their_trials_side_by_side(given):
    plan = prepare(SweepConfig.model_validate(given | {"seeds": 2, "grid": {"solver.samples": [2, 4]}}))
    data = plan_data(plan)
    assert [(one["name"], one["differs"]) for one in data["configs"]] == [("samples=2",) * 2, ("samples=4",) * 2]
    assert [(key.seed, key.agent, key.solver.samples) for key in plan.trials] == [
        (seed, agent, samples) for seed in (0, 1) for agent, samples in (("raw", 2), ("hc", 2), ("hc", 4))
    ]
    assert len(data["trials"]) == 6 and plan.arms == 3
