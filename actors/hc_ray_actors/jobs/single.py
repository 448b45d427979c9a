"""Runs one trial, or generates one suite, in this process: the same parts as in a sweep, without Ray."""

import asyncio
import datetime
import json
from pathlib import Path
from typing import Any

from hc_ray.domain.config import TESTERS, AgentName, RoleName, SweepConfig
from hc_ray.domain.errors import DatasetError, InfrastructureError, OutputError
from hc_ray.domain.ports import Events
from hc_ray.domain.suite import Suite
from hc_ray.machine.paths import expanded
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver import sweep
from hc_ray_actors.driver.plan import prepare
from hc_ray_actors.jobs.answering import ONE_TASK, answering
from hc_ray_actors.remote_place import RemotePlace, Station
from hc_ray_actors.role_models import Planned
from hc_ray_actors.sandboxes import Sandboxes


def run_trial(config: SweepConfig, task_path: str, agent: AgentName, *, seed: int, events: Events) -> dict[str, Any]:
    """Run one trial of one task folder and return its ``result.json``. Its sweep directory is ``config.out`` (default:
    one below ``runs/``), where ``show`` finds it. Raises ``UserError``, or ``InfrastructureError`` if the trial could
    not start."""
    folder = _task_folder(task_path)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S-%f")
    out = config.out or str(Path("runs").absolute() / f"{folder.name}-{agent}-{stamp}")
    if SweepStore(out).exists("sweep.json"):
        raise OutputError(f"{out} already contains a sweep; choose another -o")
    own = {"dataset": str(folder), "agents": (agent,), "seeds": 1, "first_seed": seed, "out": out}
    config = config.model_copy(update={**ONE_TASK, **own, "mlflow_uri": config.mlflow_uri or "none"})
    cluster = Cluster()
    plan = prepare(config, place=cluster.where)
    summary = sweep.run(plan, events=events, cluster=cluster)
    if summary.interrupted:
        raise KeyboardInterrupt
    result = SweepStore(out).find(f"trials/{plan.trials[0].name}/result.json")
    if result is None:
        raise InfrastructureError("; ".join(summary.problems))
    return {**json.loads(result), "out": out}


def make_suite(config: SweepConfig, task_path: str) -> Suite:
    """Generate and gate the self-tests of one task folder. Raises ``UserError`` or ``InfrastructureError``."""
    folder = _task_folder(task_path)
    plan = prepare(config.model_copy(update={**ONE_TASK, "dataset": str(folder), "agents": ("hc",)}))
    return asyncio.run(_suite(plan))


async def _suite(plan: sweep.Plan) -> Suite:
    from hc_ray.search.orchestrate import make_suite as make

    sandboxes = Sandboxes(plan.sandbox, plan.public_root, plan.config.sandbox_slots)
    testers: dict[RoleName, Planned] = {role: plan.models[role] for role in TESTERS if role in plan.models}
    try:
        async with answering(testers, plan.configs[0].seen) as roles:
            place = RemotePlace({"here": Station(sandboxes)})
            return await make(plan.taken[0], config=plan.config.solver, seed=0, tester=roles["tester"], place=place)
    finally:
        await sandboxes.stop()


def _task_folder(path: str) -> Path:
    folder = expanded(path)
    if not (folder / "task.toml").is_file():
        raise DatasetError(f"{path} is not a task (it has no task.toml); name the folder of one task")
    return folder.resolve()
