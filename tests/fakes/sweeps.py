"""Whole sweeps as tests start them: by the command line in a process of its own, or in this process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hc_ray.domain.config import SweepConfig
from hc_ray.domain.ports import Events
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver import sweep
from hc_ray_actors.driver.plan import Plan, prepare
from tests.fakes.listeners import Watcher

REPOSITORY = Path(__file__).parents[2]


def command(*words: object) -> list[str]:
    return [sys.executable, "-c", "from hc_ray.cli.app import main; main()", *map(str, words)]


def hc_ray(*words: object, timeout: float = 300, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line, run to its end; ``environment`` comes on top of this process's own."""
    env = {**os.environ, **environment}
    return subprocess.run(command(*words), cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=timeout)


def told(*words: object, **environment: str) -> Any:
    """What the command line answers as JSON; fails the test where it does not end well."""
    done = hc_ray(*words, "--json", **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def begun(*words: object, log: Path, **environment: str) -> subprocess.Popen[bytes]:
    """The command line in a process and a session of its own; what it says stands in ``log``."""
    env = {**os.environ, **environment}
    with log.open("wb") as stream:
        return subprocess.Popen(
            command(*words), cwd=REPOSITORY, env=env, stdout=stream, stderr=stream, start_new_session=True
        )


def swept(out: Path, dataset: Path, events: Events | None = None, **settings: Any) -> tuple[Plan, sweep.SweepSummary]:
    """A sweep in this process, without MLflow."""
    given = {"dataset": str(dataset), "out": str(out), "mlflow_uri": "none", **settings}
    plan = prepare(SweepConfig.model_validate(given))
    return plan, sweep.run(plan, events=events or Watcher(), cluster=Cluster())


def results(out: Path) -> dict[str, dict[str, Any]]:
    return {path.parent.name: json.loads(path.read_text()) for path in out.glob("trials/*/result.json")}
