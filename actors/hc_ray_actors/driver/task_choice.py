"""Chooses a sweep's tasks: the dataset's folder, its fixed split, the config's filters, the sandboxes' limits."""

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import ConfigError, DatasetError
from hc_ray.domain.task import RefusedTask, Task
from hc_ray.domain.trial import WITHOUT_MODEL
from hc_ray.domain.value import digest_of
from hc_ray.machine.paths import configs_dir, data_root, expanded
from hc_ray.reports.report import stored_json
from hc_ray.sandboxes.bwrap import command as bwrap_command
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray.tasks.vocabulary import Vocabulary, benchmark
from hc_ray_actors import verifiers
from hc_ray_actors.backends import Backends, Choice, choose, open_place
from hc_ray_actors.verifiers import SealedDataset, Split


def dataset_folder(name: str) -> Path:
    """The folder of a dataset, given as a path or the name of a shipped one. Raises ``DatasetError``."""
    given = expanded(name)
    shipped = configs_dir() / "tasks" / name
    folder = given if given.is_dir() else shipped
    if not name or not folder.is_dir():
        if given.exists() and name:
            raise DatasetError(f"{name}: not a folder; a dataset is a folder of tasks")
        known = sorted(path.name for path in (configs_dir() / "tasks").iterdir() if path.is_dir())
        raise DatasetError(
            f"{name or repr(name)}: no such folder, and no shipped dataset of that name (shipped: {', '.join(known)})"
        )
    return folder.resolve()


def sealed_folder(dataset: Path) -> Path:
    """The vault's folder for a dataset: never below a sweep directory or the public root."""
    return data_root() / "sealed" / digest_of(str(dataset))[:16]


def sealed_dataset(sweep: Mapping[str, Any], without: str) -> tuple[Path, SealedDataset]:
    """The folder of a finished sweep's dataset, and the dataset sealed as it is now. Raises ``DatasetError`` if it is
    gone; ``without`` names the consequence."""
    folder = Path(sweep["dataset"])
    if not folder.is_dir():
        raise DatasetError(f"{folder}: the dataset of this sweep no longer exists, so {without}")
    return folder, verifiers.seal(folder, data_root() / "public", sealed_folder(folder))


def dataset_home(folder: Path) -> Path:
    """The folder with a dataset's split, given the dataset or one of its tasks: naming a task's own folder does not
    bypass the holdout."""
    return folder.parent if (folder / "task.toml").is_file() else folder


def fixed_split(config: SweepConfig, folder: Path, tasks: tuple[Task, ...], *, refines: bool) -> Split | None:
    """The fixed split of a dataset, checked against the current tasks. ``refines``: some config asks for more verdicts
    after a fail."""
    home = dataset_home(folder)
    split = verifiers.load_split(home)
    asks_model = set(config.agents) - WITHOUT_MODEL
    if config.split == "all" and asks_model:
        raise ConfigError(f"split: all allows only oracle and nop; {', '.join(sorted(asks_model))} need dev or holdout")
    if split is None:
        if config.split == "holdout":
            raise DatasetError(f"{folder} has no holdout; run `hc-ray tasks split {folder}` first")
        return None
    if config.split == "holdout" and refines and asks_model:
        raise ConfigError("solver.refinement: a holdout task gives one verdict per trial; set refinement to 0")
    now = {task.name: task.digest for task in tasks}
    fixed = {**split.dev, **split.holdout}
    moved = sorted(name for name, digest in fixed.items() if name in now and now[name] != digest)
    if moved:
        raise DatasetError(
            f"{folder}: {', '.join(moved[:3])} changed since the split was fixed; "
            "changed tasks need a new split (move split.json away and run hc-ray tasks split)"
        )
    if home != folder and config.split != "holdout" and asks_model and now.keys() & split.holdout.keys():
        raise ConfigError(
            f"{folder.name} is a holdout task: a model runs on it only with --split holdout, and the look is counted"
        )
    return split


def select(
    config: SweepConfig, split: Split | None, tasks: tuple[Task, ...], refused: tuple[RefusedTask, ...]
) -> tuple[list[Task], list[RefusedTask]]:
    """Apply the config's filters: include and exclude globs match Harbor's name or its last part."""

    def named(name: str) -> bool:
        short = name.rsplit("/", 1)[-1]

        def matches(globs: tuple[str, ...]) -> bool:
            return any(fnmatch.fnmatch(name, glob) or fnmatch.fnmatch(short, glob) for glob in globs)

        return (not config.include or matches(config.include)) and not matches(config.exclude)

    def in_split(name: str) -> bool:
        if split is None or config.split == "all":
            return True
        return name in split.holdout if config.split == "holdout" else name not in split.holdout

    chosen = [task for task in tasks if named(task.name) and in_split(task.name) and set(config.tags) <= set(task.tags)]
    return sorted(chosen, key=lambda task: task.name)[: config.limit], [task for task in refused if named(task.name)]


def with_grading(task: Task, grading: str) -> Task:
    """The task with the sweep's grading mode: ``shared`` applies to every task without a verifier image of its own."""
    if grading != "shared" or task.grading != "isolated":
        return task
    return task.model_copy(update={"grading": "shared"})


def with_network(task: Task, network: str) -> Task:
    """The task with the sweep's network policy: ``task`` (Harbor's default) gives a network to tasks that do not
    mention one. The digest stays that of the files."""
    if network != "task" or task.environment.network != "unmentioned":
        return task
    return task.model_copy(update={"environment": task.environment.model_copy(update={"network": "public"})})


def placed(
    config: SweepConfig,
    folder: Path,
    named: list[Task],
    refused: list[RefusedTask],
    public_root: Path,
    resumed: str | None,
    here: Backends | None,
) -> tuple[Choice, list[Task], list[RefusedTask]]:
    """Choose the sweep's sandboxes; returns them with the tasks that they take and those refused. Raises ``UserError``
    if no task is left, ``PlatformError`` if no sandbox works."""
    tasks = [with_grading(with_network(task, config.network), config.grading) for task in named]
    began = stored_json(SweepStore(resumed), "sweep.json") if resumed and config.sandbox == "auto" else None
    if began:
        choice = choose(str(began["sandbox"]), tasks, public_root, why="as this sweep began", here=here)
    else:
        choice = choose(config.sandbox, tasks, public_root, here=here)
    if choice.backend == "bwrap" and bwrap_command.shows(folder):
        raise DatasetError(f"{folder} is inside a folder that every bwrap sandbox can read; move the dataset elsewhere")
    if config.grading == "shared" and choice.backend == "bwrap":
        raise ConfigError(
            "grading: shared needs Docker, because only Docker sandboxes can be handed to the verifier while they run: "
            f"use --sandbox docker or --grading isolated (bwrap was chosen: {choice.why})"
        )
    tasks, refused = fitting(tasks, refused, choice, public_root)
    if not tasks:
        reasons = "; ".join(f"{task.name}: {task.reason}" for task in refused[:3])
        none = f"{folder}: no task to run"
        if reasons:
            raise DatasetError(f"{none} ({reasons})\nsandbox {choice.backend}: {choice.why}")
        chosen = config.include or config.exclude or config.tags
        left = " is left by -i, -x and --tag (include, exclude, tags)" if chosen else ""
        raise DatasetError(f"{none} on the {config.split} side of its split{left}")
    return choice, tasks, refused


def fitting(
    tasks: list[Task], refused: list[RefusedTask], choice: Choice, public_root: Path
) -> tuple[list[Task], list[RefusedTask]]:
    """Move the tasks that the chosen sandboxes cannot take to the refused ones."""
    place = open_place(choice.backend, public_root, label="plan")
    taken = []
    for task in tasks:
        if reason := place.refuses(task) or choice.refused.get(task.digest):
            refused = [*refused, RefusedTask(name=task.name, reason=reason)]
        else:
            taken.append(task)
    return taken, refused


def vocabulary_of(tasks: Sequence[Task]) -> Vocabulary:
    """The words that no hint may contain: the dataset's own, and the benchmark's."""
    return Vocabulary({task.name.rsplit("/", 1)[-1]: [task.instruction] for task in tasks}, benchmark())


def hint_is_general(hint: str, tasks: Sequence[Task]) -> None:
    """Raise ``ConfigError`` for a hint with a task's name or a word that occurs in only one task."""
    if not hint:
        return
    if said := vocabulary_of(tasks).found(hint):
        raise ConfigError(f"solver.hint: {', '.join(said)} occur in one task only; a hint must be general")
