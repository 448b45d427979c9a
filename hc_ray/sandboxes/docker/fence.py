"""Keeps a container that has a network from the cluster's addresses: ``inside/fence.py`` sets routes in the container's
network namespace, from a container of its own that is gone before the first command."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.runner_paths import RUNNER_ROOT, machinery_command
from hc_ray.sandboxes.docker.client import Daemon

SYSCTLS = {"net.ipv4.conf.all.accept_local": "1"}
"""Of a container that will be fenced: else it would not answer the ARP requests of its gateway."""
_SECONDS = 60.0


def own_addresses(proc: Path = Path("/proc")) -> set[str]:
    """This machine's addresses but those of loopback; none where the kernel shows none. Those of a link alone are left
    out: every fence holds for all of them."""
    found: set[str] = set()
    if (routes := proc / "net/fib_trie").exists():
        found |= set(re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", routes.read_text()))
    if (addresses := proc / "net/if_inet6").exists():
        numbers = [line.split()[0] for line in addresses.read_text().splitlines()]
        found |= {":".join(re.findall("....", number)) for number in numbers if not number.startswith("fe8")}
    return {address for address in found if not address.startswith(("127.", "0000:0000:0000:0000:0000:0000:0000:0001"))}


def fence(
    daemon: Daemon, container: str, *, image: str, volume: str, away: Collection[str], labels: Mapping[str, str]
) -> None:
    """Returns once nothing in ``container``, which runs, can reach ``away`` or its own gateway. ``image`` is the task's
    own: no file of a candidate is in it. Raises ``SandboxError`` where that cannot be had."""
    host = {
        "network_mode": f"container:{container}",
        "binds": {volume: {"bind": RUNNER_ROOT, "mode": "ro"}},
        "cap_drop": ["ALL"],
        "cap_add": ["NET_ADMIN"],
        "security_opt": ["no-new-privileges"],
        "log_config": {"type": "json-file", "config": {}},
    }
    config = {
        "entrypoint": machinery_command("fence"),
        "command": sorted({*own_addresses(), *away}),
        "user": "0",
        "healthcheck": {"test": ["NONE"]},
        "labels": dict(labels),
    }
    maker = daemon.create(image, "", host, config)
    try:
        daemon.start(maker)
        status, said = daemon.wait(maker, seconds=_SECONDS)
    finally:
        daemon.remove(maker)
    if status != 0:
        last = said.strip().splitlines()[-1:] or ["no word"]
        raise SandboxError(f"a sandbox's network cannot be kept from the cluster's addresses: {last[0]}")
