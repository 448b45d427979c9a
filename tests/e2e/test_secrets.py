"""Secrets of the environment: what a config may not hold, and what a task may not ask for. ``test_left_behind`` looks
for secrets in everything that two whole sweeps write, and gives one to the tests that ask for it."""

import os
import secrets
import signal

import pytest

from hc_ray.cli import app as cli
from tests.fakes.processes import holding, runs_inside, wait
from tests.fakes.sandbox_home import data_home
from tests.fakes.sweeps import begun
from tests.fakes.tasks import TOML, make_task


@pytest.mark.parametrize(("words", "names"), [
    (["--base-url", "http://me:CANARY@127.0.0.1:9/v1"], "--base-url"),
    (["--base-url", "http://127.0.0.1:9/v1?api_key=CANARY"], "--base-url"),
    (["--base-url", "http://127.0.0.1:9/v1", "--api-key-env", "sk-CANARY"], "--api-key-env"),
    (["--mlflow-uri", "http://me:CANARY@127.0.0.1:9"], "--mlflow-uri"),
    (["-o", "s3://KEY:CANARY@bucket/runs"], "--out"),
])  # fmt: skip
def test_a_secret_in_a_setting_is_refused_in_one_line_that_does_not_repeat_it(home, tmp_path, capsys, words, names):
    make_task(tmp_path / "tasks")
    assert cli.run(["sweep", "-p", str(tmp_path / "tasks"), "-a", "raw", "--model", "m", *words, "--dry-run"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"hc-ray: {names}: ") and len(err.splitlines()) == 1
    assert "CANARY" not in err + out and holding(tmp_path, {"canary": "CANARY"}) == []


def test_a_task_that_asks_for_a_secret_in_its_sandbox_is_refused(tmp_path, monkeypatch, hc_ray):
    canary, dataset = secrets.token_hex(16), tmp_path / "tasks"
    make_task(dataset, toml=TOML + '\n[environment.env]\nGREEDY = "${OPENAI_API_KEY}"\n')
    monkeypatch.setenv("OPENAI_API_KEY", canary)
    with data_home() as home:
        told = hc_ray("tasks", "check", dataset, "--json", code=2)
        [fault] = [one for one in told["faults"] if one["field"] == "environment.env"]
        assert "OPENAI_API_KEY, which is a secret" in fault["says"]
        refused = hc_ray("sweep", "-p", dataset, "-a", "nop", "--sandbox", "bwrap", "--dry-run", code=2)
        assert "OPENAI_API_KEY" in refused
        assert holding(tmp_path, {"canary": canary}) == holding(home, {"canary": canary}) == []


@pytest.mark.docker
def test_a_run_that_is_ended_in_the_middle_leaves_no_running_container(tmp_path):
    import docker

    api = docker.APIClient(version="auto")
    tests = {"test.sh": "#!/bin/bash\nsleep 600\n", "test_outputs.py": ""}
    make_task(tmp_path / "tasks", "slow", tests=tests)
    with data_home():
        words = ["run", "-p", tmp_path / "tasks/slow", "-a", "oracle", "-o", tmp_path / "out", "--sandbox", "docker"]
        process = begun(*words, log=tmp_path / "log")

        def ours() -> list[str]:
            found = api.containers(all=True, filters={"label": "hc-ray.owner"})
            return [one["Id"] for one in found if one["Labels"]["hc-ray.owner"].startswith(f"{process.pid}-")]

        def grading() -> bool:
            assert process.poll() is None
            return any(runs_inside(api, one, "sleep 600") for one in ours())

        try:
            wait(grading, 120, "the run grades")
            os.killpg(process.pid, signal.SIGTERM)  # test_left_behind has SIGKILL
            assert process.wait(60) == 130 and ours() == []
        finally:
            process.kill()
            process.wait()
