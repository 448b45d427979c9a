"""An inference server as a child of whoever starts it: the user's own vLLM, SGLang or llama.cpp, from their environment
or container, and the embedded engine."""

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
"""The variable that gives a server its key; vLLM and llama.cpp have names of their own for it."""
_KEYS = {"vllm": "VLLM_API_KEY", "llama-server": "LLAMA_API_KEY"}
_DOWNLOADS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""The secrets that the user's own server keeps: it fetches weights with them."""
_OURS = re.compile(r"RAY_|PYTHON|VIRTUAL_ENV$|OMP_NUM_THREADS$")
"""Variables that mean this program's own environment, or that Ray set for its workers."""
PORTS = range(20_000, 30_000)
"""Above those of Ray's workers, below those that the system gives to connections."""
PORT_ATTEMPTS = 3
_EXCEPTION = re.compile(r"\b[A-Z]\w*(?:Error|Exception): (?!.*[Rr]oot cause).*")
_FAULT = re.compile(r"\berror\b|\bfailed\b|out of memory|unable to|cannot", re.I)
_ROOM = re.compile(r"insufficient memory|out of memory", re.I)


class ServerProcess:
    """One server, in a process group of its own. It dies with this process.

    ``command`` has ``{port}`` where the port belongs, which is chosen anew for each start unless ``port`` is given;
    ``what`` names the server for a reader, ``patience`` what gives it more time to start. It listens on ``host``, an
    address of this machine, and answers who has ``key``, if there is one: that stands in ``environment`` for it, never
    in the command."""

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
        """Its launcher's process id, which is its process group too; None when it is not running."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> str:
        """Start the server and wait until it is healthy; its base URL. Already running, it is left alone.

        Raises ``ConfigError`` for a program that is not here, ``EngineError`` for any other failure to start, with what
        the server said last."""
        if self.base_url and self.alive():
            return self.base_url
        self._end()
        self._wanted = True
        program = program_of(self._command)
        if shutil.which(program, path=self._environment.get("PATH")) is None:
            raise ConfigError(f"{self._what}: no program {program} on {socket.gethostname()}; give its path there")
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
        raise EngineError(f"{self._what}: something else took each of {PORT_ATTEMPTS} ports; {last}")

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
        """The process runs and answers its health check."""
        if self.pid is None or self.base_url is None:
            return False
        return _healthy(self.base_url.removesuffix("/v1"), self._key, timeout=15.0)

    def wait(self) -> None:
        """Until the server ends."""
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
    """The server that an engine's ``command`` starts, with its log in ``folder``. ``model``: a name that the server
    knows, or the path of its weights."""
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
            settings = folder / "sglang.yaml"  # it reads its key from no variable
            with os.fdopen(os.open(settings, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
                stream.write(f"api-key: {key}\n")
            command += ["--config", str(settings)]
        command += own
    return ServerProcess(command, what=f"the server of {config.label}", environment=environment, host=host, key=key,
                         log_path=folder / "server.log", start_seconds=config.start_sec,
                         patience="; engine.start_sec gives it more time")  # fmt: skip


def _options(preset: str, config: EngineConfig, model: str, host: str) -> list[str]:
    """What stands before the user's own options, which win. A server's own defaults for sampling are switched off: a
    request says all that is to hold."""
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
    """The line of a server's log that best says why it ended: the last exception that names a cause, else the first
    line that speaks of a fault, else the last line, with how it ended; one that speaks of memory before all others."""
    lines = [" ".join(line.split()) for line in log if line.strip()]
    exceptions = [found[0] for line in lines if (found := _EXCEPTION.search(line))]
    faults = [line for line in lines if _FAULT.search(line)]
    room = [line for line in exceptions + lines if _ROOM.search(line)]
    last = lines[-2:] if lines and lines[-1].startswith(launcher.ENDED) else lines[-1:]
    best = next(iter(room[:1] + exceptions[-1:] + faults[:1]), "; ".join(last) or "it said nothing")[:300]
    return best + ("; a smaller model or engine.context_tokens takes less" if room else "")


def free_port(host: str) -> int:
    """A port of ``host`` that nobody listens on. Raises ``EngineError`` where there is none."""
    for port in random.sample(PORTS, 100):
        if is_free(host, port):
            return port
    raise EngineError(f"no free port on {host} in {PORTS.start} to {PORTS.stop - 1}")


def is_free(host: str, port: int) -> bool:
    """Whether nobody listens on a port of this machine's ``host``."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _healthy(url: str, key: str | None, *, timeout: float) -> bool:
    """``/health`` says so; of a server that has none, its list of models does."""
    # No proxy of the environment may stand between this process and its own child.
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
