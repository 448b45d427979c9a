"""Sandboxes that have a network reach the world through it, and no address of the cluster."""

import contextlib
import json
import socket
import subprocess
import threading

import pytest

from hc_ray.sandboxes.docker.container import DockerSandbox
from hc_ray.sandboxes.docker.lifecycle import own_addresses
from tests.fakes.contract_task import python
from tests.fakes.docker_tasks import task_with_environment
from tests.fakes.processes import ran
from tests.fakes.sandbox_home import closing

pytestmark = pytest.mark.docker

WORLD, WIRE = "198.51.100.2", "hc-world"
ATTACK = """
import json, os, socket, struct
hosts, port, found = json.loads(TARGETS), PORT, []
for line in open("/proc/net/route").readlines()[1:]:
    packed = struct.pack("=I", int(line.split()[2], 16))
    hosts += [socket.inet_ntoa(packed)] * any(packed)
for entry in (open("/proc/net/ipv6_route") if os.path.exists("/proc/net/ipv6_route") else ()):
    packed = bytes.fromhex(entry.split()[4])
    hosts += [socket.inet_ntop(socket.AF_INET6, packed)] * any(packed)
DEVICE, IFINDEX = 25, socket.if_nametoindex("eth0")
def device(name): return lambda s: s.setsockopt(socket.SOL_SOCKET, DEVICE, name)
def direct(s): s.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)
def both(s): direct(s), device(b"eth0")(s)
def sourced(s): s.setsockopt(0, 4, b"\\x83\\x07\\x04" + socket.inet_aton(host) + b"\\0")
def removes(s):
    to = socket.inet_pton(s.family, host.partition("%")[0])
    route = struct.pack("=BBBBBBBBIHH", s.family, 8 * len(to), 0, 0, 255, 4, 254, 2, 0, 4 + len(to), 1) + to
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(route), 25, 5, 1, 0) + route)
        assert struct.unpack_from("=i", kernel.recv(4096), 16)[0] == -1  # not permitted
for host in hosts:
    ways = [lambda s: None, device(b"eth0"), direct, both, removes] + [sourced] * ("." in host)
    for number, way in enumerate(ways):
        info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(info[0], socket.SOCK_STREAM) as s:
            s.settimeout(2)
            try:
                way(s)
                s.connect(info[4])
                found.append([host, number])
            except OSError:
                pass
print(json.dumps(found))
"""


@contextlib.contextmanager
def engine():
    """A server as an engine is one, on every address of this machine; answers its port."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        threading.Thread(target=server.listen, daemon=True).start()
        yield server.getsockname()[1]


@contextlib.contextmanager
def world():
    """A machine beyond this one, on a wire of its own, with a web server; answers the server's port."""
    script = f"""ip link set lo up; ip address add {WORLD}/24 dev {WIRE}1; ip link set {WIRE}1 up
exec python3 -um http.server 8000 --bind {WORLD}"""
    waits = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-ec", f"echo; read go; {script}"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as machine:
        machine.stdout.readline()
        ran("ip", "link", "add", f"{WIRE}0", "type", "veth", "peer", "name", f"{WIRE}1", "netns", str(machine.pid))
        ran("ip", "address", "add", "198.51.100.1/24", "dev", f"{WIRE}0")
        ran("ip", "link", "set", f"{WIRE}0", "up").check_returncode()
        machine.stdin.write("go\n")
        machine.stdin.flush()
        assert "Serving" in machine.stdout.readline()
        yield 8000
        machine.kill()


@pytest.fixture
async def place(tmp_path):
    async with closing("docker", tmp_path) as made:
        await made.keep_from(["203.0.113.0/24"])
        yield made


def attack(port, *targets):
    return ATTACK.replace("TARGETS", repr(json.dumps(targets))).replace("PORT", str(port))


async def test_no_way_leads_from_a_sandbox_with_a_network_to_this_machine_and_the_world_stays_in_reach(place, tmp_path):
    with world() as web, engine() as port:
        assert "198.51.100.1" in own_addresses()
        sandbox = await place.create(task_with_environment(tmp_path), "a", network=True)
        for box in (sandbox, await sandbox.fork("b")):
            reached = f"import urllib.request as r; print(r.urlopen('http://{WORLD}:{web}', timeout=5).status)"
            assert (await python(box, reached)).strip() == "200"
            assert await python(box, attack(port, *own_addresses(), "203.0.113.9"), 60) == "[]\n"
            # The gateway has forgotten the sandbox: it finds it again.
            assert ran("ip", "neighbour", "flush", "dev", f"br-{place._ground._network[:12]}").returncode == 0
            assert (await python(box, reached)).strip() == "200"


async def test_a_network_with_ipv6_is_fenced_too_and_so_is_a_sandbox_that_lives_when_the_addresses_change(
    place, tmp_path, monkeypatch
):
    made = ran("docker", "network", "create", "--ipv6", "--subnet", "fd00:7:7::/64", "hc-ray-test-six").stdout.strip()
    bridge = f"br-{made[:12]}"
    try:
        place._ground._network = made
        with engine() as port:
            sandbox = await place.create(task_with_environment(tmp_path), "a", network=True)
            lines = ran("ip", "-6", "-o", "address", "show", "dev", bridge).stdout.splitlines()
            links = [f"{line.split()[3].partition('/')[0]}%eth0" for line in lines if "fe80" in line]
            assert links and await python(sandbox, attack(port, "fd00:7:7::1", *links), 60) == "[]\n"
            monkeypatch.setattr(DockerSandbox, "fence", lambda *args, **options: None)
            naked = await place.create(task_with_environment(tmp_path), "b", network=True)
            got = json.loads(await python(naked, attack(port, "fd00:7:7::1", *links), 60))
            assert {host for host, _ in got} >= {"fd00:7:7::1", *links} and len({number for _, number in got}) > 3
            monkeypatch.undo()
            await place.keep_from(())
            assert await python(naked, attack(port, "fd00:7:7::1", *links), 60) == "[]\n"
            await sandbox.close()
            await naked.close()
    finally:
        ran("docker", "network", "rm", "hc-ray-test-six")
        place._ground._network = None
