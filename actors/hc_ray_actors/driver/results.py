"""The files that a sweep leaves on disk beside its trials: ``sweep.json``, and what is derived from the trials."""

import importlib.metadata
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hc_ray import __version__
from hc_ray.domain.value import digest_of, readable_json
from hc_ray.engines.speed import known_speed
from hc_ray.machine.paths import configs_dir
from hc_ray.reports import report
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.attempts import now
from hc_ray_actors.driver import tables
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.driver.resumption import PLACEMENT, comparable, set_aside
from hc_ray_actors.trials import RoleSetup


def write_sweep(store: SweepStore, plan: Plan, holdout_looks: int) -> None:
    """``sweep.json``: written once; a resume finds it there, and sets aside what an earlier start lost half-written."""
    set_aside(store, plan.torn)
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
                "given": plan.given,
                "configs": [
                    {
                        **one.model_dump(mode="json", include={"name", "hash", "changes", "stands"}),
                        "settings": one.settings,
                    }
                    for one in plan.configs
                ],
                "placement": plan.config.model_dump(mode="json", include=PLACEMENT),
                "dataset": plan.dataset,
                "split": plan.split,
                "holdout_looks": holdout_looks,
                "tasks": [{"name": task.name, "digest": task.digest} for task in plan.taken],
                "refused": [task.model_dump() for task in plan.refused],
                "sealed_digest": plan.sealed_digest,
                "models": {
                    role: {
                        "engine": engine.model_dump(mode="json"),
                        "profile": profile.model_dump(mode="json"),
                        "digest": digest,
                    }
                    for role, (engine, profile, digest) in plan.models.items()
                },
                "sandbox": plan.sandbox,
                "sandbox_why": plan.sandbox_why,
                "place": plan.place,
                "planned_trials": len(plan.trials),
                "versions": versions(),
            }
        ),
    )


def record_engines(store: SweepStore, roles: Mapping[str, RoleSetup]) -> None:
    """Add to ``sweep.json`` what each model's servers were seen to do when they were started this time, and how fast
    they were found to be."""
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
    """What the results were made with; the commit only in a checkout that knows it."""
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
    summary: dict[str, Any] = report.write(store)
    tables.write(store, summary["trials"])
    return summary


def default_tracking_uri(out: str) -> str:
    """SQLite beside the sweep's folder, shared by sweeps of the same parent so that they can be compared; below
    ``runs`` where the sweep directory is not on this machine's disk."""
    folder = Path("runs").absolute() if "://" in out else Path(absolute(out)).parent
    return f"sqlite:///{folder / 'mlflow.db'}"


def absolute(out: str) -> str:
    """A sweep directory as a process in another working directory finds it."""
    return out if "://" in out else str(Path(out).expanduser().absolute())
