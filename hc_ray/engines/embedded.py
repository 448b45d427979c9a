"""The embedded engine: an xllamacpp server in a child process of whoever starts it."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hc_ray.domain.credentials import without_secrets
from hc_ray.domain.errors import ConfigError, EngineError, ModelError
from hc_ray.engines.catalogue import check_gguf
from hc_ray.engines.server import KEY, ServerProcess
from hc_ray.engines.weights import sha256_of

_NO_LIBRARY = re.compile(r"ImportError: (\S+): cannot open shared object file")
_LOAD_FAILURES = ("error loading model", "failed to load model", "unknown model architecture", "invalid magic")

SPIN = {"GOMP_SPINCOUNT": "1000"}
"""How long a thread of the engine spins for the others before it sleeps. They wait for each other hundreds of times a
token: by libgomp's default they spin on while another process has one's core, which costs nearly all speed beside a
single busy process; at this count half of it, and nothing on an idle machine (docs/results.md)."""

HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Has the C library ask for large pages wherever it takes much memory. A file that is mapped has small ones, and
looking up their addresses costs a small model a fifth of its speed (docs/results.md)."""


def default_threads() -> int:
    """One thread a core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


def _to_be_read(model_path: Path) -> bool:
    """Whether a server reads its weights into memory of its own: small ones, for which all servers take at most a
    quarter of the machine's memory. Others are mapped, so that servers share them and the kernel can drop them."""
    size = model_path.stat().st_size if model_path.is_file() else SMALL + 1
    return size <= SMALL and 4 * MOST_SERVERS * size <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_library() -> None:
    """Raises ``ConfigError``, with the remedy on its second line, where the engine's library cannot be loaded here."""
    command = [sys.executable, "-c", "import xllamacpp"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    lines = done.stderr.strip().splitlines()
    if fault := _lacking(lines):
        raise fault
    if done.returncode:
        raise ConfigError(f"the embedded engine cannot be loaded: {lines[-1] if lines else done.returncode}")


def _lacking(log: Sequence[str]) -> ConfigError | None:
    """What to install where the engine ended since this machine lacks a library: small images have no OpenMP."""
    found = next(filter(None, map(_NO_LIBRARY.search, log)), None)
    if found is None:
        return None
    known = {"libgomp.so.1": "libgomp1 (Debian, Ubuntu) or libgomp (Fedora)"}
    package = known.get(found[1], f"the package that holds {found[1]}")
    return ConfigError(f"the embedded engine needs {found[1]}, which this machine lacks\ninstall {package}")


class EmbeddedServer(ServerProcess):
    """A server of one GGUF file: ``parallel`` requests are served at once, each with ``context_tokens`` of context.
    ``sha256``: what the weights must be for anything to be served."""

    def __init__(
        self,
        model_path: Path | str,
        *,
        parallel: int = 8,
        context_tokens: int = 2048,
        threads: int | None = None,
        log_path: Path | str,
        sha256: str | None = None,
        host: str = "127.0.0.1",
        key: str | None = None,
    ) -> None:
        self._model, self._sha256 = Path(model_path), sha256
        command = [sys.executable, "-m", "hc_ray.engines.embedded_server"]
        command += ["--model", str(self._model), "--alias", self._model.stem, "--host", host, "--port", "{port}"]
        command += ["--parallel", str(parallel), "--context-tokens", str(context_tokens)]
        if _to_be_read(self._model):
            command.append("--read-weights")
        super().__init__(
            [*command, "--threads", str(threads or default_threads())],
            what="the embedded engine",
            environment={**SPIN, **HUGE_PAGES, **without_secrets(), **({KEY: key} if key else {})},
            log_path=Path(log_path),
            start_seconds=180.0,
            host=host,
            key=key,
        )

    def start(self) -> str:
        """As ``ServerProcess.start``. Raises ``ModelError`` for a file that is no loadable model, ``EngineError`` for
        other weights than were planned."""
        if not self.alive():
            check_gguf(self._model)
            # Read whole each time: a digest remembered by name and time of change would pass what was copied over it.
            if self._sha256 is not None and (found := sha256_of(self._model)) != self._sha256:
                raise EngineError(
                    f"{self._model} has different weights on this node (SHA-256 {found[:16]}…) than the plan expects "
                    f"({self._sha256[:16]}…); copy or download them again there"
                )
        return super().start()

    def _fault(self, log: list[str]) -> Exception:
        failures = [line for line in log if any(sign in line.lower() for sign in _LOAD_FAILURES)]
        if failures:
            return ModelError(f"{self._model} could not be loaded{self._told(failures[:1])}")
        return _lacking(log) or super()._fault(log)
