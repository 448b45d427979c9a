"""The embedded engine: an xllamacpp server in a child process."""

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
"""How long an engine thread spins for the others before it sleeps. Threads wait for each other hundreds of times per
token. With libgomp's default they keep spinning while another process occupies a core, so that a single busy process
costs nearly all speed; this count halves that loss, and costs nothing on an idle machine (docs/results.md)."""

HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Makes the C library request huge pages for large allocations. A mapped file has small pages, whose address lookups
cost a small model a fifth of its speed (docs/results.md)."""


def default_threads() -> int:
    """One thread per core available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


SMALL = 512 << 20
"""A machine runs several servers for weights of up to this many bytes."""
MOST_SERVERS = 4


def servers_of(model_path: Path, threads: int | None = None) -> list[int]:
    """The number of threads of each server to run for a model on this machine. Threads of a server wait for each other
    at every step, so losing one core stalls them all: beside a busy process, two servers with one thread each are 1.5
    times as fast as one with two (docs/results.md). Large weights, which are read from memory at every step, are not
    duplicated."""
    threads = threads or default_threads()
    servers = min(threads, MOST_SERVERS) if model_path.stat().st_size <= SMALL else 1
    return [threads // servers + (index < threads % servers) for index in range(servers)]


def _to_be_read(model_path: Path) -> bool:
    """Whether each server reads the weights into its own memory: only if this takes at most a quarter of the machine's
    memory for all servers. Larger ones are mapped, so that servers share them and the kernel can evict them."""
    size = model_path.stat().st_size if model_path.is_file() else SMALL + 1
    return size <= SMALL and 4 * MOST_SERVERS * size <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_library() -> None:
    """Raise ``ConfigError``, with the remedy on its second line, if the engine's library cannot be loaded here."""
    command = [sys.executable, "-c", "import xllamacpp"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    lines = done.stderr.strip().splitlines()
    if fault := _lacking(lines):
        raise fault
    if done.returncode:
        raise ConfigError(f"the embedded engine cannot be loaded: {lines[-1] if lines else done.returncode}")


def _lacking(log: Sequence[str]) -> ConfigError | None:
    """What to install if the engine ended for lack of a library; small images have no OpenMP."""
    found = next(filter(None, map(_NO_LIBRARY.search, log)), None)
    if found is None:
        return None
    known = {"libgomp.so.1": "libgomp1 (Debian, Ubuntu) or libgomp (Fedora)"}
    package = known.get(found[1], f"the package that holds {found[1]}")
    return ConfigError(f"the embedded engine needs {found[1]}, which this machine lacks\ninstall {package}")


class EmbeddedServer(ServerProcess):
    """A server of one GGUF file, for ``parallel`` concurrent requests with ``context_tokens`` of context each.
    ``sha256``: the digest that the weights must have."""

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
        """See ``ServerProcess.start``. Raises ``ModelError`` for a file that is not a loadable model, ``EngineError``
        for weights that differ from the plan's."""
        if not self.alive():
            check_gguf(self._model)
            # Hash the whole file each time: a cached digest would miss a file that was copied over it.
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
