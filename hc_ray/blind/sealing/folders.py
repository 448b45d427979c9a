"""Task folders that are written: a small sound task to start one's own from (``hc-ray tasks new``), and the tasks of a
dataset whole, for Harbor and for whoever gets one task alone."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import yaml

from hc_ray.blind.sealing.tree import copy_tree
from hc_ray.blind.sealing.vault import readings
from hc_ray.domain.errors import DatasetError


def new_task(folder: Path, name: str) -> Path:
    """Write a new task ``folder/name`` (``new_task.yaml``) and return its path. It passes ``tasks check``; its
    reference passes its tests and the untouched environment does not. Raises ``DatasetError`` for a name that is none,
    and when something is there already."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise DatasetError(
            f"{name!r} is not a valid task name: use letters, digits, '-', '_' and '.', starting with a letter or digit"
        )
    task = folder / name
    if task.exists():
        raise DatasetError(f"{task} already exists: choose another name")
    write_files(task, read_files("new_task"))
    return task


def read_files(name: str) -> dict[str, str]:
    """The files of a task by their paths, as ``NAME.yaml`` beside this module holds them."""
    files: dict[str, str] = yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text("utf-8"))
    return files


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files by their paths in a folder; shell scripts can be run. Raises ``DatasetError``."""
    try:
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            target.chmod(0o755 if path.endswith(".sh") else 0o644)
    except OSError as error:
        raise DatasetError(f"{folder} cannot be written: {error.strerror}") from None


def write_whole(dataset: Path, out: Path) -> list[Path]:
    """Write every task of ``dataset`` (or the one task that it is) below ``out``, and return their folders: no link
    leaves one, and tests and solutions that were shipped as an archive lie in their places. Files that no digest covers
    stay behind, so each copy has the digests of its original. Raises ``DatasetError`` where a task has a fault, or its
    place is taken."""
    written: list[Path] = []
    dataset = dataset.resolve()
    with readings(dataset) as found:
        for reading in found:
            name = reading.public.name if reading.public == dataset else reading.public.relative_to(dataset)
            if reading.faults:
                raise DatasetError(f"{name}: {reading.faults[0].field}: {reading.faults[0].says}")
            place = out / name
            if place.exists():
                raise DatasetError(f"{place} already exists: choose another folder")
            place.mkdir(parents=True)
            for file in ("task.toml", "instruction.md"):
                shutil.copyfile(reading.public / file, place / file)
            for root, tree in (
                (reading.public / "environment", reading.environment),
                (reading.sealed / "tests", reading.tests),
                (reading.sealed / "solution", reading.solution),
            ):
                copy_tree(root, place / root.name, tree, folder_mode=0o755, mask=0o755)
            written.append(place)
    return written
