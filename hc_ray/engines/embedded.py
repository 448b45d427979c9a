"""The embedded engine: an xllamacpp server in a child process of whoever starts it."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO

from hc_ray.domain.credentials import without_secrets
from hc_ray.domain.errors import EngineError, ModelError
from hc_ray.engines.catalogue import check_gguf
from hc_ray.engines.weights import sha256_of
from hc_ray.machine.cleanup import owned_environment

_LOAD_FAILURES = ("error loading model", "failed to load model", "unknown model architecture", "invalid magic")

SPIN = {"GOMP_SPINCOUNT": "1000"}
"""How long a thread of the engine spins for the others before it sleeps. They wait for each other hundreds of times a
token: by libgomp's default they spin on while another process has one's core, which costs nearly all speed beside a
single busy process; at this count half of it, and nothing on an idle machine (docs/results.md)."""


def default_threads() -> int:
    """One thread a core that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


SMALL = 512 << 20
"""Bytes of weights up to which a machine runs several servers."""
MOST_SERVERS = 4


def servers_of(model_path: Path, threads: int | None = None) -> list[int]:
    """The servers that hold a model on this machine, as each one's number of threads. Threads of one server wait for
    each other at every step, so that whatever takes one's core stops all of them: beside a busy process two servers of
    one thread answer half as fast again as one server of two (docs/results.md). Large weights are read from memory at
    every step: these are not held twice."""
    threads = threads or default_threads()
    servers = min(threads, MOST_SERVERS) if model_path.stat().st_size <= SMALL else 1
    return [threads // servers + (index < threads % servers) for index in range(servers)]


KEY = "HC_RAY_ENGINE_KEY"
"""The variable that gives a server its key."""


class EmbeddedServer:
    """One inference server, in a process group of its own. It dies with this process. It listens on ``host``, an
    address of this machine, and answers who has ``key``, if there is one.

    ``parallel`` requests are served at once, each with ``context_tokens`` of context. ``sha256``: what the weights
    must be for anything to be served."""

    def __init__(
        self,
        model_path: Path | str,
        *,
        parallel: int = 8,
        context_tokens: int = 2048,
        threads: int | None = None,
        log_path: Path | str,
        start_timeout: float = 180.0,
        alias: str | None = None,
        sha256: str | None = None,
        host: str = "127.0.0.1",
        key: str | None = None,
    ) -> None:
        self._model = Path(model_path)
        self._parallel = parallel
        self._context_tokens = context_tokens
        self._threads = threads or default_threads()
        self._log_path = Path(log_path)
        self._start_timeout = start_timeout
        self._alias = alias or self._model.stem
        self._sha256 = sha256
        self._host, self._key = host, key
        self._process: subprocess.Popen[bytes] | None = None
        self._base_url: str | None = None

    @property
    def base_url(self) -> str:
        """The server's URL up to and including ``/v1``. Raises ``EngineError`` before ``start``."""
        if self._base_url is None:
            raise EngineError("the embedded engine has not been started")
        return self._base_url

    @property
    def pid(self) -> int | None:
        """The server's process id, which is its process group too; None when it is not running."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> str:
        """Start the server and wait until it is healthy; its base URL. Already running, it is left alone.

        Raises ``ModelError`` for a file that is no loadable model, ``EngineError`` for other weights than were planned
        and for any other failure to start."""
        if self.alive():
            return self.base_url
        check_gguf(self._model)
        self._check_weights()
        self.stop()
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("ab") as log:
            log_start = log.tell()
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=owned_environment({**SPIN, **without_secrets(), **({KEY: self._key} if self._key else {})}),
            )
        deadline = time.monotonic() + self._start_timeout
        try:
            url = self._await_report(self._process, deadline, log_start)
            self._await_health(url, deadline)
        except BaseException:
            self.stop()
            raise
        self._base_url = f"{url}/v1"
        return self._base_url

    def _check_weights(self) -> None:
        # Read whole each time: a digest remembered by name and time of change would pass what was copied over it.
        if self._sha256 is not None and (found := sha256_of(self._model)) != self._sha256:
            raise EngineError(
                f"{self._model} has different weights on this node (SHA-256 {found[:16]}…) than the plan expects "
                f"({self._sha256[:16]}…); copy or download them again there"
            )

    def alive(self) -> bool:
        """The process runs and answers its health check."""
        if self.pid is None or self._base_url is None:
            return False
        return _healthy(self._base_url.removesuffix("/v1"), timeout=5.0)

    def stop(self) -> None:
        """End the server and everything in its process group. Idempotent."""
        process, self._process, self._base_url = self._process, None, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=2.0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "hc_ray.engines.embedded_server"]
        command += ["--model", str(self._model), "--alias", self._alias, "--host", self._host]
        command += ["--parallel", str(self._parallel), "--context-tokens", str(self._context_tokens)]
        return [*command, "--threads", str(self._threads)]

    def _await_report(self, process: subprocess.Popen[bytes], deadline: float, log_start: int) -> str:
        assert process.stdout is not None
        line = _read_line(process.stdout, deadline)
        if line is None:
            raise EngineError(f"the engine did not start within {self._start_timeout:.0f} s; see {self._log_path}")
        report = json.loads(line) if line else {"error": f"it exited with code {process.wait()}"}
        if url := report.get("url"):
            return str(url)
        raise self._load_failure(str(report.get("error", "")), log_start)

    def _load_failure(self, says: str, log_start: int) -> Exception:
        with self._log_path.open("rb") as log:
            log.seek(log_start)
            lines = log.read().decode(errors="replace").splitlines()
        told = [line.strip() for line in lines if any(sign in line.lower() for sign in _LOAD_FAILURES)]
        if told:
            return ModelError(
                f"{self._model} could not be loaded: {told[0][told[0].find(' E ') + 3 :][:200]} (log: {self._log_path})"
            )
        return EngineError(f"the engine could not start: {says}; see {self._log_path}")

    def _await_health(self, url: str, deadline: float) -> None:
        while time.monotonic() < deadline:
            if _healthy(url, timeout=5.0):
                return
            if self.pid is None:
                raise EngineError(f"the engine died while it started; see {self._log_path}")
            time.sleep(0.05)
        raise EngineError(f"the engine was not healthy within {self._start_timeout:.0f} s; see {self._log_path}")


def _read_line(stream: IO[bytes], deadline: float) -> bytes | None:
    """The first line of a pipe (empty at its end); None when the deadline passes first."""
    held = b""
    while not held.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([stream], [], [], left)[0]:
            return None
        piece = os.read(stream.fileno(), 65536)
        if not piece:
            return b""
        held += piece
    return held


def _healthy(url: str, *, timeout: float) -> bool:
    try:
        # No proxy of the environment may stand between this process and its own child.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}/health", timeout=timeout) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False
