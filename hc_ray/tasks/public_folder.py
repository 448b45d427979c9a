"""The public part of sealed tasks on disk: ``<public root>/<public digest>/{task.json,instruction.md,environment/}``.
Nothing here leads to tests or solutions."""

from pathlib import Path

TASK_FILE = "task.json"


def is_here(public_root: Path, digest: str) -> bool:
    """Whether the complete public part of a task is here; its file is written last."""
    return (public_root / digest / TASK_FILE).is_file()


def environment_dir(public_root: Path, digest: str) -> Path:
    """The folder with a task's environment files (the build context of its Dockerfile); empty if it has none."""
    return public_root / digest / "environment"
