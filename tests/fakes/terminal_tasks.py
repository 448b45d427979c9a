"""The tasks of the terminal dataset by name, and which of them bubblewrap cannot take."""

from hc_ray.machine.paths import configs_dir

DATASET = configs_dir() / "tasks" / "terminal"
NAMES = sorted(path.parent.name for path in DATASET.glob("*/task.toml"))


def builds_an_image(name: str) -> bool:
    """Whether a task's Dockerfile runs commands: bubblewrap builds no images."""
    return "\nRUN " in (DATASET / name / "environment" / "Dockerfile").read_text()
