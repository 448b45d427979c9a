"""Chooses between Docker and bubblewrap sandboxes: each is tried before use, and the choice comes with its reason."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from hc_ray.domain.errors import PlatformError, SandboxError
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.task import Task
from hc_ray.domain.value import Value
from hc_ray.machine.paths import data_root
from hc_ray.sandboxes.docker.availability import Availability, available, refusal
from hc_ray.sandboxes.docker.client import Daemon

SHOWN = 3
"""The most images or tasks that a sentence names; it counts the others."""


class Choice(Value):
    """The chosen backend, and why."""

    backend: str
    why: str
    refused: dict[str, str] = {}
    """Task digest → why that task cannot run there although the backend takes tasks of its kind."""
    notes: tuple[str, ...] = ()
    """Concerns about a backend that was requested by name."""


class Backends:
    """This machine's backends; tests substitute another."""

    def fault(self, backend: str) -> str | None:
        """Why the backend does not work here, with the remedy; None if it does."""
        from hc_ray.sandboxes.bwrap import sandbox as bwrap_sandbox
        from hc_ray.sandboxes.docker.connection import why_not

        return bwrap_sandbox.probe() if backend == "bwrap" else why_not()

    def images(self, tasks: Sequence[Task], public_root: Path) -> Availability:
        """Which of the tasks' images Docker has or can pull."""
        try:
            with contextlib.closing(Daemon()) as daemon:
                return available(tasks, public_root, daemon) if tasks else Availability()
        except SandboxError as fault:
            raise PlatformError(f"Docker stopped responding: {_line(str(fault))}") from None

    def bubblewrap_takes(self, task: Task, public_root: Path) -> bool:
        return open_place("bwrap", public_root, label="plan").refuses(task) is None


def choose(
    wanted: str,
    tasks: Sequence[Task] = (),
    public_root: Path | None = None,
    *,
    why: str = "asked for",
    here: Backends | None = None,
) -> Choice:
    """Choose a backend. ``auto`` takes Docker if it responds and has, or can pull, images for at least as many tasks as
    bubblewrap can run; otherwise bubblewrap. It never falls back silently. ``why``: the reason for a backend requested
    by name. Raises ``PlatformError`` with a remedy if no requested backend works here."""
    here, public = here or Backends(), public_root or data_root() / "public"
    if wanted == "auto":
        return _auto(tasks, public, here)
    if fault := here.fault(wanted):
        raise PlatformError(
            f"{'Docker' if wanted == 'docker' else 'bubblewrap'} ({why}) does not work on this machine: {fault}"
        )
    found = here.images(tasks, public) if wanted == "docker" else Availability()
    return Choice(backend=wanted, why=why, notes=(_lacks(found),) if found.missing else ())


def _auto(tasks: Sequence[Task], public_root: Path, here: Backends) -> Choice:
    if docker_fault := here.fault("docker"):
        return _bubblewrap(here.fault("bwrap"), f"Docker does not work: {_line(docker_fault)}")
    found = here.images(tasks, public_root)
    if not found.missing:
        return Choice(backend="docker", why=_has(found))
    fault = here.fault("bwrap")
    served = sum(refusal(task) is None and task.digest not in found.without for task in tasks)
    taken = 0 if fault else sum(here.bubblewrap_takes(task, public_root) for task in tasks)
    if not served or served < taken:
        return _bubblewrap(fault, _lacks(found))
    other = f"can run {taken}" if fault is None else f"does not work ({_line(fault)})"
    return Choice(
        backend="docker",
        why=f"Docker responds and has images for {served} of {len(tasks)} tasks; bubblewrap {other}",
        refused={
            digest: f"its image {image} is missing and cannot be pulled ({found.missing[image]}): {_remedy(image)}"
            for digest, image in found.without.items()
        },
    )


def _bubblewrap(fault: str | None, docker: str) -> Choice:
    if fault:
        raise PlatformError(f"no sandbox works on this machine. bubblewrap: {fault}\n{docker}")
    return Choice(backend="bwrap", why=f"bubblewrap works. {docker}")


def _has(found: Availability) -> str:
    if not found.pullable:
        return "Docker responds and has the tasks' base images"
    return f"Docker responds; {named(found.pullable)} will be pulled"


def _lacks(found: Availability) -> str:
    first = next(iter(found.missing))
    names = named(tuple(found.missing))
    return f"Docker responds, but lacks {names} and cannot pull it ({found.missing[first]}): {_remedy(first)}"


def named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown


def _remedy(image: str) -> str:
    return f"run docker pull {image}, or load or build an image of that name"


def _line(fault: str) -> str:
    return fault.splitlines()[0]


def open_place(backend: str, public_root: Path, *, label: str) -> SandboxPlace:
    """Open the backend on this node for this process, after removing what dead owners left. ``label`` separates
    solvers' from verifiers' sandboxes."""
    from hc_ray.machine.owner import current_owner

    owner = f"{current_owner()}-{label}"
    if backend == "docker":
        from hc_ray.sandboxes.docker.reaper import reap
        from hc_ray.sandboxes.docker.sandbox import DockerPlace

        with contextlib.suppress(SandboxError):  # without a daemon nothing is left there; its first use will report it
            reap()
        return DockerPlace(public_root, owner=owner)
    from hc_ray.sandboxes.bwrap.sandbox import BwrapPlace

    return BwrapPlace(public_root, data_root() / "sandboxes" / label, owner=owner)
