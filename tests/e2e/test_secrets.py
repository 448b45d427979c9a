"""Secrets of the environment: what a config may not hold, what a task may not ask for, what a container is not given.
``test_left_behind`` looks for secrets in everything that two whole sweeps write."""

import json
import os
import secrets
import signal
import subprocess
from typing import Any

import pytest

from tests.fakes.processes import holding, runs_inside, wait
from tests.fakes.sandbox_home import data_home
from tests.fakes.sweeps import REPOSITORY, begun, command, hc_ray, results
from tests.fakes.tasks import SOLVE_SH, TOML, make_task

LOOKS = "{ env; for one in /proc/[0-9]*; do cat $one/environ $one/cmdline; done; } 2> /dev/null | tr '\\0' '\\n'"
"""All that a sandbox can see of processes and of their environments."""


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
        env = {**os.environ, "HC_RAY_HOME": str(home), "OPENAI_API_KEY": canary}
        done = hc_ray("tasks", "check", tmp_path / "tasks", "--json", **env)
        [fault] = [one for one in json.loads(done.stdout)["faults"] if one["field"] == "environment.env"]
        assert "OPENAI_API_KEY, which is a secret" in fault["says"]
        done = hc_ray("sweep", "-p", tmp_path / "tasks", "-a", "nop", "--sandbox", "bwrap", "--dry-run", **env)
        assert done.returncode == 2 and "OPENAI_API_KEY" in done.stderr
        assert holding(tmp_path, {"canary": canary}) == holding(home, {"canary": canary}) == []


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The reference of a task graded in Docker, without Ray, with secrets all around it."""
    import docker

    root = tmp_path_factory.mktemp("graded")
    canaries = {name: secrets.token_hex(16) for name in ("OPENAI_API_KEY", "DOCKER_PROXY_PASSWORD", "TASK_TOKEN")}
    toml = TOML + '\n[verifier.env]\nGIVEN = "${TASK_TOKEN}"\n'
    tests = {"test.sh": "#!/bin/bash\nsleep 2\nif [ ${#GIVEN} = 32 ]; then python3 -m pytest -q /tests/test_it.py && "
             "echo 1 > /logs/verifier/reward.txt; fi\n",
             "test_it.py": "def test_it():\n    assert 'def add' in open('/app/add.py').read()\n"}  # fmt: skip
    solution = {"solve.sh": f"#!/bin/bash\n{LOOKS} > /app/seen.txt\n" + SOLVE_SH}
    text = f"Write add.py with a function that adds. {secrets.token_hex(8)}\n"  # an image of its own
    make_task(root / "tasks", "add", toml=toml, tests=tests, solution=solution, instruction=text)
    config = root / "docker-config"
    config.mkdir()
    proxy = f"http://me:{canaries['DOCKER_PROXY_PASSWORD']}@proxy.invalid:3128"
    (config / "config.json").write_text(json.dumps({"proxies": {"default": {"httpProxy": proxy}}}))
    api = docker.APIClient(version="auto")
    with data_home() as home:
        env = {**canaries, "HC_RAY_HOME": str(home), "DOCKER_CONFIG": str(config), "http_proxy": proxy}
        words = ["run", "-p", root / "tasks/add", "-a", "oracle", "-o", root / "out", "--sandbox", "docker", "--json"]
        process = begun(*words, log=root / "log", **env)

        def ours() -> list[dict[str, Any]]:
            found = api.containers(all=True, filters={"label": "hc-ray.owner"})
            return [one for one in found if one["Labels"]["hc-ray.owner"].startswith(f"{process.pid}-")]

        inspected = ""
        while process.poll() is None:
            for one in ours():
                try:
                    inspected += json.dumps(api.inspect_container(one["Id"]))
                except docker.errors.NotFound:
                    continue
        yield {
            "root": root, "home": home, "canaries": canaries, "inspected": inspected,
            "code": process.returncode, "log": (root / "log").read_text(),
        }  # fmt: skip
        tag = json.loads((root / "out" / "sweep.json").read_text())["tasks"][0]["digest"][:16]
        api.remove_image(f"hc-ray/task:{tag}")


@pytest.mark.docker
def test_a_secret_that_the_verifier_asks_for_reaches_the_tests_and_nothing_else(graded):
    assert graded["code"] == 0, graded["log"]
    [result] = results(graded["root"] / "out").values()
    assert result["verifier_result"]["rewards"]["reward"] == 1.0
    [submission] = (graded["root"] / "out").glob("trials/*/artifacts/submission.tar")
    assert b"PATH=" in submission.read_bytes()
    places = [*holding(graded["root"] / "out", graded["canaries"]), *holding(graded["home"], graded["canaries"])]
    assert places == [] and not any(value in graded["log"] for value in graded["canaries"].values())


@pytest.mark.docker
def test_no_secret_nor_proxy_of_the_client_is_in_what_docker_knows_of_a_container(graded):
    assert graded["inspected"].count('"Image"') >= 2
    assert not any(value in graded["inspected"] for value in graded["canaries"].values())
    assert "proxy.invalid" not in graded["inspected"]


@pytest.mark.docker
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])  # test_left_behind has SIGKILL
def test_a_run_that_is_ended_in_the_middle_leaves_no_running_container(tmp_path, number):
    import docker

    api = docker.APIClient(version="auto")
    tests = {"test.sh": "#!/bin/bash\nsleep 600\n", "test_outputs.py": ""}
    make_task(tmp_path / "tasks", "slow", tests=tests)
    with data_home() as home:
        env = {**os.environ, "HC_RAY_HOME": str(home)}
        words = ["run", "-p", tmp_path / "tasks/slow", "-a", "oracle", "-o", tmp_path / "out", "--sandbox", "docker"]
        # Under nohup the signal would be ignored, here as there.
        process = subprocess.Popen(command(*words), cwd=REPOSITORY, env=env, start_new_session=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))  # fmt: skip

        def ours(*, stopped: bool) -> list[str]:
            found = api.containers(all=stopped, filters={"label": "hc-ray.owner"})
            return [one["Id"] for one in found if one["Labels"]["hc-ray.owner"].startswith(f"{process.pid}-")]

        def grading() -> bool:
            assert process.poll() is None
            return any(runs_inside(api, one, "sleep 600") for one in ours(stopped=False))

        try:
            wait(grading, 120, "the run grades")
            os.killpg(process.pid, number)
            assert process.wait(60) == 130 and ours(stopped=True) == []
        finally:
            process.kill()
            process.wait()
