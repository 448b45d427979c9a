"""A dataset's fixed split: *dev* is tuned on, *holdout* is looked at rarely, and every look is counted.

The split is a file beside the tasks, made once: by names that somebody registered beforehand, else by rank. Tasks are
ranked by a hash of seed and public digest and by nothing else: no name, tag or result has a say."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal, Self

from pydantic import ValidationError, model_validator

from hc_ray.blind.sealing.kept import append
from hc_ray.blind.sealing.vault import readings
from hc_ray.domain.errors import DatasetError
from hc_ray.domain.value import Value
from hc_ray.machine.whole_files import beside, link

SPLIT_FILE = "split.json"
LEDGER_FILE = "split.ledger.jsonl"


class Split(Value):
    """Names and public digests of either side."""

    schema_version: int = 1
    seed: int | None
    """None: the holdout was named."""
    fraction: float
    dev: dict[str, str]
    holdout: dict[str, str]

    @model_validator(mode="after")
    def _sides_are_apart(self) -> Self:
        """Check that dev and holdout do not overlap."""
        held = set(self.holdout.values())
        if both := sorted(name for name, digest in self.dev.items() if name in self.holdout or digest in held):
            more = f" and {len(both) - 3} more" if len(both) > 3 else ""
            raise ValueError(f"dev and holdout overlap: {', '.join(both[:3])}{more}")
        return self

    def side(self, digest: str) -> Literal["dev", "holdout"] | None:
        """The side of the task with this public digest; None if the split does not contain it."""
        if digest in self.holdout.values():
            return "holdout"
        return "dev" if digest in self.dev.values() else None


def make_split(folder: Path, *, seed: int = 0, fraction: float = 0.2, holdout: Collection[str] = ()) -> Split:
    """Fix the split of a dataset and write ``split.json``. ``holdout``: names of the tasks to hold out, whole or their
    last part, registered beforehand; seed and fraction then have no say. A task with faults is in neither side, but for
    one that is named: without a digest, so that it must be looked at before it can run on either side.

    Raises ``DatasetError`` when a split is there already that is not the one asked for (the same one again is fine),
    when either side would be empty, or for a name that no task has."""
    if not 0 < fraction < 1:
        raise DatasetError(f"holdout fraction {fraction:g} is not allowed: use a number between 0 and 1")
    with readings(folder) as found:
        every = {reading.name: reading.task.digest if reading.task else "" for reading in found}
    tasks = {name: digest for name, digest in sorted(every.items()) if digest}
    ranked = sorted(set(tasks.values()), key=lambda digest: hashlib.sha256(f"{seed}:{digest}".encode()).hexdigest())
    named = {name: every[name] for name in sorted(_named(folder, every, holdout))}
    # Equal tasks under two names have equal digests, and so fall on one side.
    kept_out = set(named.values() if named else ranked[: round(len(ranked) * fraction)])
    split = Split(
        seed=None if named else seed,
        fraction=round(len(named) / len(every), 4) if named else fraction,
        dev={name: digest for name, digest in tasks.items() if digest not in kept_out},
        holdout={name: digest for name, digest in {**named, **tasks}.items() if digest in kept_out},
    )
    if not split.dev or not split.holdout:
        raise DatasetError(
            f"{folder} has too few valid tasks that differ ({len(ranked)}): a share of {split.fraction:.0%} for the "
            f"holdout leaves {'it' if split.dev else 'dev'} empty"
        )
    before = load_split(folder)
    if before is not None:
        if before != split:
            how = "named" if before.seed is None else f"seed {before.seed}, fraction {before.fraction:g}"
            says = f"{folder / SPLIT_FILE} fixes another split ({how}, {len(before.dev)} + {len(before.holdout)} tasks)"
            raise DatasetError(f"{says}. A split is fixed once; to make a new one, remove the file by hand")
        return before
    _write_once(folder / SPLIT_FILE, split.model_dump_json(indent=2) + "\n")
    return split


def _named(folder: Path, tasks: Iterable[str], asked: Iterable[str]) -> set[str]:
    """The tasks with these names. Raises ``DatasetError`` for a name that matches none or several."""
    by_name: defaultdict[str, set[str]] = defaultdict(set)
    for task in tasks:
        for name in (task, task.rsplit("/", 1)[-1]):
            by_name[name].add(task)
    unknown = sorted(name for name in asked if len(by_name[name]) != 1)
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        raise DatasetError(f"{folder} has no task, or several, of the name {', '.join(unknown[:3])}{more}")
    return {next(iter(by_name[name])) for name in asked}


def load_split(folder: Path) -> Split | None:
    """The split of a dataset; None if there is none. Raises ``DatasetError`` for a damaged file."""
    path = folder / SPLIT_FILE
    try:
        return Split.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise DatasetError(f"{path}: {where}: {first['msg']}: restore the file from its repository") from None


def record_look(folder: Path, *, sweep: str, trials: int) -> None:
    """Append one look at the holdout to the ledger beside the split file. Raises ``DatasetError`` where it cannot be
    written: an uncounted look must not happen."""
    path = folder / LEDGER_FILE
    try:
        append(path, {"sweep": sweep, "trials": trials}, 0o666)
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be written ({error.strerror}), so this look at the holdout cannot be counted; "
            "copy the dataset to a folder of your own"
        ) from None


def count_looks(folder: Path) -> int:
    """Number of looks at this dataset's holdout."""
    try:
        return sum(bool(line.strip()) for line in (folder / LEDGER_FILE).read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return 0


def _write_once(path: Path, text: str) -> None:
    """Write a file atomically, never overwriting another."""
    try:
        with beside(path, text.encode(), lasting=True) as new:
            link(new, path)
            new.unlink()
    except FileExistsError:
        raise DatasetError(f"{path}: another process created it at the same time; check its content") from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be written: {error.strerror}") from None
