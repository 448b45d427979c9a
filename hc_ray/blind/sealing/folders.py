"""Writes task folders: a small sound task as a template (``hc-ray tasks new``), and imported tasks."""

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

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
    """Path → content of a task's files, from ``NAME.yaml`` beside this module."""
    files: dict[str, str] = yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text("utf-8"))
    return files


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder, shell scripts as executable. Raises ``DatasetError``."""
    try:
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            target.chmod(0o755 if path.endswith(".sh") else 0o644)
    except OSError as error:
        raise DatasetError(f"{folder} cannot be written: {error.strerror}") from None
