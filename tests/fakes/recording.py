"""Runs a sweep and keeps everything that a solver, a reader of the sweep directory, the engine or the tracker could see
of it, trial by trial and in an order that does not depend on arrival: two runs can be compared byte for byte."""

import contextlib
import json
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hc_ray.domain.config import EngineConfig, RetryConfig, SweepConfig
from hc_ray.domain.events import Event, TrialStart, VerdictEvent
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver import sweep
from tests.fakes.engine_server import EngineServer
from tests.fakes.mlflow_client import MlflowCalls

DRIVERS_OWN = frozenset({"trial_start", "verdict", "trial_complete", "error"})
"""Events that the driver writes; all others are a trial's own."""
_TRIAL: ContextVar[str] = ContextVar("trial", default="")
"""The trial that runs here; empty for what belongs to the whole sweep."""


@dataclass
class Phase:
    requests: list[bytes] = field(default_factory=list)
    """Every byte of each request, sorted: those of a round are sent side by side."""
    sandboxes: list[str] = field(default_factory=list)
    """Names of the sandboxes that it opened, and the commands that it ran in them, sorted."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """The trial's own events in their order; a ``submit`` is a phase's last."""


@dataclass
class Seen:
    phases: dict[str, list[Phase]]
    """By trial name, one phase before each verdict and one after the last; the empty name is the sweep's."""
    driver_events: dict[str, list[dict[str, Any]]]
    files: dict[str, bytes]
    """The sweep directory."""
    public: dict[str, bytes]
    """The public root: all that sandboxes are made of."""
    tracked: list[tuple[str, Any]]
    """What MLflow was told, call by call."""
    verdicts: dict[str, list[bool]]

    @property
    def requests(self) -> int:
        return sum(len(phase.requests) for phases in self.phases.values() for phase in phases)

    @property
    def bytes(self) -> int:
        """How much there is to compare."""
        told = sum(len(one) for phases in self.phases.values() for phase in phases for one in phase.requests)
        stored = sum(map(len, self.files.values())) + sum(map(len, self.public.values()))
        return told + stored + len(json.dumps(self.tracked, default=str))


class _Ledger:
    """Who sent what: a trial's coroutines carry its name, and each verdict begins a new phase of it."""

    def __init__(self, server: EngineServer) -> None:
        self._server = server
        self.sent: list[tuple[str, int, tuple[str, bytes]]] = []
        self.opened: list[tuple[str, int, str]] = []
        self.trials: list[str] = []
        self._verdicts: dict[str, int] = defaultdict(int)
        server.requests.clear()
        server.wire.clear()

    def emit(self, event: Event) -> None:
        if isinstance(event, TrialStart):
            self.trials.append(event.trial)
        if isinstance(event, VerdictEvent):
            self._verdicts[event.trial] += 1

    def send(self, path: str, content: bytes) -> None:
        self.sent.append((*self._here(), (path, content)))

    def open(self, what: str) -> None:
        self.opened.append((*self._here(), what))

    def _here(self) -> tuple[str, int]:
        return _TRIAL.get(), self._verdicts[_TRIAL.get()]

    def phases(self) -> dict[str, dict[int, Phase]]:
        """The bytes on the wire, given to those who sent them."""
        wires: dict[tuple[str, bytes], list[bytes]] = defaultdict(list)
        for request, wire in zip(self._server.requests, self._server.wire, strict=True):
            wires[request].append(wire)
        found: dict[str, dict[int, Phase]] = {name: defaultdict(Phase) for name in ("", *self.trials)}
        for trial, phase, request in self.sent:
            found[trial][phase].requests.append(wires[request].pop())
        for trial, phase, what in self.opened:
            found[trial][phase].sandboxes.append(what)
        # A request that was sent again has more on the wire than was noted.
        found[""][0].requests += [wire for left in wires.values() for wire in left]
        for phases in found.values():
            for one in phases.values():
                one.requests.sort()
                one.sandboxes.sort()
        return found


@contextlib.contextmanager
def _listening(ledger: _Ledger) -> Iterator[None]:
    """Requests and sandboxes are noted with the trial that asks for them; nothing that is sent or done changes."""
    from hc_ray.engines.http import HttpModel
    from hc_ray_actors.remote_place import RemotePlace, RemoteSandbox
    from hc_ray_actors.trials import Trials

    def sent(method: str, url: str, body: Any) -> None:
        content = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
        ledger.send(urlsplit(url).path, content)

    def executed(command: Any, stdin: bytes = b"", **options: Any) -> None:
        ledger.open(f"exec {list(command)} {options}")

    noted: list[tuple[type, str, Callable[..., object]]] = [
        (Trials, "_live", lambda key, *_: _TRIAL.set(key.name)),
        (HttpModel, "_send", sent),
        (RemotePlace, "create", lambda task, name, **more: ledger.open(f"create {task.digest} {name} {more}")),
        (RemoteSandbox, "fork", lambda name: ledger.open(f"fork {name}")),
        (RemoteSandbox, "in_fork", lambda name, before, last: ledger.open(f"fork {name} for {[*before, last]}")),
        (RemoteSandbox, "exec", executed),
    ]
    with pytest.MonkeyPatch.context() as patch:
        for cls, method, note in noted:
            patch.setattr(cls, method, _noting(getattr(cls, method), note))
        yield


def _noting(method: Callable[..., Any], note: Callable[..., object]) -> Callable[..., Any]:
    """A coroutine method that first tells ``note`` what it is asked."""

    async def noting(self: Any, *words: Any, **options: Any) -> Any:
        note(*words, **options)
        return await method(self, *words, **options)

    return noting


def record(
    root: Path, runner_home: Path, server: EngineServer, make: Callable[[Path], None], *,
    before_run: Callable[[sweep.Plan], None] = lambda plan: None, mlflow: bool = False, context: int = 2048,
    **settings: Any,
) -> Seen:  # fmt: skip
    """One sweep over the tasks that ``make`` writes, below ``root``, with a data root, dataset and output of its own.
    ``runner_home`` is a data root whose built runner is linked rather than built again. ``mlflow``: tracked for real;
    else MLflow's client is a fake that keeps what it is told. ``context``: tokens that prompts may use; by default too
    few for the profile ``capable``."""
    home = root / "home"
    home.mkdir(parents=True, mode=0o755, exist_ok=True)
    if (runner_home / "runner").is_dir() and not (home / "runner").is_dir():
        shutil.copytree(runner_home / "runner", home / "runner", symlinks=True, copy_function=os.link)
    dataset = root / "tasks"
    dataset.mkdir()
    make(dataset)
    calls = MlflowCalls()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HC_RAY_HOME", str(home))
        if not mlflow:
            patch.setattr("mlflow.MlflowClient", calls.client)
            patch.setattr("mlflow.tracing.client.TracingClient", calls.client)
        engine = EngineConfig(kind="openai", model="fake", base_url=server.base_url, context_tokens=context)
        # Between two attempts another trial would have the slot, and its requests would stand among these.
        usual = {"engine": engine, "sandbox": "bwrap", "concurrency": 1, "retries": RetryConfig(attempts=1)}
        config = SweepConfig(**{**usual, "dataset": str(dataset), "out": str(root / "out"), **settings})
        plan = sweep.prepare(config)
        assert not plan.refused, plan.refused
        # What references come to goes by digests alone: a sweep takes it from the sweeps before.
        known, own = runner_home / "controls", Path(plan.sealed_root) / "controls"
        if known.is_dir():
            shutil.copytree(known, own, dirs_exist_ok=True)
        before_run(plan)
        ledger = _Ledger(server)
        with _listening(ledger):
            summary = sweep.run(plan, events=ledger, cluster=Cluster())
        if own.is_dir():
            shutil.copytree(own, known, dirs_exist_ok=True)
        assert not summary.interrupted and not summary.problems, summary
    return stored(ledger.phases(), files_of(root / "out"), files_of(home / "public"), calls.told)


def forget(root: Path) -> None:
    """Make room for another sweep at the same place: all goes but the programs that every sweep needs."""
    for path in (*root.glob("*"), *root.glob("home/*")):
        if path.name not in ("home", "runner", "bin"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def files_of(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def stored(
    sent: dict[str, dict[int, Phase]], files: dict[str, bytes], public: dict[str, bytes], tracked: list[tuple[str, Any]]
) -> Seen:
    """What a sweep directory's ``files`` and the requests that were ``sent`` (by trial and phase) show."""
    journal: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path, data in sorted(files.items()):
        if path.startswith("events/"):
            for line in data.decode().splitlines():
                event = json.loads(line)
                journal[event["trial"]].append(event)
    phases, driver, verdicts = {}, {}, {}
    for name in (*sent, *(trial for trial in journal if trial not in sent)):
        found = sent.get(name) or defaultdict(Phase)
        driver[name] = [event for event in journal[name] if event["type"] in DRIVERS_OWN]
        verdicts[name] = [event["passed"] for event in driver[name] if event["type"] == "verdict"]
        number = 0
        for event in journal[name]:
            if event["type"] not in DRIVERS_OWN:
                found[number].events.append(event)
                number += event["type"] == "action" and event["name"] == "submit"
        phases[name] = [found[i] for i in range(max(found, default=0) + 1)]
    verdicts.pop("", None)
    return Seen(phases=phases, driver_events=driver, files=files, public=public, tracked=tracked, verdicts=verdicts)
