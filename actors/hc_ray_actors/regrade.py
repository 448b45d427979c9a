"""Stored submissions graded again: what the verdicts of a sweep would be with the dataset's tests as they are now."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

from hc_ray.adapters.sweep_store import SweepStore
from hc_ray.candidate import Submission
from hc_ray.errors import DatasetError, InfrastructureError, OutputError
from hc_ray.home import data_root
from hc_ray.task import Task
from hc_ray.trial import TrialKey, TrialResult
from hc_ray_actors import verifiers
from hc_ray_actors.plan import sealed_folder, with_network
from hc_ray_actors.sandboxes import choose


def regrade(out: str) -> list[dict[str, Any]]:
    """Grade every stored submission of a sweep once more, each in a fresh sandbox. Nothing stored is changed. Answers a
    row a trial: ``trial``, ``task``, ``before``, ``after`` (None: no verdict), ``cause``. Raises ``UserError``."""
    store = SweepStore(out)
    try:
        sweep = json.loads(store.read("sweep.json"))
    except FileNotFoundError:
        raise OutputError(f"{out}: no sweep.json here: give the folder that a sweep wrote") from None
    folder = Path(sweep["dataset"])
    if not folder.is_dir():
        raise DatasetError(f"{folder}: the dataset of this sweep is not there any more, so nothing can be graded")
    sealed = verifiers.seal(folder, data_root() / "public", sealed_folder(folder))
    tasks = {task.digest: with_network(task, sweep["config"]["network"]) for task in sealed.tasks}
    return asyncio.run(_regrade(store, tasks, str(sealed_folder(folder)), choose(sweep["sandbox"]).backend))


async def _regrade(store: SweepStore, tasks: dict[str, Task], sealed_root: str, backend: str) -> list[dict[str, Any]]:
    verifier = verifiers.Verifiers(backend, None, sealed_root, None)
    try:
        rows = [_one(store, verifier, tasks, name) for name in sorted(store.finished())]
        return list(await asyncio.gather(*rows))
    finally:
        await verifier.close_all()


async def _one(store: SweepStore, verifier: Any, tasks: dict[str, Task], name: str) -> dict[str, Any]:
    result = TrialResult.model_validate_json(store.read(f"trials/{name}/result.json"))
    key = TrialKey.model_validate_json(store.read(f"trials/{name}/config.json"))
    row = {"trial": name, "task": result.task_name, "before": result.passed, "after": None, "cause": ""}
    if key.grading == "shared":
        return {**row, "cause": "it was graded in the candidate's own living sandbox, which is gone"}
    task = tasks.get(key.task_digest)
    if task is None:
        return {**row, "cause": "the task changed or is gone"}
    try:
        tar = store.read(f"trials/{name}/artifacts/submission.tar")
    except FileNotFoundError:
        submission = None
        if key.agent != "nop":
            return {**row, "cause": "no submission is stored"}
    else:
        digest = hashlib.sha256(tar).hexdigest()
        submission = Submission(id=name, trial=key.digest, task_digest=task.digest, tar=tar, digest=digest)
    try:
        verdict = await verifier.grade(task, submission, False)
    except InfrastructureError as fault:
        return {**row, "cause": str(fault)}
    return {**row, "after": verdict.passed, "cause": verdict.cause}
