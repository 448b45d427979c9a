"""Helpers for starting a Ray that serves only this process."""

import contextlib
import os
import resource
from collections.abc import Iterator, Mapping
from typing import Any

FEW_THREADS = 1000
"""A lower thread limit may be too low: Ray's processes have some hundreds of threads."""
NEEDLESS = ("start_monitor", "start_log_monitor", "start_api_server")
"""Methods of Ray's node that start its autoscaler, log monitor and dashboard, one process each."""


@contextlib.contextmanager
def among(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for processes started in this block."""
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
    """Start Ray in this block without autoscaler, log monitor and dashboard, which a sweep's own Ray does not need.
    This saves 1.5 s of CPU time, and the wait for the dashboard."""
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
    """Resource limits that may be too low, in terms of ``ulimit``, since Ray does not name the one that it hits."""
    threads, memory = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_AS))
    low = [f"ulimit -u {threads}"] if 0 <= threads < FEW_THREADS else []
    low += [f"ulimit -v {memory >> 10}"] if memory >= 0 else []
    return f"; this shell's limits may be too low: {', '.join(low)}" if low else ""
