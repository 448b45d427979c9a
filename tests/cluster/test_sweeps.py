"""Sweeps with the driver on the head of several hosts."""

import contextlib
import json
import shlex
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
import yaml

from hc_ray.engines.server import PORTS
from tests.cluster.conftest import OUT, WORK, Cluster, attempts, cluster_of, docker_on, told_by
from tests.cluster.hosts import DATA, Host
from tests.fakes.launched import COMMAND
from tests.fakes.processes import wait
from tests.fakes.tasks import TOML, make_task, make_tasks

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCRIPTED = ["-a", "raw", "--engine", "scripted", "--script", "tests.fakes.answers:adds"]


def _unnamed(result: dict[str, Any]) -> float:
    """Seconds of a trial's wall time that its phases do not name."""
    began, ended = (datetime.fromisoformat(result[name]) for name in ("started_at", "finished_at"))
    return abs((ended - began).total_seconds() - sum(result["agent_result"]["metadata"]["phases"].values()))


def test_an_engine_on_another_host_answers_the_trials_of_the_driver_and_status_tells_of_both():
    with cluster_of(2) as cluster:
        cluster.join(cluster.head, **WORK)
        cluster.join(cluster.hosts[1], engine_slot=1)
        given = ["-p", "starter", "-l", 2, "-a", "raw", "--sandbox", "bwrap", "--budget-tokens", 600]
        sweep, engine = cluster.sweep(*given, "--set", "retries.attempts=2"), "embedded_server"
        wait(lambda: any(engine in told for told in cluster.hosts[1].pids().values()), 120, "an engine")
        found = cluster.scored(sweep)
        assert len(found) == 2 and all(_unnamed(result) < 0.1 for result in found.values())
        status = json.loads(cluster.head.run(f"hc-ray status {OUT} --json").stdout)
        shown = [(bool(node["sandboxes"]), bool(node["engines"]), node["note"]) for node in status["nodes"]]
        assert shown == [(True, False, ""), (False, True, "")] and len(status["engines"]) == 1, status
        assert not any(engine in told for host in cluster.hosts for told in host.pids().values())


def _tasks(cluster: Cluster, count: int) -> str:
    make_tasks(cluster.head.folder / "tmp/tasks", count)
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


SANDBOXES = f"{DATA}/sandboxes"
SICK: dict[str, tuple[str, dict[str, int], Callable[[Host, Any], object] | None]] = {
    "it has no user namespaces": ("bwrap", {"without_user_namespaces": 1}, None),
    "it has no Docker": ("docker", {}, None),
    "its Docker stops for good": ("docker", {}, lambda host, daemon: daemon.stop()),
    "its disk is full": ("bwrap", {}, lambda host, daemon: host.run(f"head -c 1G /dev/zero > {SANDBOXES}/other")),
    "its power is cut": ("bwrap", {}, lambda host, daemon: host.power(on=False)),
    "its link is down for 90 seconds": ("bwrap", {}, lambda host, daemon: host.unplug(90)),
}
"""By what befalls the second host: the sandboxes, options of the network, what is done in the middle of the sweep."""


@pytest.mark.docker
@pytest.mark.parametrize("fault", SICK)
def test_a_fault_of_one_host_costs_at_most_four_attempts_and_changes_no_result(fault):
    backend, options, happens = SICK[fault]
    with cluster_of(2, **options) as cluster, contextlib.ExitStack() as daemons:
        head, sick = cluster.hosts
        daemon = None
        if backend == "docker":
            daemons.enter_context(docker_on(head))
            daemon = daemons.enter_context(docker_on(sick)) if happens else None
        sick.run(f"mkdir -p {SANDBOXES} && mount -t tmpfs -o size=256m tmpfs {SANDBOXES}").check_returncode()
        cluster.join(head, engine_slot=1, **WORK)
        given = ["-p", _tasks(cluster, 2), "--sandbox", backend, "-k", 10, "-n", 2, *SCRIPTED]
        calm = cluster.scored(cluster.sweep(*given, out="/tmp/calm"), "/tmp/calm")
        cluster.join(sick, **WORK)
        sweep = cluster.sweep(*given, "--sleep", 3, "--set", "retries.outage_sec=5")

        def works() -> bool:
            return bool(daemon.containers() if daemon else sick.run(f"ls {SANDBOXES}/solve").stdout.strip())

        if happens:
            wait(works, 90, "a candidate on the second host")
            happens(sick, daemon)
        found = cluster.scored(sweep)
        assert len(failed := attempts(found)) <= 4, failed
        assert told_by(found) == told_by(calm) and len(found) == 20
        troubled = {state["node"] for state in cluster.states() if state["state"] != "ready"}
        assert troubled == {sick.name}, cluster.states()


BREAKS = f"sh -c 'test ! -e /tmp/broken && exec {COMMAND}'"


def test_one_of_three_engines_that_never_comes_back_costs_no_trial():
    with cluster_of(3) as cluster:
        head, _, sick = cluster.hosts
        for host in cluster.hosts:
            cluster.join(host, engine_slot=1, **(WORK if host is head else {}))
        engine = {"command": BREAKS, "model": "m", "context_tokens": 4096, "replicas": 3}
        (head.folder / "tmp/engine.yaml").write_text(yaml.safe_dump({"engine": engine}))
        given = ["/tmp/engine.yaml", "-p", _tasks(cluster, 1), "--sandbox", "bwrap", "-a", "raw", "-k", 20, "-n", 3]
        calm = cluster.scored(cluster.sweep(*given, out="/tmp/calm"), "/tmp/calm")
        sweep = cluster.sweep(*given, "--sleep", 2)
        wait(cluster.results, 120, "the first trial")
        sick.run("touch /tmp/broken; pkill -KILL -f 'launched.py --host'").check_returncode()
        found = cluster.scored(sweep)
        assert len(attempts(found)) <= 4 and told_by(found) == told_by(calm) and len(found) == 20
        assert {state["node"] for state in cluster.states() if state["state"] != "ready"} == {sick.name}


def test_an_engine_whose_host_loses_its_power_with_a_request_in_hand_is_not_waited_for_until_the_request_is_over():
    with cluster_of(3) as cluster:
        head, *others = cluster.hosts
        cluster.join(head, **WORK)
        for host in others:
            cluster.join(host, engine_slot=1)
        engine = {"command": f"{COMMAND} --slow add --delay 12", "model": "m", "context_tokens": 4096}
        (head.folder / "tmp/engine.yaml").write_text(yaml.safe_dump({"engine": engine}))
        make_task(head.folder / "tmp/tasks", toml=TOML.replace("timeout_sec = 60.0", "timeout_sec = 900.0"))
        sweep = cluster.sweep("/tmp/engine.yaml", "-p", "/tmp/tasks", "--sandbox", "bwrap", "-a", "raw")

        def asked(host: Host) -> bool:
            """Whether somebody waits for an answer of the engine there: what idles is closed after 5 s."""
            sockets = [line.split()[1:4] for line in host.run("cat /proc/net/tcp").stdout.splitlines()[1:]]
            return any(state == "01" and int(own[-4:], 16) in PORTS for own, _, state in sockets)

        def in_hand() -> Host | None:
            before = [host for host in others if asked(host)]
            time.sleep(7)
            return next((host for host in before if asked(host)), None)

        wait(in_hand, 120, "a request in hand").power(on=False)
        found = cluster.scored(sweep, within=240)  # a request has 600 s
        assert len(attempts(found)) == 1 and len(found) == 1


NODES = """
import json, ray
ray.init(address="auto", log_to_driver=False, logging_level=40, configure_logging=False)
print(json.dumps({node["NodeManagerHostname"]: node["NodeID"] for node in ray.nodes()}))
"""


def test_a_host_that_drains_ends_what_it_has_and_gets_nothing_new():
    with cluster_of(2) as cluster:
        head, leaving = cluster.hosts
        cluster.join(head, engine_slot=1, **WORK)
        cluster.join(leaving, **WORK)
        given = ["-p", _tasks(cluster, 1), "--sandbox", "bwrap", "-k", 12, "-n", 2, "--sleep", 2, *SCRIPTED]
        sweep = cluster.sweep(*given)
        solving = leaving.folder / "srv/sandboxes/solve"
        wait(lambda: solving.is_dir() and list(solving.iterdir()), 90, "a candidate on the second host")
        ids = json.loads(head.run(f"python -c {shlex.quote(NODES)}").stdout.splitlines()[-1])
        reason = "--reason=DRAIN_NODE_REASON_PREEMPTION --reason-message=spot --deadline-remaining-seconds=600"
        head.run(f"ray drain-node --address=host1:6379 --node-id={ids[leaving.name]} {reason}").check_returncode()
        wait(lambda: not list(solving.iterdir()), 20, "the end of what runs there")
        begun = len(cluster.results())
        while sweep.poll() is None:
            assert not list(solving.iterdir())
            time.sleep(0.2)
        found = cluster.scored(sweep)
        assert begun < len(found) == 12 and attempts(found) == []


def test_three_replicas_stand_on_three_hosts_and_a_second_sweep_is_told_who_holds_the_slots():
    with cluster_of(3) as cluster:
        for host in cluster.hosts:
            cluster.join(host, engine_slot=1, **WORK)
        given = ["-p", "starter", "-l", 6, "-a", "raw", "--sandbox", "bwrap", "--budget-tokens", 600]
        sweep = cluster.sweep(*given, "--wait-nodes", "3:90", "--set", "engine.replicas=3")

        def served(host: Host) -> bool:
            return any("embedded_server" in told for told in host.pids().values())

        wait(lambda: all(map(served, cluster.hosts)), 150, "an engine on each host")
        other = "hc-ray sweep --address auto -p starter -l 1 -a oracle --sandbox bwrap -o /tmp/second"
        second = cluster.head.run(other)
        assert second.returncode == 2 and "sandbox_slot is taken by" in second.stdout + second.stderr, second
        assert len(cluster.scored(sweep)) == 6
