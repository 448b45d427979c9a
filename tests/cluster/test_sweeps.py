"""Sweeps with the driver on the head of several hosts."""

import pytest

from tests.cluster.conftest import WORK, cluster_of
from tests.fakes.processes import wait

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_an_engine_on_another_host_answers_the_trials_of_the_driver():
    with cluster_of(2) as cluster:
        cluster.join(cluster.head, **WORK)
        cluster.join(cluster.hosts[1], engine_slot=1)
        given = ["-p", "starter", "-l", 2, "-a", "raw", "--sandbox", "bwrap", "--budget-tokens", 600]
        sweep, engine = cluster.sweep(*given, "--set", "retries.attempts=2"), "embedded_server"
        wait(lambda: any(engine in told for told in cluster.hosts[1].pids().values()), 120, "an engine")
        assert len(cluster.scored(sweep)) == 2
        assert not any(engine in told for host in cluster.hosts for told in host.pids().values())
