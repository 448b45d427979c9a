"""What is broken outside the sandboxes costs attempts and never trials: a Docker daemon, an engine, processes of the
sweep, images and disks, each broken for real."""

import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hc_ray.domain.config import EngineConfig, RetryConfig
from hc_ray.domain.errors import SandboxError
from hc_ray_actors.driver.sweep import SweepSummary
from tests.fakes.crew import attempts_of
from tests.fakes.docker_daemon import OwnDaemon, may_run
from tests.fakes.docker_tasks import task_with_environment
from tests.fakes.engine_server import EngineServer, prompt_of
from tests.fakes.figures import tell
from tests.fakes.listeners import Watcher
from tests.fakes.processes import carrying, ran, wait
from tests.fakes.sandbox_home import closing
from tests.fakes.sweeps import REPOSITORY, begun, results, swept
from tests.fakes.tasks import make_task, make_tasks

SLIM = "FROM debian:bookworm-slim\nWORKDIR /app\n"
TEST_SH = """#!/bin/bash
sleep {pause}
grep -q 'a + b' /app/add.py && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
"""
TOML = "[environment]\nbuild_timeout_sec = 120.0\n[agent]\ntimeout_sec = 120.0\n[verifier]\ntimeout_sec = 60.0\n"


def _task(folder: Path, name: str, *, dockerfile: str = SLIM, pause: float = 0) -> None:
    text = f"Write `add.py` with a function `add(a, b)`: the sum of its two numbers. This is {name}.\n"
    tests = {"test.sh": TEST_SH.format(pause=pause)}
    make_task(folder, name, instruction=text, toml=TOML, dockerfile=dockerfile, tests=tests)


def _record(what: str, out: Path, planned: int) -> None:
    """Check that nothing was lost or doubled, and write the figures down for the page of trust."""
    found, lines = results(out), [line for path in out.glob("events/*.jsonl") for line in path.read_text().splitlines()]
    commits = [event["trial"] for event in map(json.loads, lines) if event["type"] == "trial_complete"]
    retried = sum(bool(attempts_of(result)) for result in found.values())
    figures = {"broken": what, "trials": planned, "retried": retried,
               "lost": planned - len(found), "doubled": len(commits) - len(set(commits))}  # fmt: skip
    assert (figures["lost"], figures["doubled"]) == (0, 0)
    tell("unscored", figures)


def _sweep(out: Path, dataset: Path, watcher: Watcher, **settings: Any) -> SweepSummary:
    """A scripted sweep in this process, on Docker."""
    given = {
        "engine": EngineConfig(kind="scripted", script="tests.fakes.answers:adds"), "sandbox": "docker",
        "retries": RetryConfig(attempts=5, backoff_sec=0.5, outage_sec=60),
    }  # fmt: skip
    return swept(out, dataset, watcher, **{**given, **settings})[1]


@pytest.fixture(scope="module")
def daemon():
    if not may_run():
        pytest.skip("a Docker daemon of one's own takes root")
    # A socket's path may have 108 characters.
    own = OwnDaemon(Path(tempfile.mkdtemp(prefix="hcd-")))
    try:
        own.start()
        own.load("debian:bookworm-slim")
        yield own
    finally:
        own.remove()


@pytest.fixture
def on_own_daemon(daemon, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", daemon.host)
    return daemon


@pytest.mark.docker
def test_a_daemon_that_is_stopped_and_started_in_the_middle_of_a_sweep_costs_no_trial(tmp_path, on_own_daemon):
    for number in range(3):
        _task(tmp_path / "tasks", f"add{number}", pause=1)
    broken = threading.Event()

    def restart() -> None:
        on_own_daemon.stop()
        time.sleep(2)
        on_own_daemon.start()

    thread = threading.Thread(target=restart)

    def on(event: Any) -> None:
        # Others are being solved and graded when the first verdict falls.
        if event.type == "verdict" and not broken.is_set():
            broken.set()
            thread.start()

    out = tmp_path / "out"
    summary = _sweep(out, tmp_path / "tasks", Watcher(on), agents=("raw", "oracle"), concurrency=3)
    thread.join()
    assert (summary.done, summary.unscored, summary.stopped) == (6, 0, False), summary
    trials = results(out).values()
    assert {result["verifier_result"]["rewards"]["reward"] for result in trials} == {1.0}
    told = [attempt for result in trials for attempt in attempts_of(result)]
    assert told and all(attempt["error"] and attempt["at"] and attempt["again_after_sec"] for attempt in told)
    assert on_own_daemon.containers() == []
    _record("Docker daemon stopped and started", out, 6)


@pytest.mark.docker
async def test_a_container_that_a_candidate_ends_is_its_fault_and_one_that_the_daemon_ends_is_not(
    tmp_path, on_own_daemon
):
    async with closing("docker", tmp_path) as place:
        task = task_with_environment(tmp_path)
        names = ("guilty", "innocent", "waiting", "untouched")
        guilty, innocent, waiting, untouched = [await place.create(task, name) for name in names]
        assert (await waiting.exec(["true"], timeout=20)).exit_code == 0
        ended = await guilty.exec(["sh", "-c", "kill -9 -1; kill -9 1; sleep 9"], timeout=20)
        assert ended.exit_code is None and (await innocent.exec(["true"], timeout=20)).exit_code == 0
        running = asyncio.ensure_future(innocent.exec(["sleep", "30"], timeout=60))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(on_own_daemon.stop)
        with pytest.raises(SandboxError):
            await running
        await asyncio.to_thread(on_own_daemon.start)
        with pytest.raises(SandboxError, match="stopped or restarted"):
            await waiting.exec(["true"], timeout=20)
        assert (await untouched.exec(["true"], timeout=20)).exit_code == 0, "nothing of it ended: it had not begun"
        assert (await (await place.create(task, "fresh")).exec(["true"], timeout=20)).exit_code == 0


@pytest.mark.docker
def test_images_that_fail_or_hang_are_told_in_one_line_and_the_other_tasks_end_meanwhile(tmp_path, on_own_daemon):
    dataset, out = tmp_path / "tasks", tmp_path / "out"
    _task(dataset, "a-fails", dockerfile=SLIM + "RUN echo no-such-package && exit 3\n")
    _task(dataset, "a-hangs", dockerfile=SLIM + "RUN sleep 100000\n")
    _task(dataset, "good")
    over = threading.Event()

    def end_builds() -> None:
        while not over.wait(0.2):
            if running := on_own_daemon.docker("ps", "-q").stdout.split():
                on_own_daemon.docker("kill", *running)

    thread = threading.Thread(target=end_builds)

    def on(event: Any) -> None:
        # Only when the others have ended the build is ended, by force.
        good = [one for one in watcher.of("trial_complete") if one.trial.startswith("good")]
        if len(good) == 2 and thread.ident is None:
            thread.start()

    watcher = Watcher(on)
    retries = RetryConfig(attempts=2, backoff_sec=0.1)
    try:
        summary = _sweep(out, dataset, watcher, agents=("raw",), seeds=2, concurrency=1, retries=retries)
    finally:
        over.set()
    assert (summary.done, summary.unscored) == (6, 4)
    ends = [event.trial.partition("__")[0] for event in watcher.of("trial_complete")]
    assert ends.index("a-hangs") > max(index for index, name in enumerate(ends) if name == "good")
    by_task = {result["task_name"]: result for result in results(out).values()}
    says = {name: result["exception_info"]["exception_message"] for name, result in by_task.items() if name != "good"}
    first = says["a-fails"].splitlines()[0]
    assert "a-fails: its image cannot be built" in first and "code: 3" in first and "docker build" in first
    assert "no-such-package" in says["a-fails"]
    assert "a-hangs: its image cannot be built" in says["a-hangs"].splitlines()[0]
    assert [a["stage"] for a in attempts_of(by_task["a-fails"])] == ["environment"] * 2
    _record("images that do not build", out, 6)


def _answer(body: dict[str, Any]) -> str:
    asked = prompt_of(body)
    code = "\n    return a + b\n"
    return code if "prompt" in body else f"```python\ndef add(a, b):{code}```\n" if asked else ""


def test_killed_processes_and_an_engine_that_is_gone_for_a_while_cost_no_trial(tmp_path):
    """One sweep on Ray: its verifier, its trials, its sandboxes and its engine are broken one after another."""
    make_tasks(tmp_path / "tasks", 8)
    out, marker = tmp_path / "out", f"unscored-{os.getpid()}-{time.time_ns()}"
    server = EngineServer(_answer, delay=0.2).__enter__()
    words = ["sweep", "-p", tmp_path / "tasks", "-o", out, "-a", "raw", "-n", 2, "--sandbox", "bwrap", "--mlflow-uri",
             "none", "--engine", "openai", "--model", "fake", "--base-url", server.base_url,
             "--set", "engine.context_tokens=2048"]  # fmt: skip
    process = begun(*words, log=tmp_path / "log", HC_RAY_TEST_MARK=marker)
    try:
        for count, title in enumerate(("ray::Verifiers", "ray::Trials", "ray::Sandboxes", "engine"), start=1):
            wait(lambda least=count: len(results(out)) >= least or process.poll() is not None, 180, "some trials")
            if title == "engine":
                server.__exit__()  # connections are refused
                time.sleep(3)
                server = EngineServer(_answer, port=int(server.base_url.split(":")[2].partition("/")[0])).__enter__()
            else:
                (pid,) = carrying(marker, title)
                os.kill(pid, signal.SIGKILL)
        assert process.wait(240) == 0, (tmp_path / "log").read_text()[-3000:]
    finally:
        process.kill()
        server.__exit__()
    trials = results(out).values()
    assert len(trials) == 8 and {result["verifier_result"]["rewards"]["reward"] for result in trials} == {1.0}
    assert any(attempts_of(result) for result in trials)
    _record("verifier, trials and sandboxes killed, engine gone for 3 s", out, 8)


FULL_DISK = """
import json, subprocess, sys
from pathlib import Path
from tests.fakes.crew import Stage, outcome, plan_of, run, submission
from hc_ray_actors.trials import Step

room = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", room], check=True)
out = room / "out"

def solve(name):
    from hc_ray.domain.task import Environment, Task
    task = Task(name=name, digest=name[1:] * 64, instruction="do it", environment=Environment())
    made = submission(task, name)
    long = outcome().model_copy(update={"notes": ("x" * 60_000,)})
    return Step(submission=made.model_copy(update={"tar": b"t" * 100_000}), outcome=long)

first, _ = run(plan_of(out, 9), Stage(solve=solve))
there = sorted(path.parent.name for path in out.glob("trials/*/result.json"))
left = [str(path) for path in out.rglob("*.tmp")]
subprocess.run(["mount", "-o", "remount,size=64m", room], check=True)
second, _ = run(plan_of(out, 9), Stage(solve=solve))
print(json.dumps({"first": first.model_dump(), "there": there, "left": left, "second": second.model_dump(),
                  "whole": [json.loads(path.read_text())["trial_name"] for path in out.glob("trials/*/result.json")]}))
"""


def test_a_sweep_directory_that_is_full_stops_the_sweep_cleanly_and_is_taken_up_when_there_is_room(tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    away = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    done = ran(*away, sys.executable, "-c", FULL_DISK, room, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["first"]["stopped"]
    problem = told["first"]["problems"][0]
    assert "the disk is full" in problem and "--resume" not in problem and "\n" not in problem
    assert 0 < len(told["there"]) < 9 and told["left"] == []
    assert (told["second"]["done"], told["second"]["unscored"], told["second"]["stopped"]) == (9, 0, False)
    assert sorted(told["whole"]) == sorted(set(told["whole"]))
