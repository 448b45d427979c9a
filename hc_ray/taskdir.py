"""The public half of sealed tasks on disk: ``<public root>/<public digest>/{task.json,instruction.md,environment/}``.
Whoever may see a task may use this module; nothing here leads to tests or solutions."""

from pathlib import Path

from pydantic import ValidationError

from hc_ray.errors import DatasetError
from hc_ray.task import Task

TASK_FILE = "task.json"


def load_public(public_root: Path, digest: str) -> Task:
    """The task whose public digest is ``digest``. Raises ``DatasetError`` when it was never sealed here."""
    path = public_root / digest / TASK_FILE
    try:
        return Task.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise DatasetError(
            f"no task with public digest {digest[:12]} under {public_root}: seal its dataset first"
        ) from None
    except ValidationError as error:
        raise DatasetError(
            f"{path} is damaged ({error.error_count()} faults): remove its folder and seal again"
        ) from None


def environment_dir(public_root: Path, digest: str) -> Path:
    """The folder of a task's environment files (the build context of its Dockerfile); empty where it has none."""
    return public_root / digest / "environment"
