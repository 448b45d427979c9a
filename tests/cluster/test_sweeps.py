"""Sweeps with the driver on the head of several hosts."""

import pytest

from tests.cluster.conftest import WORK, Cluster, cluster_of, docker_on
from tests.cluster.hosts import Host
from tests.fakes.processes import wait
from tests.fakes.tasks import make_task

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCRIPTED = ["-a", "raw", "--engine", "scripted", "--script", "tests.fakes.answers:adds"]


def test_an_engine_on_another_host_answers_the_trials_of_the_driver():
    with cluster_of(2) as cluster:
        cluster.join(cluster.head, **WORK)
        cluster.join(cluster.hosts[1], engine_slot=1)
        given = ["-p", "starter", "-l", 2, "-a", "raw", "--sandbox", "bwrap", "--budget-tokens", 600]
        sweep, engine = cluster.sweep(*given, "--set", "retries.attempts=2"), "embedded_server"
        wait(lambda: any(engine in told for told in cluster.hosts[1].pids().values()), 120, "an engine")
        assert len(cluster.scored(sweep)) == 2
        assert not any(engine in told for host in cluster.hosts for told in host.pids().values())


def _tasks(cluster: Cluster, count: int) -> str:
    for number in range(count):
        instruction = f"Write `add.py` with a function `add(a, b)` that adds. Example: `add({number}, 1)`.\n"
        make_task(cluster.head.folder / "tmp/tasks", f"add{number}", instruction=instruction)
    return "/tmp/tasks"


def test_a_host_that_joins_in_the_middle_of_a_sweep_gets_a_candidate_within_10_seconds():
    with cluster_of(2) as cluster:
        cluster.join(cluster.head, engine_slot=1, **WORK)
        given = ["-p", _tasks(cluster, 1), "--sandbox", "bwrap", "-k", 40, "-n", 4, "--sleep", 1]
        sweep = cluster.sweep(*given, *SCRIPTED)
        wait(lambda: cluster.results(), 60, "the first trial")
        cluster.join(cluster.hosts[1], **WORK)
        solving = cluster.hosts[1].folder / "srv/sandboxes/solve"
        wait(lambda: solving.is_dir() and list(solving.iterdir()), 10, "a candidate on the host that joined")
        cluster.scored(sweep)


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
    found = cluster.scored(cluster.sweep("-p", _tasks(cluster, 2), *SCRIPTED, *settings))
    failed = [one for result in found.values() for one in result["agent_result"]["metadata"]["failed_attempts"]]
    assert len(found) == 6 and len(failed) <= 4, failed


def test_a_power_cut_costs_only_what_ran_on_that_host():
    with cluster_of(2) as cluster:
        cluster.join(cluster.head, engine_slot=1, **WORK)
        cluster.join(cluster.hosts[1], **WORK)
        sweep = cluster.sweep("-p", _tasks(cluster, 1), "--sandbox", "bwrap", "-k", 20, "-n", 2, *SCRIPTED)
        solving = cluster.hosts[1].folder / "srv/sandboxes/solve"
        wait(lambda: solving.is_dir() and list(solving.iterdir()), 90, "a candidate on the second host")
        cluster.hosts[1].power(on=False)
        found = cluster.scored(sweep)
        failed = [one for result in found.values() for one in result["agent_result"]["metadata"]["failed_attempts"]]
        assert len(found) == 20 and len(failed) <= 4, failed


def test_three_replicas_stand_on_three_hosts_and_a_second_sweep_is_told_who_holds_the_slots():
    with cluster_of(3) as cluster:
        for host in cluster.hosts:
            cluster.join(host, engine_slot=1, **WORK)
        given = [
            "-p",
            "starter",
            "-l",
            6,
            "-a",
            "raw",
            "--sandbox",
            "bwrap",
            "--budget-tokens",
            600,
            "--wait-nodes",
            "3:90",
        ]
        sweep = cluster.sweep(*given, "--set", "engine.replicas=3")

        def served(host: Host) -> bool:
            return any("embedded_server" in told for told in host.pids().values())

        wait(lambda: all(map(served, cluster.hosts)), 150, "an engine on each host")
        wait(lambda: cluster.results(), 200, "the first trial")
        second = cluster.head.run(
            "hc-ray sweep --address auto -p starter -l 1 -a oracle --sandbox bwrap -o /tmp/second"
        )
        assert second.returncode == 2 and "sandbox_slot is taken by" in second.stdout + second.stderr, second
        assert len(cluster.scored(sweep)) == 6
