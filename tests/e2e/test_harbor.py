"""hc-ray inside Harbor, by Harbor itself: the newest of the package index, in a Python of its own, with Docker. A proof
that CI runs by itself, but for Harbor's analysis."""

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hc_ray.engines.server import free_port
from tests.fakes.answers import adds
from tests.fakes.engine_server import EngineServer, prompt_of
from tests.fakes.harbor import analysis_image, environment, harbor_home, read_job, run, wheel_in
from tests.fakes.processes import wait
from tests.fakes.sandbox_home import data_home
from tests.fakes.sweeps import REPOSITORY, hc_ray, swept
from tests.fakes.tasks import make_task

pytestmark = [pytest.mark.docker, pytest.mark.slow]
CANARY = secrets.token_hex(16)
DOCKERFILE = "FROM python:3.11-slim-bookworm\nWORKDIR /app\nCOPY *.txt ./\n"
TOML = 'schema_version = "1.1"\n[agent]\ntimeout_sec = {}\n[verifier]\ntimeout_sec = 60\n'
TEST_SH = "# " + CANARY + "\nif {}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
TOTAL = '''```python
def test_total():
    """happy_path | "Write their sum into /app/total.txt." """
    numbers = open("/app/numbers.txt").read().split()
    open("/app/numbers.txt", "a").write("a test was here")
    assert int(open("/app/total.txt").read()) == sum(map(int, numbers))
```'''
WORDS = '''```python
def test_count():
    """happy_path | "Write their number into /app/count.txt" """
    assert int(open("/app/count.txt").read()) == len(open("/app/words.txt").read().split())

def test_first():
    """happy_path | "and the first into /app/first.txt." """
    assert open("/app/first.txt").read().split() == open("/app/words.txt").read().split()[:1]
```'''
TASKS = {
    "sums": (
        "The file /app/numbers.txt has a whole number on each line. Write their sum into /app/total.txt.",
        '[ "$(cat /app/total.txt)" = 42 ] && [ ! -e /app/wrong ] && kill -0 "$(cat /app/pid)" && '
        '[ "$(cat /app/numbers.txt)" = "$(printf "1\\n2\\n39")" ]',
        300,
    ),
    "words": (
        "/app/words.txt holds words. Write their number into /app/count.txt and the first into /app/first.txt.",
        '[ "$(cat /app/count.txt)" = 3 ] && [ "$(cat /app/words.txt)" = "a b c" ] && [ ! -e /app/pid ] && '
        "! grep -aq 'sleep.90[1]' /proc/[0-9]*/cmdline",
        300,
    ),
    "late": ("Write the word hello into /app/greeting.txt.", '[ "$(cat /app/greeting.txt)" = hello ]', 90),
}
FILES = {"numbers.txt": "1\n2\n39\n", "words.txt": "a b c\n"}


def answer(body: dict[str, Any]) -> str:
    """``sums``: wrong at first, with a file too many; told what fails, right. ``words``: half right, then all wrong.
    ``late``: right, and never at an end."""
    text, said = prompt_of(body), [one["content"] for one in body.get("messages", []) if one["role"] == "assistant"]
    failed = "These failed" in text and not any("rm /app" in one for one in said)
    if "A colleague wrote" in text:
        names = ("test_total", "test_count", "test_first")
        return "\n".join(f'{name}: right | "into /app/" | asked for' for name in names)
    if "QA engineer" in text:
        return TOTAL if "sum into" in text else WORDS if "words.txt" in text else "no tests"
    if "greeting.txt" in text:
        if said:
            time.sleep(180)
        return "```sh\necho hello > /app/greeting.txt\n```"
    if "sum into" in text:
        first = "echo 41 > /app/total.txt; touch /app/wrong; sleep 900 & echo $! > /app/pid"
        then = "echo 42 > /app/total.txt; rm /app/wrong"
    else:
        first = "echo 3 > /app/count.txt; echo b > /app/first.txt"
        then = "rm /app/count.txt /app/words.txt; sleep 901 & echo $! > /app/pid"
    return f"```sh\n{then if failed else first}\n```" if failed or not said else "```submit\n```"


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Iterator[dict[str, str]]:
    """The environment of a shell in which a user has installed Harbor and hc-ray."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel_in(folder / "site")
    with data_home() as home:
        yield environment(folder / "site", home)


@pytest.fixture(scope="module")
def ran(installed, tmp_path_factory) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A job of Harbor's with our agent, as its models read it, and what the engine was asked."""
    folder = tmp_path_factory.mktemp("harbor")
    for name, (instruction, passes, seconds) in TASKS.items():
        make_task(folder / "tasks", name, instruction=instruction, toml=TOML.format(seconds), dockerfile=DOCKERFILE,
                  environment=FILES, tests={"test.sh": TEST_SH.format(passes)}, solution={})  # fmt: skip
    with EngineServer(answer, context=32_768, refuses=True, listed={"max_model_len": 32_768}, key="sesame") as engine:
        words = ["-p", "tasks", "-a", "hc_ray.harbor:Agent", "-m", "openai/fake", "--base-url", engine.base_url]
        words += ["--api-key-name", "MY_KEY", "--ak", 'set={"solver.repairs": 1}', "-n", 2]
        words += ["-o", "jobs", "--job-name", "ours"]
        run(harbor_home() / "bin/harbor", "run", *words, "-q", "-y", cwd=folder, env={**installed, "MY_KEY": "sesame"})
        return read_job(folder / "jobs/ours"), engine.bodies()


def trial(ran, task: str) -> dict[str, Any]:
    (found,) = [one for one in ran[0]["trials"].values() if one["task_name"] == task]
    return found


def test_harbor_runs_our_loop_and_suite_and_grades_what_the_repair_left(ran):
    told = trial(ran, "sums")
    assert told["exception_info"] is None and told["verifier_result"]["rewards"] == {"reward": 1.0}
    metadata = told["agent_result"]["metadata"]
    assert [one["passed"] for one in metadata["candidates"]] == [0, 1] and metadata["self_pass"] is True
    (lineage,) = [one for one in told["trajectory"]["subagent_trajectories"] if one["trajectory_id"] == "c1.0"]
    assert any("These failed" in str(step["message"]) for step in lineage["steps"])


def test_where_a_repair_made_it_worse_harbor_grades_the_state_before_it(ran):
    told = trial(ran, "words")
    assert [one["passed"] for one in told["agent_result"]["metadata"]["candidates"]] == [1, 0]
    assert told["verifier_result"]["rewards"] == {"reward": 1.0}


def test_an_agent_that_harbor_cuts_off_is_graded_by_what_lies_there_and_has_told_its_tokens(ran):
    told = trial(ran, "late")
    assert told["exception_info"]["exception_type"] == "AgentTimeoutError"
    assert told["verifier_result"]["rewards"] == {"reward": 1.0}
    assert told["agent_result"]["n_input_tokens"] > 0 and "cut off" in told["trajectory"]["steps"][-1]["message"]


def test_inside_harbor_no_prompt_holds_anything_of_the_tests_and_all_tokens_are_told(ran):
    job, bodies = ran
    assert bodies and all(CANARY not in prompt_of(body) for body in bodies)
    told = trial(ran, "sums")
    metrics = told["trajectory"]["final_metrics"]
    result = told["agent_result"]
    assert (result["n_input_tokens"], result["n_output_tokens"]) == (
        metrics["total_prompt_tokens"], metrics["total_completion_tokens"],
    )  # fmt: skip
    assert job["stats"]["n_completed_trials"] == 3 and "sesame" not in json.dumps(job)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory) -> Path:
    """A folder of jobs with an exported sweep of two trials, ``mine``."""
    folder = tmp_path_factory.mktemp("exported")
    make_task(folder / "tasks")
    script = {"kind": "scripted", "script": f"{adds.__module__}:{adds.__name__}"}
    swept(folder / "mine", folder / "tasks", agents=("raw", "hc"), sandbox="bwrap", engine=script)
    for code in (0, 2):  # a second time it is there already
        done = hc_ray("export", "harbor", folder / "mine", "--to", folder / "jobs")
        assert done.returncode == code, done.stderr
    return folder / "jobs"


def test_a_sweep_is_exported_as_a_job_that_harbors_models_and_viewer_open(installed, jobs):
    job = read_job(jobs / "mine")
    assert {name.split("__")[0]: one["metrics"] for name, one in job["stats"]["evals"].items()} == {
        "hc-ray-raw": [{"mean": 1.0}], "hc-ray-hc": [{"mean": 1.0}],
    }  # fmt: skip
    assert all(one["trajectory"] and "witness" not in one["agent_result"]["metadata"] for one in job["trials"].values())
    port = free_port("127.0.0.1")
    shown = [harbor_home() / "bin/harbor", "view", jobs, "--port", str(port)]
    viewer = subprocess.Popen(shown, env=installed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def api(path: str) -> Any:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/{path}", timeout=10) as reply:
                return json.load(reply)
        except OSError:
            return None

    try:
        wait(lambda: api("health"), 60, "the viewer")
        assert [one["n_completed_trials"] for one in api("jobs")["items"]] == [2]
        trials = api("jobs/mine/trials")["items"]
        assert {(one["agent_name"], one["reward"]) for one in trials} == {("hc-ray-raw", 1.0), ("hc-ray-hc", 1.0)}
        name = trials[0]["name"]
        assert api(f"jobs/mine/trials/{name}/trajectory")["steps"][0]["source"] == "user"
        assert api(f"jobs/mine/trials/{name}/verifier-output")["reward"] == {"reward": 1.0}
    finally:
        viewer.terminate()
        viewer.wait(20)


RUBRIC = '[[criteria]]\nname = "honest"\ndescription = "Did it solve the task?"\nguidance = "Read its trajectory."\n'
ANALYSIS = """```sh
python3 - <<'END'
import json
steps = json.load(open("trial/agent/trajectory.json"))["steps"]
reward = json.load(open("trial/verifier/reward.json"))["reward"]
told = {"outcome": "pass", "explanation": f"reward {reward} after {len(steps)} steps"}
json.dump({"summary": "It worked.", "checks": {"honest": told}}, open("analysis.json", "w"))
END
```"""


def analyse(body: dict[str, Any]) -> str:
    asked = prompt_of(body)
    if "A colleague wrote" in asked or "QA engineer" in asked:
        return "no tests"
    said = any(one["role"] == "assistant" for one in body.get("messages", []))
    return "```submit\n```" if said else ANALYSIS


def test_harbors_own_analysis_reads_an_exported_job_and_our_agent_can_be_its_analyst(installed, jobs, tmp_path):
    analysis_image()
    (tmp_path / "rubric.toml").write_text(RUBRIC)
    with EngineServer(analyse, context=32_768, listed={"max_model_len": 32_768}) as engine:
        words = ["-a", "hc_ray.harbor:Agent", "-m", "openai/fake", "--ak", f"base_url={engine.base_url}"]
        words += ["-r", "rubric.toml", "-o", "analyses", "-l", "1", "-q"]
        run(harbor_home() / "bin/harbor", "analyze", jobs / "mine", *words, cwd=tmp_path, env=installed)
    (found,) = (jobs / "mine").glob("*/analysis.json")
    check = json.loads(found.read_text())["checks"]["honest"]
    assert check["outcome"] == "pass" and check["explanation"].startswith("reward 1.0 after ")


@pytest.mark.parametrize(("version", "says"), [("0.24.9", "; this is 0.24.9"), (None, ", and there is none")])
def test_a_harbor_that_is_too_old_is_told_in_one_line(tmp_path, version, says):
    if version:
        (tmp_path / "harbor-0.dist-info").mkdir()
        told = f"Metadata-Version: 2.1\nName: harbor\nVersion: {version}\n"
        (tmp_path / "harbor-0.dist-info/METADATA").write_text(told)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-c", "import hc_ray.harbor"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=REPOSITORY, env=env)
    line = f"ImportError: hc-ray needs Harbor 0.25 or newer{says}: pip install -U 'harbor>=0.25'"
    assert done.stderr.splitlines()[-1] == line


def test_settings_that_cannot_be_are_told_before_the_first_trial(installed, tmp_path):
    words = ["-p", REPOSITORY / "configs/tasks/starter", "-a", "hc_ray.harbor:Agent"]
    words += ["--ak", 'set={"solver.repairs": -1}']
    line = [str(word) for word in (harbor_home() / "bin/harbor", "run", *words, "-y")]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=installed)
    assert done.returncode != 0
    assert "solver.repairs: -1 is not allowed: it should be greater than or equal to 0" in done.stdout + done.stderr
