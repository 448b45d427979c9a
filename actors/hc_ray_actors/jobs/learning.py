"""``skills learn``: learns skills from the dev trials of a finished sweep."""

import json
from pathlib import Path
from typing import Any

from hc_ray.agent.deliverable import deliverable_of
from hc_ray.agent.skill_learning import Lesson, Solved, lessons
from hc_ray.agent.skills import FILE, SHIPPED, installed
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.task import Task
from hc_ray.machine.whole_files import beside
from hc_ray.reports.report import finished, read_sweep, result_of
from hc_ray.spec.reading import read_spec
from hc_ray.stores.sweep_directory import SweepStore, sweep_at
from hc_ray_actors.driver.task_choice import sealed_dataset, vocabulary_of


def learn(out: str, root: Path) -> tuple[Lesson, ...]:
    """Learn from each kind of task in the sweep ``out``; writes new skills and new versions to ``root/<kind>/``. Raises
    ``UserError`` for a sweep from which nothing may be learned."""
    store = sweep_at(out)
    sweep = read_sweep(store)
    if sweep["config"]["split"] != "dev":
        raise ConfigError(
            f"{out}: this sweep ran on split {sweep['config']['split']}; skills are learned from dev only"
        )
    # The public parts, by public digest.
    tasks = {task.digest: task for task in sealed_dataset(sweep, "skills cannot be checked against its words")[1].tasks}
    known = vocabulary_of(tuple(tasks.values()))
    trials = [one for name in finished(store) if (one := _solved(store, name, tasks)) is not None]
    sweep_digests = sorted({trial.task for trial in trials})
    came = {"sweep": Path(out).name if not known.found(Path(out).name) else "a sweep", "tasks_digests": sweep_digests}
    taught = lessons(trials, known, installed((SHIPPED, root)), came)
    for lesson in taught:
        if lesson.skill is not None:
            path = root / lesson.skill.name / FILE
            with beside(path, lesson.skill.text.encode(), lasting=False) as whole:
                whole.replace(path)
    return taught


def _solved(store: SweepStore, name: str, tasks: dict[str, Task]) -> Solved | None:
    """A trial of ``hc`` with a verdict; None for any other."""
    key = json.loads(store.read(f"trials/{name}/config.json"))
    result = result_of(store, name)
    task = tasks.get(key["task_digest"])
    if key["agent"] != "hc" or result.passed is None or task is None:
        return None
    candidates: list[dict[str, Any]] = json.loads(store.read(f"trials/{name}/agent/candidates.json"))
    chosen = json.loads(store.read(f"trials/{name}/agent/trajectory.json"))["extra"]["chosen"]
    handed: dict[str, Any] = next((one for one in candidates if one["id"] == chosen), {})
    kind = (deliverable_of(read_spec(task.instruction, task.environment)).path or "").rpartition(".")[2]
    return Solved(task=task.digest, kind=kind, passed=result.passed, files=handed.get("files", {}),
                  plan=handed.get("plan", ""))  # fmt: skip
