"""Secrets of the environment: what a config may not hold, and what a task may not ask for. ``test_left_behind`` looks
for secrets in everything that two whole sweeps write, and gives one to the tests that ask for it."""

import json
import os
import secrets
import signal
import subprocess

import pytest

from tests.fakes.processes import holding, runs_inside, wait
from tests.fakes.sandbox_home import data_home
from tests.fakes.sweeps import REPOSITORY, command, hc_ray
from tests.fakes.tasks import TOML, make_task


@pytest.mark.parametrize(("words", "names"), [
    (["--base-url", "http://me:CANARY@127.0.0.1:9/v1"], "--base-url"),
    (["--base-url", "http://127.0.0.1:9/v1?api_key=CANARY"], "--base-url"),
    (["--base-url", "http://127.0.0.1:9/v1", "--api-key-env", "sk-CANARY"], "--api-key-env"),
    (["--mlflow-uri", "http://me:CANARY@127.0.0.1:9"], "--mlflow-uri"),
    (["-o", "s3://KEY:CANARY@bucket/runs"], "--out"),
])  # fmt: skip
def test_a_secret_in_a_setting_is_refused_in_one_line_that_does_not_repeat_it(tmp_path, words, names):
    make_task(tmp_path / "tasks")
    env = {"HC_RAY_HOME": str(tmp_path / "home")}
    done = hc_ray("sweep", "-p", tmp_path / "tasks", "-a", "raw", "--model", "m", *words, "--dry-run", **env)
    assert done.returncode == 2 and done.stderr.startswith(f"hc-ray: {names}: ") and len(done.stderr.splitlines()) == 1
    assert "CANARY" not in done.stderr + done.stdout and holding(tmp_path, {"canary": "CANARY"}) == []


def test_a_task_that_asks_for_a_secret_in_its_sandbox_is_refused(tmp_path):
    canary = secrets.token_hex(16)
    make_task(tmp_path / "tasks", toml=TOML + '\n[environment.env]\nGREEDY = "${OPENAI_API_KEY}"\n')
    with data_home() as home:
        env = {"OPENAI_API_KEY": canary}
        done = hc_ray("tasks", "check", tmp_path / "tasks", "--json", **env)
        [fault] = [one for one in json.loads(done.stdout)["faults"] if one["field"] == "environment.env"]
        assert "OPENAI_API_KEY, which is a secret" in fault["says"]
        done = hc_ray("sweep", "-p", tmp_path / "tasks", "-a", "nop", "--sandbox", "bwrap", "--dry-run", **env)
        assert done.returncode == 2 and "OPENAI_API_KEY" in done.stderr
        assert holding(tmp_path, {"canary": canary}) == holding(home, {"canary": canary}) == []


@pytest.mark.docker
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])  # test_left_behind has SIGKILL
def test_a_run_that_is_ended_in_the_middle_leaves_no_running_container(tmp_path, number):
    import docker

    api = docker.APIClient(version="auto")
    tests = {"test.sh": "#!/bin/bash\nsleep 600\n", "test_outputs.py": ""}
    make_task(tmp_path / "tasks", "slow", tests=tests)
    with data_home():
        words = ["run", "-p", tmp_path / "tasks/slow", "-a", "oracle", "-o", tmp_path / "out", "--sandbox", "docker"]
        # Under nohup the signal would be ignored, here as there.
        process = subprocess.Popen(command(*words), cwd=REPOSITORY, start_new_session=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))  # fmt: skip

        def ours() -> list[str]:
            found = api.containers(all=True, filters={"label": "hc-ray.owner"})
            return [one["Id"] for one in found if one["Labels"]["hc-ray.owner"].startswith(f"{process.pid}-")]

        def grading() -> bool:
            assert process.poll() is None
            return any(runs_inside(api, one, "sleep 600") for one in ours())

        try:
            wait(grading, 120, "the run grades")
            os.killpg(process.pid, number)
            assert process.wait(60) == 130 and ours() == []
        finally:
            process.kill()
            process.wait()
