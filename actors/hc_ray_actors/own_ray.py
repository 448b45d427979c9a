"""What surrounds the start of a Ray that serves this process alone."""

import contextlib
import os
import resource
from collections.abc import Iterator, Mapping
from typing import Any

FEW_THREADS = 1000
"""Ray's processes have some hundreds."""
NEEDLESS = ("start_monitor", "start_log_monitor", "start_api_server")
"""Of a node of Ray: what starts its autoscaler, its reader of logs and its dashboard, a process each."""


@contextlib.contextmanager
def among(variables: Mapping[str, str]) -> Iterator[None]:
    """What is started meanwhile finds these in its environment."""
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ |= variables
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
        os.environ |= before


@contextlib.contextmanager
def few_processes(ray: Any) -> Iterator[None]:
    """A Ray that is started meanwhile lacks what nobody asks of a sweep's own one: it does not grow, and nobody reads
    its logs or its dashboard. That saves each sweep 1.5 s of processor time, and the wait for the dashboard."""
    node = ray._private.node.Node
    before = {name: getattr(node, name) for name in NEEDLESS}
    try:
        for name in NEEDLESS:
            setattr(node, name, lambda one, **_: None)
        yield
    finally:
        for name, start in before.items():
            setattr(node, name, start)


def limits() -> str:
    """What this process may have little of, as ``ulimit`` says it: Ray does not name it where it runs out."""
    threads, memory = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_AS))
    low = [f"ulimit -u {threads}"] if 0 <= threads < FEW_THREADS else []
    low += [f"ulimit -v {memory >> 10}"] if memory >= 0 else []
    return f"; it may lack what this shell limits: {', '.join(low)}" if low else ""
