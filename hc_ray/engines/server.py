"""Inference servers as child processes: the user's vLLM, SGLang or llama.cpp, from their environment or container, and
the embedded engine."""

import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.credentials import without_secrets
from hc_ray.domain.engine_config import program_of
from hc_ray.domain.errors import ConfigError, EngineError
from hc_ray.engines import launcher
from hc_ray.machine.cleanup import owned_environment

KEY = "HC_RAY_ENGINE_KEY"
"""The variable that passes a server its key; vLLM and llama.cpp have their own names for it."""
_KEYS = {"vllm": "VLLM_API_KEY", "llama-server": "LLAMA_API_KEY"}
_DOWNLOADS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Secrets that the user's server keeps, to download weights."""
_OURS = re.compile(r"RAY_|PYTHON|VIRTUAL_ENV$|OMP_NUM_THREADS$")
"""Variables of this program's environment or set by Ray for its workers, which a server must not inherit."""
PORTS = range(20_000, 30_000)
"""Above the ports of Ray's workers, below the system's ephemeral ports."""
PORT_ATTEMPTS = 3
_EXCEPTION = re.compile(r"\b[A-Z]\w*(?:Error|Exception): (?!.*[Rr]oot cause).*")
_FAULT = re.compile(r"\berror\b|\bfailed\b|out of memory|unable to|cannot", re.I)
_ROOM = re.compile(r"insufficient memory|out of memory", re.I)


class ServerProcess:
    """One server, in its own process group. It dies with this process.

    ``command`` contains ``{port}``; the port is chosen anew for each start unless ``port`` is given. ``what`` names the
    server in messages, and ``patience`` says how to allow it more time to start. It listens on ``host``, an address of
    this machine, and requires ``key``, if given, which it gets in ``environment``, never in the command."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        what: str,
        environment: Mapping[str, str],
        log_path: Path,
        start_seconds: float,
        host: str = "127.0.0.1",
        port: int = 0,
        key: str | None = None,
        patience: str = "",
    ) -> None:
        self._command, self._what, self._environment = list(command), what, environment
        self._log_path, self._start_seconds, self._patience = log_path, start_seconds, patience
        self._host, self._port, self._key = host, port, key
        self._process: subprocess.Popen[bytes] | None = None
        self._wanted = False
        """Until ``stop``, which may come while another thread starts it."""
        self.base_url: str | None = None
        """The server's URL up to and including ``/v1``; None before ``start``."""

    @property
    def pid(self) -> int | None:
        """Its launcher's process id, also its process group; None if it is not running."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> str:
        """Start the server unless it runs, wait until it is healthy, and return its base URL.

        Raises ``ConfigError`` if the program is missing, ``EngineError`` for any other failure to start, with the most
        telling line of the server's log."""
        if self.base_url and self.alive():
            return self.base_url
        self._end()
        self._wanted = True
        program = program_of(self._command)
        if shutil.which(program, path=self._environment.get("PATH")) is None:
            raise ConfigError(f"{self._what}: no program {program} on {socket.gethostname()}; give its full path")
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + self._start_seconds
        for _ in range(PORT_ATTEMPTS):
            port = self._port or free_port(self._host)
            try:
                return self._start(port, until)
            except BaseException as fault:
                self._end()
                if self._port or not self._wanted or not isinstance(fault, EngineError) or is_free(self._host, port):
                    raise
                last = fault
        raise EngineError(f"{self._what}: other programs took all {PORT_ATTEMPTS} ports that were tried; {last}")

    def _start(self, port: int, until: float) -> str:
        with self._log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", launcher.__file__,
                 *(word.replace("{port}", str(port)) for word in self._command)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=owned_environment(self._environment),
            )  # fmt: skip
        url = f"http://[{self._host}]:{port}" if ":" in self._host else f"http://{self._host}:{port}"
        while not _healthy(url, self._key, timeout=5.0):
            if self.pid is None or not self._wanted:
                raise self._fault(self._log())
            if time.monotonic() > until:
                limit = f"{self._what} was not ready within {self._start_seconds:g} s"
                raise EngineError(f"{limit}{self._told(self._log())}{self._patience}")
            time.sleep(0.05)
        self.base_url = f"{url}/v1"
        return self.base_url

    def _fault(self, log: list[str]) -> Exception:
        return EngineError(f"{self._what} could not start{self._told(log)}")

    def _told(self, log: list[str]) -> str:
        return f": {told(log)} (log: {self._log_path} on {socket.gethostname()})"

    def _log(self) -> list[str]:
        with self._log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace").splitlines()

    def alive(self) -> bool:
        """Whether the process runs and answers its health check."""
        if self.pid is None or self.base_url is None:
            return False
        return _healthy(self.base_url.removesuffix("/v1"), self._key, timeout=15.0)

    def wait(self) -> None:
        """Wait until the server ends."""
        if self._process:
            self._process.wait()

    def stop(self) -> None:
        """End the server and everything in its process group, and a start that is under way. Idempotent."""
        self._wanted = False
        self._end()

    def _end(self) -> None:
        process, self._process, self.base_url = self._process, None, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=launcher.GRACE_SECONDS + 2.0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def launched(config: EngineConfig, model: str, *, host: str, key: str | None, folder: Path) -> ServerProcess:
    """The server for an engine's ``command``, with its log in ``folder``. ``model``: a name that the server knows, or a
    path of weights."""
    words, preset = shlex.split(config.command or ""), config.preset
    fields = {"model": model, "host": host, "context_tokens": str(config.context_tokens),
              "parallel": str(config.parallel), "gpus": str(config.num_gpus)}  # fmt: skip
    command = [re.sub(r"\{(\w+)\}", lambda found: fields.get(found[1], found[0]), word) for word in words]
    environment = {name: value for name, value in without_secrets().items() if not _OURS.match(name)}
    environment |= {name: os.environ[name] for name in _DOWNLOADS if name in os.environ}
    environment |= {_KEYS.get(preset or "", KEY): key} if key else {}
    if preset is not None:
        after = words.index(program_of(words)) + 1
        own = command[after + (command[after : after + 1] == ["serve"]) :]
        command = [*command[:after], *_options(preset, config, model, host)]
        if preset == "sglang" and key:
            settings = folder / "sglang.yaml"  # SGLang cannot read its key from a variable
            with os.fdopen(os.open(settings, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
                stream.write(f"api-key: {key}\n")
            command += ["--config", str(settings)]
        command += own
    return ServerProcess(command, what=f"the server of {config.label}", environment=environment, host=host, key=key,
                         log_path=folder / "server.log", start_seconds=config.start_sec,
                         patience="; engine.start_sec gives it more time")  # fmt: skip


def _options(preset: str, config: EngineConfig, model: str, host: str) -> list[str]:
    """The options to insert before the user's, which take precedence. They switch off the server's sampling defaults,
    since requests state all parameters."""
    address, context, gpus = ["--host", host, "--port", "{port}"], config.context_tokens or 0, str(config.num_gpus or 1)
    if preset == "llama-server":
        weights = ["-m" if Path(model).is_file() else "-hf", model, "--alias", config.model]
        return [*weights, *address, "--parallel", str(config.parallel), "--ctx-size", str(config.parallel * context)]
    shared = [*address, "--served-model-name", config.model]
    if preset == "vllm":
        return ["serve", model, *shared, "-tp", gpus, "--max-model-len", str(context), "--generation-config", "vllm"]
    model_and_size = ["--model-path", model, "--tp-size", gpus, "--context-length", str(context)]
    return ["serve", *shared, *model_and_size, "--sampling-defaults", "openai"]


def told(log: Sequence[str]) -> str:
    """The line of a server's log that best explains its end: one about memory, or else the last exception that names a
    cause, the first line about a fault, or the last line with how the server ended."""
    lines = [" ".join(line.split()) for line in log if line.strip()]
    exceptions = [found[0] for line in lines if (found := _EXCEPTION.search(line))]
    faults = [line for line in lines if _FAULT.search(line)]
    room = [line for line in exceptions + lines if _ROOM.search(line)]
    last = lines[-2:] if lines and lines[-1].startswith(launcher.ENDED) else lines[-1:]
    best = next(iter(room[:1] + exceptions[-1:] + faults[:1]), "; ".join(last) or "its log is empty")[:300]
    return best + ("; use a smaller model or lower engine.context_tokens" if room else "")


def free_port(host: str) -> int:
    """A free port of ``host``. Raises ``EngineError`` if there is none."""
    for port in random.sample(PORTS, 100):
        if is_free(host, port):
            return port
    raise EngineError(f"no free port on {host} in {PORTS.start} to {PORTS.stop - 1}")


def is_free(host: str, port: int) -> bool:
    """Whether no process listens on a port of ``host``, an address of this machine."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _healthy(url: str, key: str | None, *, timeout: float) -> bool:
    """Whether ``/health``, or on servers without it the list of models, answers."""
    # Never use a proxy between this process and its own child.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"authorization": f"Bearer {key}"} if key else {}
    for path in ("/health", "/v1/models"):
        try:
            with opener.open(urllib.request.Request(url + path, headers=headers), timeout=timeout) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as refusal:
            if refusal.code != 404:
                return False
        except (OSError, ValueError, urllib.error.URLError):
            return False
    return False
