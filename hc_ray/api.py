"""hc-ray from Python: tasks, plans, sweeps, results as Arrow tables, and agents and selectors of one's own.

    from hc_ray import api

    results = api.sweep("demo", limit=2, agents=["raw", "hc"], out="runs/first")
    results.trials().select(["agent", "task", "passed"]).to_pylist()

Settings are those of a config file, by their names; dotted ones by ``**{"solver.samples": 8}``. What a user can mend
raises ``UserError``, whose text says what is wrong and what to do. docs/python.md has the examples."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import ConfigError, HcRayError, InfrastructureError, UserError
from hc_ray.domain.events import Event
from hc_ray.domain.ports import Sandbox
from hc_ray.domain.prompt import Message, Prompt
from hc_ray.domain.suite import Cell, PassMatrix, SelfTest
from hc_ray.domain.task import Task
from hc_ray.search.own import Agent, Attempt, Spent

if TYPE_CHECKING:
    from hc_ray.stores.sweep_directory import Table
    from hc_ray_actors.driver.plan import Plan

__all__ = ["Agent", "Attempt", "Candidate", "Cell", "ConfigError", "Event", "HcRayError", "InfrastructureError",
           "Message", "PassMatrix", "Prompt", "Results", "Sandbox", "SelfTest", "Spent", "SweepConfig", "Task",
           "UserError", "plan", "settings", "sweep", "tasks"]  # fmt: skip

Config = str | Path | Mapping[str, Any] | SweepConfig | None
"""A config file, the name of a shipped one, settings as data, or nothing: all defaults."""
T = TypeVar("T")


def tasks(dataset: str = "starter", *, split: Literal["dev", "holdout", "all"] = "dev") -> tuple[Task, ...]:
    """The tasks of a folder, or of a shipped dataset, as a solver sees them. Those that cannot be taken are left out
    (``hc-ray tasks check`` says why)."""
    from hc_ray.machine.paths import data_root
    from hc_ray_actors import verifiers
    from hc_ray_actors.driver import task_choice

    folder = task_choice.dataset_folder(dataset)
    sealed = verifiers.seal(folder, data_root() / "public", task_choice.sealed_folder(folder))
    config = SweepConfig(dataset=dataset, split=split, agents=("oracle",))
    fixed = task_choice.fixed_split(config, folder, sealed.tasks, refines=False)
    return tuple(task_choice.select(config, fixed, sealed.tasks, sealed.refused)[0])


def settings(config: Config = None, **changes: Any) -> SweepConfig:
    """A config with changes. Agents and selectors of one's own may be given as the class or function itself."""
    from hc_ray.cli.config_loader import Flag, load_config

    changes = {key: _named(value) for key, value in changes.items() if value is not None}
    flags = [Flag(key, key, value) for key, value in changes.items()]
    if isinstance(config, SweepConfig):
        config = config.model_dump(mode="json", exclude_unset=True)
    if isinstance(config, Mapping):
        return load_config(None, flags, base=config)
    return load_config(config, flags)


def plan(config: Config = None, *, resume: bool = False, in_process: bool = False, **changes: Any) -> "Plan":
    """What a sweep will do; nothing is run or written to its directory. ``in_process``: no cluster is looked for."""
    from hc_ray_actors.address import running_cluster
    from hc_ray_actors.driver.plan import prepare

    found = settings(config, **changes)
    if found.search == "climb":
        raise ConfigError("this config is a climb: run it with `hc-ray climb`")
    place = "in-process" if in_process else running_cluster() or "laptop"
    return _outside_of_loops(lambda: prepare(found, resume=resume, place=place))


def sweep(
    config: "Config | Plan" = None,
    *,
    resume: bool = False,
    on_event: Callable[[Event], None] | None = None,
    in_process: bool = False,
    max_trials: int | None = None,
    **changes: Any,
) -> "Results":
    """Run a sweep, or what is missing of a plan, and wait for its end. It runs on the cluster that is up, else on a Ray
    of this machine alone; ``in_process``: without Ray. ``on_event`` hears all that happens."""
    from hc_ray.machine import sealed_guard
    from hc_ray_actors.cluster import Cluster
    from hc_ray_actors.driver import sweep as driver

    if in_process and sealed_guard.install.cache_info().currsize:
        raise ConfigError("in_process: a sweep on Ray has run in this process, which can grade nothing any more")
    ready = config if isinstance(config, driver.Plan) else plan(config, resume=resume, in_process=in_process, **changes)
    events: Any = SimpleNamespace(emit=on_event or (lambda event: None))
    cluster = Cluster() if in_process else None
    ended = _outside_of_loops(lambda: driver.run(ready, events=events, max_trials=max_trials, cluster=cluster))
    if ended.interrupted:
        raise KeyboardInterrupt
    return Results(ended.out, unscored=ended.unscored, problems=ended.problems)


class Results:
    """What a sweep directory holds."""

    def __init__(self, out: str, *, unscored: int | None = None, problems: tuple[str, ...] = ()) -> None:
        """``problems``: what went wrong in the sweep that has just ended. Raises ``UserError`` where there is none."""
        from hc_ray.stores.sweep_directory import sweep_at

        self._store = sweep_at(out)
        self.out, self.problems = out, problems
        self.unscored = (
            sum(row["passed"] is None for row in self.trials().to_pylist()) if unscored is None else unscored
        )

    @classmethod
    def open(cls, out: str | Path) -> "Results":
        """Those of an earlier sweep."""
        return cls(str(out))

    def table(self, name: Literal["trials", "candidates", "tests", "matrix", "turns"]) -> "Table":
        """A table of ``tables/*.parquet``."""
        from hc_ray.stores.sweep_directory import read_table
        from hc_ray_actors.driver.results import derive

        if not self._store.exists(path := f"tables/{name}.parquet"):
            derive(self._store)
        return read_table(self._store.read(path))

    def trials(self) -> "Table":
        """A row a trial: agent, config, task, seed, ``passed`` (null where unscored), score, tokens, and more."""
        return self.table("trials")

    def report(self) -> dict[str, Any]:
        """What ``hc-ray report --json`` prints: rates with intervals, comparisons, criteria."""
        from hc_ray.reports.report import summarise

        return dict(summarise(self._store))


def _named(value: Any) -> Any:
    """Settings as data, a class or function by its name."""
    if isinstance(value, list | tuple):
        return [_named(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _named(one) for key, one in value.items()}
    return f"{value.__module__}:{value.__qualname__}" if hasattr(value, "__qualname__") else value


def _outside_of_loops(work: Callable[[], T]) -> T:
    """Work that starts an event loop, in a notebook too, whose own is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()
