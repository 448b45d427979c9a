"""Runs a sweep and keeps everything that a solver, a reader of the sweep directory or the engine could see of it, as
plain data in an order that does not depend on arrival: two runs can be compared byte for byte."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hc_ray.config import EngineConfig, SweepConfig
from hc_ray.events import Event, TrialComplete, TrialStart, VerdictEvent
from hc_ray_actors import sweep
from hc_ray_actors.cluster import InProcess
from tests.fakes.engine_server import EngineServer, prompt_of

DRIVERS_OWN = frozenset({"trial_start", "verdict", "trial_complete", "error"})
"""Events that the driver writes; all others are a trial's own."""


def answer(body: dict[str, Any]) -> str:
    """An engine without a model: what it says is a function of prompt and seed alone, neither always right nor always
    well-formed, so that suites, rounds, repairs and restarts all happen."""
    asked = {name: value for name, value in body.items() if name != "model"}
    roll = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()
    prompt = prompt_of(body)
    calls = re.findall(r"`(\w+)\(([^()`]*)\)`", prompt)
    name = calls[0][0] if calls else "main"
    told = [arguments for called, arguments in calls[1:] if called == name] or ["1, 2"]
    if "assert" in prompt:
        return "\n".join(f"assert {name}({told[0]}) == {value}" for value in (roll[1] % 3, roll[2] % 5, '"cba"')) + "\n"
    parameters = calls[0][1] if calls else "a"
    first = parameters.split(",")[0].strip() or "0"
    bodies = (
        f"return {parameters.replace(',', ' +') or 0}",
        f"return {first}[::-1]",
        f"return {first}",
        "return object()",
        f"raise RuntimeError(f'no answer at {{id({first})}} {{object()}}')",
        "import time, tempfile\n    return repr((time.time(), tempfile.mkdtemp()))",
        "return undefined_name",
    )
    code = f"def {name}({parameters}):\n    {bodies[roll[0] % len(bodies)]}\n"
    if roll[3] % 8 == 0:
        return "I would write a function for that, and then test it."
    return code.partition(":\n")[2] if "prompt" in body else f"```python\n{code}```\n"


@dataclass
class Phase:
    """What a trial did between two verdicts."""

    requests: list[tuple[str, bytes]] = field(default_factory=list)
    """Path and body of each request, sorted: those of a round are sent side by side."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """The trial's own events in their order; a ``submit`` is a phase's last."""


@dataclass
class Seen:
    """All that one sweep showed."""

    phases: dict[str, list[Phase]]
    """By trial name, one phase before each verdict and one after the last."""
    driver_events: dict[str, list[dict[str, Any]]]
    files: dict[str, bytes]
    """The sweep directory."""
    verdicts: dict[str, list[bool]]

    @property
    def requests(self) -> int:
        return sum(len(phase.requests) for phases in self.phases.values() for phase in phases)


class _Watcher:
    """Cuts the stream of requests where trials start, are judged and end. Trials run one after another, and a judged
    trial waits for its verdict: every request between two cuts belongs between them."""

    def __init__(self, server: EngineServer) -> None:
        self._server = server
        self.requests: dict[str, list[list[tuple[str, bytes]]]] = {}
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, TrialStart):
            self._server.requests.clear()
            self.requests[event.trial] = []
        elif isinstance(event, VerdictEvent | TrialComplete):
            self.requests[event.trial].append(sorted(self._server.requests))
            self._server.requests.clear()


def record(
    root: Path,
    runner_home: Path,
    server: EngineServer,
    make: Callable[[Path], None],
    *,
    before_run: Callable[[sweep.Plan], None] = lambda plan: None,
    mlflow: bool = False,
    **settings: Any,
) -> Seen:
    """One sweep over the tasks that ``make`` writes, below ``root``, with a data root, dataset and output of its own.
    ``runner_home`` is a data root whose built runner is linked rather than built again."""
    home = root / "home"
    home.mkdir(parents=True, mode=0o755)
    if (runner_home / "runner").is_dir():
        shutil.copytree(runner_home / "runner", home / "runner", symlinks=True, copy_function=os.link)
    dataset = root / "tasks"
    dataset.mkdir()
    make(dataset)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HC_RAY_HOME", str(home))
        config = SweepConfig(
            dataset=str(dataset),
            engine=EngineConfig(kind="openai", model="fake", base_url=server.base_url),
            sandbox="bwrap",
            concurrency=1,
            out=str(root / "out"),
            mlflow_uri=None if mlflow else "none",
            **settings,
        )
        plan = sweep.prepare(config)
        assert not plan.refused, plan.refused
        before_run(plan)
        watcher = _Watcher(server)
        summary = sweep.run(plan, events=watcher, cluster=InProcess())
        assert not summary.interrupted and not summary.problems, summary
    out = root / "out"
    files = {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
    return _seen(watcher, files)


def _seen(watcher: _Watcher, files: dict[str, bytes]) -> Seen:
    journal = [
        json.loads(line)
        for path, data in sorted(files.items())
        if path.startswith("events/")
        for line in data.decode().splitlines()
    ]
    phases, driver, verdicts = {}, {}, {}
    for name, requests in watcher.requests.items():
        told = [event for event in journal if event["trial"] == name]
        driver[name] = [event for event in told if event["type"] in DRIVERS_OWN]
        verdicts[name] = [event["passed"] for event in driver[name] if event["type"] == "verdict"]
        cuts: list[list[dict[str, Any]]] = [[]]
        for event in told:
            if event["type"] not in DRIVERS_OWN:
                cuts[-1].append(event)
                if event["type"] == "action" and event["name"] == "submit":
                    cuts.append([])
        phases[name] = [
            Phase(
                requests=requests[i] if i < len(requests) else [],
                events=cuts[i] if i < len(cuts) else [],
            )
            for i in range(max(len(requests), len(cuts)))
        ]
    return Seen(phases=phases, driver_events=driver, files=files, verdicts=verdicts)
