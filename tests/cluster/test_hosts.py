"""What hosts made of namespaces are, before anything is said by a test that stands on them."""

import pytest

from tests.cluster.hosts import network
from tests.fakes.processes import wait

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def hosts():
    with network(2) as two:
        yield two


def test_each_has_its_own_name_files_processes_and_loopback(hosts):
    one, two = hosts
    assert [host.run("hostname").stdout.strip() for host in hosts] == ["host1", "host2"]
    serving = one.start("touch /tmp/a ~/b && exec python -m http.server 8000 --bind 0.0.0.0")
    wait(lambda: one.run("curl -s localhost:8000").stdout, 20, "a server on the host's own loopback")
    assert not two.run("ls /tmp/a ~/b").stdout and not any("http.server" in told for told in two.pids().values())
    assert two.run("curl -s localhost:8000").returncode == 7  # refused
    assert "Directory listing" in two.run("curl -s host1:8000").stdout
    assert two.run("touch /etc/x /usr/x .venv/x").stderr.count("Read-only file system") == 3
    serving.kill()


def test_a_power_cut_ends_every_process_and_keeps_the_disk_and_a_pulled_cable_keeps_both(hosts):
    one, two = hosts
    serving = two.start("echo kept >/tmp/kept; setsid sleep 900 & exec python -m http.server 8000 --directory /tmp")
    fetch = "curl -s --max-time 2 host2:8000/kept"
    wait(lambda: one.run(fetch).stdout == "kept\n", 20, "the server")
    before = two.bytes()
    assert one.run(fetch).stdout == "kept\n" and all(
        now - then > 200 for now, then in zip(two.bytes(), before, strict=True)
    )
    two.cable(plugged=False)
    assert one.run(fetch).returncode == 28 and len(two.pids()) == 2  # timed out
    two.cable(plugged=True)
    wait(lambda: one.run(fetch).stdout == "kept\n", 20, "the server behind its cable")
    two.power(on=False)
    assert two.pids() == {} and serving.wait(5)
    two.power(on=True)
    assert two.run("cat /tmp/kept").stdout == "kept\n" and two.pids() == {}
    assert one.run(fetch).returncode == 7
