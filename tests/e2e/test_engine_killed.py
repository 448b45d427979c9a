"""An engine that hc-ray starts from a command of the user's, here llama.cpp's server with the demo's weights: whatever
is killed of it comes up again, no trial is lost, and nothing stays behind."""

import os
import signal
import sys
import time

import pytest

from hc_ray.engines import catalogue, launcher
from tests.fakes.processes import alive, carrying, family, wait
from tests.fakes.sweeps import begun, results

pytestmark = [pytest.mark.engine, pytest.mark.ray, pytest.mark.slow]
DEMO = "smollm2-135m-instruct"
BACK_SECONDS = 60
SERVER = f"{sys.executable} -m hc_ray.engines.embedded_server --model {{model}} --alias m --host {{host}} "
SERVER += "--port {port} --parallel {parallel} --context-tokens {context_tokens} --threads 2"


def servers(marker: str) -> list[int]:
    """Launchers, each with its server: of a process and its parent the parent comes first."""
    return [pid for one in carrying(marker, launcher.__file__) for pid in (one, *sorted(family(one) - {one})[:1])]


def test_a_killed_server_and_a_killed_actor_are_back_within_a_minute_and_leave_nothing(tmp_path):
    catalogue.pull(DEMO)
    out, marker = tmp_path / "out", f"killed-{os.getpid()}-{time.time_ns()}"
    settings = {"engine.command": SERVER, "engine.parallel": 4, "engine.context_tokens": 2048, "limit": 1, "seeds": 3,
                "retries.backoff_sec": 0.5, "retries.outage_sec": BACK_SECONDS, "engine.gpus": 0}  # fmt: skip
    words = ["sweep", "-p", "starter", "-o", out, "-a", "raw", "-a", "best_of_n", "--sandbox", "bwrap", "--mlflow-uri",
             "none", "--address", "local", "--model", DEMO, "--budget-tokens", 700]  # fmt: skip
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    sweep = begun(*words, log=tmp_path / "log", HC_RAY_TEST_MARK=marker)
    try:
        for count, victim in enumerate(("the server", "ray::Engine"), start=1):
            wait(lambda least=2 * count - 1: len(results(out)) >= least or sweep.poll() is not None, 300, "some trials")
            before = servers(marker)
            (pid,) = before[1:] if victim == "the server" else carrying(marker, victim)
            os.kill(pid, signal.SIGKILL)
            wait(lambda old=before: len(set(servers(marker)) - set(old)) == 2, BACK_SECONDS, "a server")
            wait(lambda old=before: not any(map(alive, old)), 10, "the end of the old one")
        assert sweep.wait(300 + 2 * BACK_SECONDS) == 0, (tmp_path / "log").read_text()[-3000:]
    finally:
        sweep.kill()
    found = results(out).values()
    assert len(found) == 6 and all(result["verifier_result"] is not None for result in found)
    assert not carrying(marker)
