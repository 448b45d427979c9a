"""Ray on hosts, started as cluster.yaml does."""

import contextlib
import json
import secrets
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any

from tests.boundary.noninterference.compare import without
from tests.cluster.hosts import DATA, Host, network
from tests.fakes.docker_daemon import OwnDaemon
from tests.fakes.sweeps import command, results

PORT = 6379
OUT = "/tmp/out"
WORK = {"sandbox_slot": 1, "verifier_slot": 1}
SETTINGS = {
    "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": f"{DATA}/keys/ray_token", "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_worker_niceness": "0",
    # Two cores for three machines: no workers before one is asked for, no figures that nobody reads.
    "RAY_prestart_worker_first_driver": "0", "RAY_enable_metrics_collection": "0",
}  # fmt: skip


class Cluster:
    def __init__(self, hosts: list[Host]) -> None:
        self.hosts, self.head, self._token = hosts, hosts[0], secrets.token_hex(32)
        for host in hosts:
            host.environment |= SETTINGS

    def join(self, host: Host, **slots: float) -> None:
        """``slots``: cluster.yaml's custom resources."""
        token = host.folder / DATA[1:] / "keys/ray_token"
        token.parent.mkdir(mode=0o700, exist_ok=True)
        token.write_text(self._token)
        token.chmod(0o600)
        head = f"--head --port={PORT} --include-dashboard=false"
        where = head if host is self.head else f"--address={self.head.name}:{PORT}"
        words = f"--num-cpus=1 --object-store-memory={80 << 20} --include-log-monitor=false"
        start = f"ray start {where} --node-ip-address={host.address} {words} --resources='{json.dumps(slots)}'"
        # Ray gives up after 30 s, which a busy machine of two cores may take.
        done = host.run(f"{start} || (ray stop --force; {start})", timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr

    def sweep(self, *words: object, out: str = OUT) -> "subprocess.Popen[str]":
        given = ["sweep", *words, "--address", "auto", "-o", out, "--mlflow-uri", "none"]
        return self.head.start(shlex.join(command(*given)))

    def scored(self, sweep: "subprocess.Popen[str]", out: str = OUT, within: float = 300) -> dict[str, dict[str, Any]]:
        """The sweep's results by name; fails the test unless it ends well and all trials were scored."""
        said, _ = sweep.communicate(timeout=within)
        found = self.results(out)
        faults = {r["exception_info"]["exception_message"] for r in found.values() if r["verifier_result"] is None}
        assert (sweep.returncode, faults) == (0, set()), said[-1500:]
        return found

    def results(self, out: str = OUT) -> Any:
        return results(self.head.folder / out[1:])

    def states(self) -> list[dict[str, Any]]:
        """What the sweep's journal tells of its actors."""
        journal = sorted((self.head.folder / OUT[1:] / "events").iterdir())
        events = [json.loads(line) for segment in journal for line in segment.read_text().splitlines()]
        return [event for event in events if event["type"] == "post_state"]


def attempts(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The failed ones of all trials; what several trials waited for (a task's image, its control) counts once."""
    told = [one for result in found.values() for one in result["agent_result"]["metadata"]["failed_attempts"]]
    return list({(one["stage"], one["at"]): one for one in told}.values())


def told_by(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each trial's result, without the clock and the failed attempts."""
    left_out = {"agent_result.metadata.failed_attempts"}
    return {name: without(result, left_out) for name, result in found.items()}


@contextlib.contextmanager
def cluster_of(count: int, **options: Any) -> Iterator[Cluster]:
    with network(count, **options) as hosts:
        yield Cluster(hosts)


@contextlib.contextmanager
def docker_on(host: Host) -> Iterator[OwnDaemon]:
    """A Docker daemon of a host's own, with the made tasks' image."""
    (host.folder / "docker").mkdir()
    own = OwnDaemon(host.folder / "docker", host.entered('exec "$0" "$@"'))
    host.environment["DOCKER_HOST"] = own.host
    try:
        own.start()
        own.load("python:3.11-slim-bookworm")
        yield own
    finally:
        own.remove()
