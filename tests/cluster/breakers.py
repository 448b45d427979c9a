"""Sweeps with the driver on the head of several hosts that fail today: no part of scripts/test --cluster, but run by
``.venv/bin/python -m pytest tests/cluster/breakers.py``. What is mended moves to a file that is."""

import subprocess
from typing import Any

import pytest

from tests.cluster.conftest import Cluster, cluster_of, docker_on
from tests.fakes.processes import wait
from tests.fakes.tasks import make_task

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCRIPTED = ["-a", "raw", "--engine", "scripted", "--script", "tests.fakes.answers:adds"]
WORK = {"sandbox_slot": 1, "verifier_slot": 1}


def _tasks(cluster: Cluster, count: int) -> str:
    for number in range(count):
        instruction = f"Write `add.py` with a function `add(a, b)` that adds. Example: `add({number}, 1)`.\n"
        make_task(cluster.head.folder / "tmp/tasks", f"add{number}", instruction=instruction)
    return "/tmp/tasks"


def _ended(cluster: Cluster, sweep: "subprocess.Popen[str]") -> dict[str, dict[str, Any]]:
    """Every result by its name; fails the test unless all trials were scored."""
    said, _ = sweep.communicate(timeout=240)
    found = cluster.results()
    faults = {one["exception_info"]["exception_message"] for one in found.values() if one["verifier_result"] is None}
    assert (sweep.returncode, faults) == (0, set()), said[-1500:]
    return found


def test_an_engine_on_another_host_answers_the_trials_of_the_driver():
    with cluster_of(2) as cluster:
        cluster.join(cluster.head, **WORK)
        cluster.join(cluster.hosts[1], engine_slot=1)
        given = ["-p", "starter", "-l", 2, "-a", "raw", "--sandbox", "bwrap", "--set", "retries.attempts=2"]
        assert len(_ended(cluster, cluster.sweep(*given, "--budget-tokens", 600))) == 2


def test_a_host_that_joins_in_the_middle_of_a_sweep_gets_a_candidate_within_10_seconds():
    with cluster_of(2) as cluster:
        cluster.join(cluster.head, engine_slot=1, **WORK)
        tasks = _tasks(cluster, 1)
        sweep = cluster.sweep("-p", tasks, *SCRIPTED, "--sandbox", "bwrap", "-k", 40, "-n", 4, "--sleep", 1)
        wait(lambda: cluster.results(), 60, "the first trial")
        cluster.join(cluster.hosts[1], **WORK)
        solving = cluster.hosts[1].folder / "srv/sandboxes/solve"
        wait(lambda: solving.is_dir() and list(solving.iterdir()), 10, "a candidate on the host that joined")
        _ended(cluster, sweep)


def test_a_host_without_user_namespaces_costs_only_what_ran_there():
    with cluster_of(2, without_user_namespaces=1) as cluster:
        _sick(cluster, "bwrap")


@pytest.mark.docker
def test_a_host_without_docker_costs_only_what_ran_there():
    with cluster_of(2) as cluster, docker_on(cluster.head):
        _sick(cluster, "docker")


def _sick(cluster: Cluster, backend: str) -> None:
    """A sweep beside a second host that can make no sandbox."""
    cluster.join(cluster.head, engine_slot=1, **WORK)
    cluster.join(cluster.hosts[1], **WORK)
    settings = ["--sandbox", backend, "-k", 3, "-n", 2, "--set", "retries.outage_sec=5"]
    found = _ended(cluster, cluster.sweep("-p", _tasks(cluster, 2), *SCRIPTED, *settings))
    failed = [one for result in found.values() for one in result["agent_result"]["metadata"]["failed_attempts"]]
    assert len(found) == 6 and len(failed) <= 4, failed
