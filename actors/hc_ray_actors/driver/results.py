"""The files of a sweep besides its trials: ``sweep.json``, and those derived from the trials."""

import importlib.metadata
import json
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hc_ray import __version__
from hc_ray.domain.suite import Suite
from hc_ray.domain.value import canonical_json, digest_of, readable_json
from hc_ray.engines.speed import known_speed
from hc_ray.machine.paths import configs_dir, expanded
from hc_ray.reports import report
from hc_ray.stores.sweep_directory import SweepStore, parquet, parquet_of, read_parquet
from hc_ray_actors.attempts import now
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.driver.resumption import PLACEMENT, comparable, set_aside
from hc_ray_actors.trials import RoleSetup

TOLD = {"given", "dataset", "refused", "tuned_on", "sealed_digest", "sandbox", "sandbox_why", "place"}
"""The fields of a plan that ``sweep.json`` copies."""


def write_sweep(store: SweepStore, plan: Plan, holdout_looks: int) -> None:
    """Write ``sweep.json``, once; a resume keeps it, and sets aside half-written results of an earlier start."""
    set_aside(store, plan.found.torn)
    if store.exists("sweep.json"):
        return
    config = comparable(plan.config)
    identity = {"config": config, "dataset": plan.dataset, "began": now()}
    store.write(
        "sweep.json",
        readable_json(
            {
                "schema_version": 1,
                "sweep_id": digest_of(identity)[:16],
                "started_at": identity["began"],
                "config": config,
                "configs": [
                    {
                        **one.model_dump(mode="json", include={"name", "hash", "changes", "stands"}),
                        "settings": one.settings,
                    }
                    for one in plan.configs
                ],
                "placement": plan.config.model_dump(mode="json", include=PLACEMENT),
                "split": plan.config.split,
                "holdout_looks": holdout_looks,
                "tasks": [{"name": task.name, "digest": task.digest} for task in plan.taken],
                "models": {
                    role: {
                        "engine": engine.model_dump(mode="json"),
                        "profile": profile.model_dump(mode="json"),
                        "digest": digest,
                    }
                    for role, (engine, profile, digest) in plan.models.items()
                },
                **plan.model_dump(mode="json", include=TOLD),
                "planned_trials": len(plan.trials),
                "versions": versions(),
            }
        ),
    )


def record_engines(store: SweepStore, roles: Mapping[str, RoleSetup]) -> None:
    """Add each model's probed capabilities and measured speed to ``sweep.json``."""
    if not roles:
        return
    sweep = report.read_sweep(store)
    seen = {
        setup.engine.label: [{"model": one.model, "capabilities": one.capabilities} for one in setup.endpoints if one]
        for setup in roles.values()
    }
    known = {setup.engine.label: known_speed(setup.engine) for setup in roles.values()}
    speeds = {name: speed.model_dump(mode="json") for name, speed in known.items() if speed}
    if sweep.get("engines") != seen or sweep.get("speeds") != speeds:
        store.write("sweep.json", readable_json({**sweep, "engines": seen, "speeds": speeds}))


def versions() -> dict[str, str | None]:
    """Package → version that produced the results; the commit only in a git checkout."""
    found: dict[str, str | None] = {"hc-ray": __version__, "python": platform.python_version()}
    for package in ("ray", "mlflow", "xllamacpp", "docker", "pytest"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    found["git_sha"] = _git_sha()
    return found


def _git_sha() -> str | None:
    checkout = configs_dir().parent
    if not (checkout / ".git").exists() or shutil.which("git") is None:
        return None
    asked = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or None


def derive(store: SweepStore) -> dict[str, Any]:
    """Rebuild report and tables from the committed trials."""
    summary = report.summarise(store)
    report.leave(store, summary)
    write_tables(store, summary["trials"])
    return summary


def default_tracking_uri(out: str) -> str:
    """An SQLite database beside the sweep's folder, shared by sweeps in the same parent so that they can be compared;
    below ``runs`` if the sweep directory is not on a local disk."""
    folder = Path("runs").absolute() if "://" in out else Path(absolute(out)).parent
    return f"sqlite:///{folder / 'mlflow.db'}"


def absolute(out: str) -> str:
    """A sweep directory's path or URI, independent of the working directory."""
    return out if "://" in out else str(expanded(out).absolute())


Read = Callable[[SweepStore, str], Iterator[dict[str, Any]]]
"""Reads the rows of one trial from its folder."""

COLUMNS = {
    "candidates": ("trial", "id", "round", "slot", "parent", "seed", "temperature", "form", "plan", "digest",
                   "duplicate_of", "malformed", "prompt_tokens", "completion_tokens", "engine_seconds"),
    "tests": ("trial", "id", "category", "subject", "input", "expectation", "confidence", "weight", "admitted",
              "reason"),
    "matrix": ("trial", "candidate", "test", "category", "outcome", "observed", "detail"),
    "turns": ("trial", "owner", "purpose", "seed", "temperature", "prompt_tokens", "completion_tokens"),
}  # fmt: skip
"""Table → its columns; ``trials`` has whatever the report's rows have."""
KINDS = {
    **dict.fromkeys(("round", "slot", "seed", "prompt_tokens", "completion_tokens"), "int64"),
    **dict.fromkeys(("temperature", "engine_seconds", "confidence", "weight"), "double"),
    "admitted": "bool",
}
"""Column → its type, if it is not text."""
BATCH = 4_000
"""Rows in memory at once, or those of one trial if more."""


def write_tables(store: SweepStore, trials: Sequence[Mapping[str, Any]]) -> None:
    """Write every table. ``trials`` are the report's rows."""
    store.write("tables/trials.parquet", parquet([_flat(row) for row in trials], () if trials else ("trial",)))
    names = report.finished(store)
    for table, read in (("candidates", _candidates), ("tests", _tests), ("matrix", _matrix), ("turns", _turns)):
        kinds = {name: KINDS.get(name, "string") for name in COLUMNS[table]}
        store.write(f"tables/{table}.parquet", parquet_of(_batches(store, names, read), kinds))


def _batches(store: SweepStore, names: Sequence[str], read: Read) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for name in names:
        rows += ({"trial": name, **row} for row in read(store, f"trials/{name}/agent"))
        if len(rows) >= BATCH:
            yield rows
            rows = []
    if rows:
        yield rows


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Turn nested values into JSON text, since a column has one type."""
    return {name: canonical_json(value) if isinstance(value, dict | list) else value for name, value in row.items()}


def _candidates(store: SweepStore, folder: str) -> Iterator[dict[str, Any]]:
    if data := store.find(f"{folder}/candidates.json"):
        yield from json.loads(data)


def _tests(store: SweepStore, folder: str) -> Iterator[dict[str, Any]]:
    if not (data := store.find(f"{folder}/suite.json")):
        return
    suite = Suite.model_validate_json(data)
    verdicts = {verdict.id: verdict for verdict in suite.gate}
    for test in (*suite.tests, *suite.dropped):
        verdict = verdicts.get(test.id)
        yield {
            **test.model_dump(mode="json", include={"id", "category", "input", "confidence", "weight"}),
            "subject": test.subject.kind,
            "expectation": canonical_json(test.expectation.model_dump(mode="json")),
            "admitted": verdict.admitted if verdict else None,
            "reason": verdict.reason if verdict else None,
        }


def _matrix(store: SweepStore, folder: str) -> Iterator[dict[str, Any]]:
    if data := store.find(f"{folder}/matrix.parquet"):
        yield from read_parquet(data)


def _turns(store: SweepStore, folder: str) -> Iterator[dict[str, Any]]:
    if not (data := store.find(f"{folder}/trajectory.json")):
        return
    for subagent in json.loads(data)["subagent_trajectories"]:
        for step in subagent["steps"]:
            if metrics := step.get("metrics"):
                yield {
                    "owner": subagent["trajectory_id"],
                    "purpose": subagent["extra"]["purpose"],
                    "prompt_tokens": metrics["prompt_tokens"],
                    "completion_tokens": metrics["completion_tokens"],
                    **metrics["extra"],
                }
