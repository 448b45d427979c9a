"""Finds out within seconds which tasks a Docker daemon can take, from the task's own text and its base images. An image
is available if the daemon has it, or if its registry returns the manifest that a pull would start with."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.task import Task
from hc_ray.domain.value import Value
from hc_ray.sandboxes.docker.client import Daemon
from hc_ray.sandboxes.docker.values import DaemonGone
from hc_ray.tasks.dockerfile import parse_dockerfile
from hc_ray.tasks.public_folder import environment_dir

ASK_SECONDS = 5.0
"""Seconds for one registry to return one manifest."""
ALL_SECONDS = 10.0
"""Seconds for all of them together."""
AT_ONCE = 16
TASK_IMAGES = "hc-ray/task"
"""Repository of the images built for tasks."""


class Availability(Value):
    """The images that a daemon lacks for some tasks."""

    pullable: tuple[str, ...] = ()
    missing: dict[str, str] = {}
    """Image → why it cannot be pulled, in one line."""
    without: dict[str, str] = {}
    """Task digest → the first of its images that is missing."""


def refusal(task: Task) -> str | None:
    """Why no Docker daemon can take the task, whatever its images; None if there is no reason."""
    environment = task.environment
    if environment.compose:
        return "its environment is a Docker Compose file, which is not supported"
    if environment.network == "allowlist":
        return "it allows some hosts only, which these sandboxes cannot enforce"
    if environment.gpus:
        return "it asks for GPUs, which sandboxes do not have"
    if environment.dockerfile is None:
        return None if environment.docker_image else "it has neither environment/Dockerfile nor docker_image"
    return parse_dockerfile(environment.dockerfile).unsupported


def built_tag(task: Task) -> str:
    """The name of the image built or received for a task."""
    return f"{TASK_IMAGES}:{task.digest[:16]}"


def bases(task: Task, public_root: Path) -> tuple[str, ...]:
    """The base images of the task's own image."""
    environment = task.environment
    if environment.dockerfile is None:
        return (environment.docker_image,) if environment.docker_image else ()
    return parse_dockerfile(environment.dockerfile, files=environment_files(task, public_root)).bases


def environment_files(task: Task, public_root: Path) -> list[str]:
    folder = environment_dir(public_root, task.digest)
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def available(tasks: Sequence[Task], public_root: Path, daemon: Daemon) -> Availability:
    """Check the images of the tasks that Docker does not refuse: each once, concurrently, within ``ALL_SECONDS``.
    Raises ``SandboxError`` if the daemon does not answer."""
    # A task whose image is already built does not need its base.
    needs = {
        task.digest: bases(task, public_root)
        for task in tasks
        if refusal(task) is None and not daemon.image(built_tag(task))
    }
    wanted = sorted({reference for references in needs.values() for reference in references})
    absent = [reference for reference in wanted if daemon.image(reference) is None]
    missing = _unpullable(absent, daemon.ask_registry)
    lacks = {digest: [one for one in references if one in missing] for digest, references in needs.items()}
    return Availability(
        pullable=tuple(reference for reference in absent if reference not in missing),
        missing=missing,
        without={digest: found[0] for digest, found in lacks.items() if found},
    )


def _unpullable(references: Sequence[str], ask: Callable[..., None]) -> dict[str, str]:
    """Image → why it cannot be pulled, for images without a manifest in time."""
    if not references:
        return {}
    threads = ThreadPoolExecutor(min(AT_ONCE, len(references)), thread_name_prefix="docker-ask")
    try:
        asked = {reference: threads.submit(ask, reference, seconds=ASK_SECONDS) for reference in references}
        wait(asked.values(), timeout=ALL_SECONDS)
        missing = {}
        for reference, job in asked.items():
            if not job.done():
                missing[reference] = f"its registry showed nothing within {ALL_SECONDS:g} s"
            elif isinstance(fault := job.exception(), SandboxError):
                missing[reference] = _why(fault)
            elif fault is not None:
                raise fault
        return missing
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _why(fault: SandboxError) -> str:
    """The reason in one short line; the daemon's own sentence starts with the request that it made."""
    if isinstance(fault, DaemonGone):
        return f"its registry showed nothing within {ASK_SECONDS:g} s"
    says = str(fault).splitlines()[0].rpartition('": ')[2].removeprefix("dial tcp: ")
    return says if len(says) <= 120 else f"…{says[-119:]}"
