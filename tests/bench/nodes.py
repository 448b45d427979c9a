"""Two nodes against one, with an engine whose answers take their time: the same trials on one host with one server, and
on two hosts with a server each. The hosts share this machine's cores, so answers must take so long that the cores have
time to spare. Needs root (tests/cluster makes the hosts)."""

import argparse
import json
from datetime import datetime
from typing import Any

import yaml

from tests.cluster.conftest import Cluster, cluster_of
from tests.fakes.launched import COMMAND
from tests.fakes.tasks import make_tasks


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench nodes", description=__doc__)
    parser.add_argument("--trials", type=int, default=48)
    parser.add_argument("--delay", type=float, default=5.0, help="seconds that an answer takes")
    parser.add_argument("--parallel", type=int, default=2, help="requests that a server answers at once")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with cluster_of(2) as cluster:
        one, two = (_swept(cluster, nodes, given) for nodes in (1, 2))
    ratio = one["seconds"] / two["seconds"]
    found = {"one": one, "two": two, "ratio": round(ratio, 2)}
    if given.json:
        print(json.dumps(found))
    else:
        print(f"one node {one['seconds']:.1f} s, two {two['seconds']:.1f} s: {ratio:.2f} times as fast")


def _swept(cluster: Cluster, nodes: int, given: argparse.Namespace) -> dict[str, Any]:
    """Seconds from the first trial's start to the last one's end; the node that is needed joins first."""
    cluster.join(cluster.hosts[nodes - 1], engine_slot=1, sandbox_slot=given.parallel, verifier_slot=given.parallel)
    command = f"{COMMAND} --delay {given.delay} --slow add.py"
    engine = {"command": command, "model": "m", "context_tokens": 4096, "replicas": nodes, "parallel": given.parallel}
    temporary = cluster.head.folder / "tmp"
    (temporary / "engine.yaml").write_text(yaml.safe_dump({"engine": engine}))
    make_tasks(temporary / "tasks", 4)
    words = ["/tmp/engine.yaml", "-p", "/tmp/tasks", "--sandbox", "bwrap", "-a", "raw", "-k", given.trials // 4]
    out = f"/tmp/out{nodes}"
    found = cluster.scored(cluster.sweep(*words, out=out), out, within=1_800).values()
    began = min(datetime.fromisoformat(result["started_at"]) for result in found)
    ended = max(datetime.fromisoformat(result["finished_at"]) for result in found)
    return {"trials": len(found), "seconds": (ended - began).total_seconds()}


if __name__ == "__main__":
    main()
