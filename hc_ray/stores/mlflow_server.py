"""MLflow's own UI on a store, in a process of its own, on loopback only."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from hc_ray.domain.errors import PlatformError
from hc_ray.machine.cleanup import owned_environment
from hc_ray.stores.mlflow_tracker import QUIET

HOST = "127.0.0.1"
START_SECONDS = 180.0
"""Importing MLflow alone takes ten seconds of an idle core."""


class Server:
    """A UI that answers."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self.pid = process, process.pid
        self.url = f"http://{HOST}:{port}"


@contextmanager
def serve(uri: str, *, port: int = 5000) -> Iterator[Server]:
    """Start the UI and yield it once it answers; everything started is ended on the way out. ``port`` 0 takes a free
    one. Raises ``PlatformError`` when the port is taken or the server does not come up."""
    port = _port(port)
    with tempfile.TemporaryFile() as log:
        command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri]
        command += ["--host", HOST, "--port", str(port), "--workers", "1"]
        environment = owned_environment({**os.environ, **QUIET, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"})
        # A session of its own: Ctrl-C reaches this process, which ends the server's whole group.
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            _await(process, port, log)
            yield Server(process, port)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _port(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PlatformError(
                f"port {port} on {HOST}: {error.strerror}; choose another with --port (0: any)"
            ) from None
        return int(probe.getsockname()[1])


def _await(process: subprocess.Popen[bytes], port: int, log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=2) as answer,
        ):
            if answer.status == 200:
                return
        time.sleep(0.2)
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    raise PlatformError(f"MLflow's server did not start on port {port}: {lines[-1] if lines else 'it printed nothing'}")
