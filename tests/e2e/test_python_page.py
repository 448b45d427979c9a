"""The page on Python, followed word by word, and agents of a user's own on Ray."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from hc_ray import api
from tests.fakes.pages import lay_out
from tests.fakes.processes import ran
from tests.fakes.sweeps import REPOSITORY, command, results
from tests.fakes.tasks import make_task

NO_DOCKER = {"DOCKER_HOST": "unix:///nowhere", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def followed(tmp_path_factory) -> tuple[Path, list[str]]:
    """A folder in which the page was followed, and what that printed."""
    folder = tmp_path_factory.mktemp("page")
    script = lay_out(REPOSITORY / "docs/python.md", folder)
    done = ran(sys.executable, script, cwd=folder, env={**os.environ, **NO_DOCKER}, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return folder, done.stdout.splitlines()


def test_the_pages_sweeps_plans_errors_and_tables_are_what_it_says(followed) -> None:
    _, printed = followed
    rows = [line for line in printed if line.startswith("{'agent'")]
    assert sorted(rows) == [f"{{'agent': '{agent}', 'seed': {seed}, 'passed': {passed}}}"
                            for agent, seed, passed in (("hc", 0, True), ("hc", 1, True),
                                                        ("raw", 0, True), ("raw", 1, False))]  # fmt: skip
    assert "4 trials of ['first'] in bwrap" in printed
    assert any("'hcc' is not allowed (did you mean hc?)" in line for line in printed)
    assert any(line.startswith("0 [{'outcome': 'pass', 'test_count': ") for line in printed)


def test_an_agent_and_a_selector_of_ones_own_run_beside_raw_and_hc_in_one_sweep(followed) -> None:
    folder, _ = followed
    configs = api.Results.open(folder / "runs/compared").report()["configs"]
    passed = {config["agent"].partition("@")[0]: config["blind_pass"]["value"] for config in configs}
    assert passed == {"raw": 1.0, "hc": 1.0, "my_agents:Patient": 1.0, "my_agents:Drafts": 1.0}
    assert all(len(config["agent"].partition("@")[2]) == 12 for config in configs if ":" in config["agent"])
    chose = {
        result["agent_result"]["metadata"]["selection"]["selector"].partition("@")[0]
        for result in results(folder / "runs/compared").values()
        if result["agent_result"]["metadata"]["agent"] == "hc"
    }
    assert chose == {"posterior", "my_selectors:fewest_failures"}


async def test_the_library_works_where_a_loop_runs_already_and_tells_what_happens(followed, monkeypatch) -> None:
    folder, _ = followed
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DOCKER_HOST", NO_DOCKER["DOCKER_HOST"])
    monkeypatch.syspath_prepend(str(folder))
    heard: list[api.Event] = []
    plan = api.plan({"dataset": "my-tasks", "agents": ["nop"], "out": "runs/loop"}, mlflow_uri="none")
    ended = api.sweep(plan, in_process=True, on_event=heard.append)
    assert ended.unscored == 0 and ended.trials().select(["agent", "passed"]).to_pylist() == [
        {"agent": "nop", "passed": False}
    ]
    assert {event.type for event in heard} >= {"trial_start", "verdict", "trial_complete"}
    assert [task.name for task in api.tasks("my-tasks")] == ["first"]


def test_in_one_process_no_cluster_is_looked_for(tmp_path, monkeypatch) -> None:
    make_task(tmp_path / "set")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    given = {"dataset": str(tmp_path / "set"), "agents": ["nop"], "sandbox": "bwrap", "mlflow_uri": "none"}
    assert api.plan(given, out=str(tmp_path / "a"), in_process=True).place == "in-process"
    assert api.sweep(given, out=str(tmp_path / "b"), in_process=True).unscored == 0
    with pytest.raises(api.UserError, match="unset RAY_ADDRESS"):
        api.plan(given, out=str(tmp_path / "c"))


def test_after_a_sweep_on_ray_a_process_still_plans_but_grades_nothing_itself(followed) -> None:
    folder, _ = followed
    code = """
from hc_ray import api
from hc_ray.machine import sealed_guard
from hc_ray.machine.paths import data_root

sealed_guard.install(data_root() / "sealed")  # what a driver does once its verifiers have what they need
plan = api.plan(dataset="my-tasks", agents=["nop"], out="runs/guarded")
print(len(plan.trials))
try:
    api.sweep(plan, in_process=True)
except api.ConfigError as error:
    print(error)
"""
    done = ran(sys.executable, "-c", code, cwd=folder, env={**os.environ, **NO_DOCKER})
    said = "in_process: a sweep on Ray has run in this process, which can grade nothing any more"
    assert done.stdout.splitlines() == ["1", said], done.stderr[-2000:]


def test_settings_take_files_mappings_and_changes_and_a_climb_is_no_sweep() -> None:
    changed = api.settings("demo", agents=["hc"], **{"solver.samples": 3})
    assert (changed.agents, changed.solver.samples, changed.tags) == (("hc",), 3, ("demo",))
    assert api.settings(changed, seeds=4) == api.settings(changed.model_copy(update={"seeds": 4}))
    with pytest.raises(api.ConfigError, match="did you mean"):
        api.settings({"datset": "starter"})
    with pytest.raises(api.ConfigError, match="run it with `hc-ray climb`"):
        api.plan("climb")
    with pytest.raises(api.UserError, match="not a sweep directory"):
        api.Results.open("nowhere")


@pytest.mark.ray
@pytest.mark.slow
def test_on_ray_an_agent_that_digs_gets_one_verdict_and_no_test(tmp_path) -> None:
    make_task(tmp_path / "tasks")
    shutil.copy(REPOSITORY / "tests/fakes/own_agents.py", tmp_path)
    names = ("Asks", "Opens", "Tries")
    agents = [word for name in names for word in ("-a", f"own_agents:{name}")]
    words = command("sweep", "-p", "tasks", "-o", "out", *agents, "--engine", "scripted", "--script",
                    "tests.fakes.answers:adds", "--sandbox", "bwrap", "--mlflow-uri", "none", "--json")  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = ran(*words, cwd=tmp_path, env=env, timeout=300)
    assert done.returncode in (0, 3), done.stderr[-3000:]
    by_class = {result["agent_info"]["name"].partition("@")[0].partition(":")[2]: result
                for result in results(tmp_path / "out").values()}  # fmt: skip
    asked, opened, tried = map(by_class.__getitem__, names)
    assert asked["agent_result"]["metadata"]["bits"] == [False]
    assert "asked for another verdict" in json.dumps(asked)
    assert opened["verifier_result"] is None and opened["exception_info"]["exception_type"] == "LeakError"
    assert tried["verifier_result"]["rewards"]["reward"] == 0.0 and tried["exception_info"] is None
