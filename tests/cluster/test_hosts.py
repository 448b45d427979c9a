"""What hosts made of namespaces are, before anything is said by a test that stands on them."""

import json
import signal
import sys

import pytest

from tests.cluster.conftest import Cluster
from tests.cluster.hosts import ROOT, UID, USER, network, remove_leftovers
from tests.fakes.processes import ran, wait
from tests.fakes.sweeps import REPOSITORY

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SANDBOX = "from hc_ray.sandboxes.bwrap import sandbox; print(sandbox.probe())"
NODES = """import json, ray
ray.init(address="auto", log_to_driver=False)
print(json.dumps([[node["NodeManagerAddress"], node["Resources"]] for node in ray.nodes() if node["Alive"]]))"""


def test_a_killed_test_run_leaves_nothing_that_the_next_does_not_remove(tmp_path):
    script = "import os; from tests.cluster.hosts import *\nwith network(1): os.kill(os.getpid(), 9)"
    done = ran(sys.executable, "-c", script, cwd=REPOSITORY)
    assert done.returncode == -signal.SIGKILL and ROOT.is_dir()
    wait(lambda: str(ROOT) not in ran("ps", "-eo", "args").stdout, 10, "the end of its processes")
    remove_leftovers()
    assert not ROOT.exists() and str(ROOT) not in ran("cat", "/proc/mounts").stdout


@pytest.fixture(scope="module")
def hosts():
    with network(3, without_user_namespaces=2) as three:
        yield three


def test_each_has_its_own_name_files_processes_and_loopback(hosts):
    one, two, _ = hosts
    assert [host.run("hostname").stdout.strip() for host in hosts] == ["host1", "host2", "host3"]
    serving = one.start("touch /tmp/a ~/b && exec python -m http.server 8000 --bind 0.0.0.0")
    wait(lambda: one.run("curl -s localhost:8000").stdout, 20, "a server on the host's own loopback")
    assert not two.run("ls /tmp/a ~/b").stdout and not any("http.server" in told for told in two.pids().values())
    assert two.run("curl -s localhost:8000").returncode == 7  # refused
    assert "Directory listing" in two.run("curl -s host1:8000").stdout
    assert two.run("touch /etc/x /usr/x .venv/x").stderr.count("Read-only file system") == 3
    serving.kill()


@pytest.mark.parametrize("user", ["root", USER])
def test_a_user_comes_from_one_to_another_by_ssh(hosts, user):
    done = hosts[0].run("ssh host2 'hostname; id -u'", user)
    assert done.stdout.split() == ["host2", "0" if user == "root" else str(UID)], done.stderr


@pytest.mark.parametrize("user", ["root", USER])
def test_bubblewrap_works_where_user_namespaces_do(hosts, user):
    whole, bare = (host.run(f'python -c "{SANDBOX}"', user).stdout for host in (hosts[0], hosts[2]))
    assert whole == "None\n" and "bwrap" in bare and "None" not in bare


def test_a_power_cut_ends_every_process_and_keeps_the_disk_and_a_pulled_cable_keeps_both(hosts):
    one, two, _ = hosts
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


def test_ray_on_three_hosts_has_three_addresses_and_the_slots_of_each(hosts):
    cluster = Cluster(hosts)
    slots = [{"engine_slot": 1.0}, {"sandbox_slot": 2.0}, {"verifier_slot": 1.0, "sandbox_slot": 1.0}]
    for host, own in zip(hosts, slots, strict=True):
        cluster.join(host, **own)
    done = hosts[0].run(f"python -c '{NODES}'")
    told = {
        address: {name: had[name] for name in had if name.endswith("_slot")} for address, had in json.loads(done.stdout)
    }
    assert told == {host.address: own for host, own in zip(hosts, slots, strict=True)}
