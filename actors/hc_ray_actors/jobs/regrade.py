"""Stored submissions: grades them again with the dataset's current tests, and unseals the verifier's output."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

from hc_ray.domain.candidate import Submission
from hc_ray.domain.errors import DatasetError, InfrastructureError, OutputError
from hc_ray.domain.task import Task
from hc_ray.reports.report import finished, key_of, read_sweep, result_of
from hc_ray.stores.sweep_directory import SweepStore, sweep_at
from hc_ray_actors import verifiers
from hc_ray_actors.backends import choose
from hc_ray_actors.driver.task_choice import sealed_dataset, sealed_folder, with_network


def regrade(out: str) -> list[dict[str, Any]]:
    """Grade every stored submission of a sweep again, each in a fresh sandbox; changes nothing stored. Returns a row
    per trial: ``trial``, ``task``, ``before``, ``after`` (None: no verdict), ``cause``. Raises ``UserError``."""
    store = sweep_at(out)
    sweep = read_sweep(store)
    folder, sealed = sealed_dataset(sweep, "its submissions cannot be graded")
    tasks = {task.digest: with_network(task, sweep["config"]["network"]) for task in sealed.tasks}
    backend, threshold = choose(sweep["sandbox"]).backend, sweep["config"]["pass_threshold"]
    verifier = verifiers.Verifiers(backend, None, str(sealed_folder(folder)), None, threshold)

    async def graded() -> list[dict[str, Any]]:
        try:
            return await asyncio.gather(*(_one(store, verifier, tasks, name) for name in finished(store)))
        finally:
            await verifier.stop()

    return asyncio.run(graded())


async def _one(store: SweepStore, verifier: Any, tasks: dict[str, Task], name: str) -> dict[str, Any]:
    result = result_of(store, name)
    key = key_of(store, name)
    row = {"trial": name, "task": result.task_name, "before": result.passed, "after": None, "cause": ""}
    if key.grading == "shared":
        return {**row, "cause": "it was graded in the candidate's live sandbox, which is gone"}
    task = tasks.get(key.task_digest)
    if task is None:
        return {**row, "cause": "the task changed or is gone"}
    tar = store.find(f"trials/{name}/artifacts/submission.tar")
    if tar is None and key.agent != "nop":
        return {**row, "cause": "no submission is stored"}
    submission = None if tar is None else Submission.of(tar, id=name, trial=key.digest, task_digest=task.digest)
    try:
        if (await verifier.control(task)).passed is False:
            return {**row, "cause": "the task's reference solution does not pass, so a fail would mean nothing"}
        verdict = await verifier.grade(task, submission, False, key.agent == "oracle")
    except (InfrastructureError, DatasetError) as fault:
        return {**row, "cause": str(fault)}
    return {**row, "after": verdict.passed, "cause": verdict.cause}


def unseal(out: str, trial: str) -> dict[str, Any]:
    """The verifier's result for a dev trial: its verdict with partial rewards, and the end of the tests' output.
    Records the look in a ledger. Raises ``UserError`` for a holdout trial, one without a verdict, or one of another
    machine."""
    store = SweepStore(out)
    sweep = read_sweep(store)
    result = result_of(store, trial)
    key = key_of(store, trial)
    if result.agent_result.metadata.get("split") == "holdout":
        raise DatasetError(f"{trial} is a trial of a holdout task, whose test output is never stored")
    if result.passed is None:
        raise OutputError(f"{trial} has no verdict; hc-ray show {out}/{trial} says why")
    tar = store.find(f"trials/{trial}/artifacts/submission.tar")
    oracle = key.agent == "oracle"
    without = verifiers.REFERENCE if oracle else None  # shared grading: run where it was graded
    handed_in = hashlib.sha256(tar).hexdigest() if tar is not None else without
    sealed, name = sealed_folder(Path(sweep["dataset"])), f"{out}/{trial}"
    kept = verifiers.unseal(sealed, key.task_digest, handed_in, name, solution=oracle)
    return {"schema_version": 1, "trial": trial, "task": result.task_name, **kept.model_dump(mode="json")}
