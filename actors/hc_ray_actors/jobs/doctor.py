"""Checks of this machine and its resource limits, with a remedy for each failure; and the removal of leftovers."""

import os
import platform
import shutil
import sys

from hc_ray.domain.errors import HcRayError
from hc_ray.domain.value import Value
from hc_ray.machine.paths import data_root

DEMO = "starter"
"""The shipped dataset that a first run takes its tasks from."""


class Finding(Value):
    """One thing that was looked at."""

    name: str
    ok: bool
    says: str
    remedy: str = ""


def examine() -> list[Finding]:
    """Check everything that a sweep needs; each check tries the real thing instead of reading a version string."""
    return [_python(), _home(), _runner(), *_sandboxes(), _auto(), *_models(), _cluster(), _leftovers(), _disk()]


def _python() -> Finding:
    ok = sys.version_info >= (3, 11) and platform.system() == "Linux"
    return Finding(
        name="platform",
        ok=ok,
        says=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {'root' if os.geteuid() == 0 else 'not root'}",
        remedy="" if ok else "hc-ray runs on Linux with Python 3.11 or later (macOS and Windows: inside Docker or WSL)",
    )


def _home() -> Finding:
    root = data_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        probe = root / f".probe-{os.getpid()}"
        probe.write_text("x")
        probe.unlink()
        return Finding(name="home", ok=True, says=str(root))
    except OSError as fault:
        return Finding(
            name="home", ok=False, says=f"{root}: {fault}", remedy="set HC_RAY_HOME to a folder you can write to"
        )


def _runner() -> Finding:
    from hc_ray.sandboxes.runner_build import ensure_runner

    try:
        return Finding(name="runner", ok=True, says=str(ensure_runner()))
    except Exception as fault:
        return Finding(name="runner", ok=False, says=str(fault), remedy="install hc-ray again")


def _sandboxes() -> list[Finding]:
    from hc_ray.sandboxes.bwrap import sandbox as bwrap_sandbox
    from hc_ray.sandboxes.docker.connection import why_not
    from hc_ray_actors.backends import open_place

    found = []
    for name, fault in (("docker", why_not()), ("bwrap", bwrap_sandbox.probe())):
        if fault:
            says, _, remedy = fault.partition("\n")
            found.append(Finding(name=name, ok=False, says=says, remedy=remedy.strip()))
            continue
        limits = open_place(name, data_root() / "public", label="doctor").limits()
        found.append(Finding(name=name, ok=True, says="; ".join(f"{limit}: {by}" for limit, by in limits.items())))
    return found


def _auto() -> Finding:
    """What ``--sandbox auto`` takes for the shipped tasks: Docker needs their images, not only a daemon."""
    from hc_ray_actors import verifiers
    from hc_ray_actors.backends import choose
    from hc_ray_actors.driver.task_choice import dataset_folder, sealed_folder

    try:
        folder, public_root = dataset_folder(DEMO), data_root() / "public"
        choice = choose("auto", verifiers.seal(folder, public_root, sealed_folder(folder)).tasks, public_root)
    except (HcRayError, OSError) as fault:
        says, _, remedy = str(fault).partition("\n")
        return Finding(name="sandbox auto", ok=False, says=says, remedy=remedy.strip())
    return Finding(name="sandbox auto", ok=True, says=f"{choice.backend} for the shipped tasks. {choice.why}")


def _models() -> list[Finding]:
    from hc_ray.domain.errors import ModelError
    from hc_ray.engines.catalogue import catalogue, resolve

    found = []
    for name in catalogue():
        try:
            model = resolve(name)
            found.append(Finding(name=f"model {name}", ok=True, says=str(model.path)))
        except ModelError as fault:
            found.append(Finding(name=f"model {name}", ok=False, says=str(fault), remedy=f"hc-ray models pull {name}"))
    return found


def _cluster() -> Finding:
    from hc_ray.domain.errors import PlatformError
    from hc_ray_actors.address import running_cluster

    try:
        address = running_cluster()
    except PlatformError as fault:
        return Finding(name="ray", ok=False, says=str(fault), remedy="unset RAY_ADDRESS, or start the cluster")
    return Finding(
        name="ray",
        ok=True,
        says=f"cluster at {address}" if address else "no cluster is running; sweeps start a local one",
    )


def _leftovers() -> Finding:
    found = len(clean(dry=True).removed)
    says = f"{found or 'none'} of hc-ray processes that died"
    return Finding(name="leftovers", ok=not found, says=says, remedy="hc-ray clean" if found else "")


def _disk() -> Finding:
    root = data_root()
    while not root.exists():
        root = root.parent
    free = shutil.disk_usage(root).free / (1 << 30)
    return Finding(
        name="disk",
        ok=free > 2,
        says=f"{free:.1f} GiB free below {root}",
        remedy="" if free > 2 else "free at least 2 GiB",
    )


class Cleaned(Value):
    """What ``clean`` came to."""

    removed: tuple[str, ...]
    kept: tuple[str, ...] = ()
    """What saves time and is in nobody's way: images of tasks, the runner's volume."""
    note: str = ""
    """Where it could not look, and why."""


def clean(*, images: bool = False, dry: bool = False) -> Cleaned:
    """Remove what dead hc-ray processes left: child processes, sandboxes, containers, fork images, images of builds
    that failed, temporary folders. What a live one owns, and what is not hc-ray's, is left alone. ``images`` removes
    the images of tasks and the runner's volumes too; with ``dry`` nothing is removed, only told."""
    from hc_ray.machine import cleanup
    from hc_ray.sandboxes.bwrap import sandbox as bwrap_sandbox
    from hc_ray.sandboxes.docker import reaper as docker_reap
    from hc_ray.sandboxes.docker.connection import why_not

    # Processes first: a folder that one of them still writes to would not stay away.
    removed = cleanup.reap_processes(dry=dry)
    removed += bwrap_sandbox.reap(dry=dry)
    removed += cleanup.reap_folders(dry=dry)
    removed += cleanup.reap_scratch(dry=dry)
    if fault := why_not():
        return Cleaned(removed=tuple(removed), note=f"Docker was not checked: {fault.splitlines()[0]}")
    removed += docker_reap.reap(dry=dry)
    if images:
        removed += docker_reap.reap_cache(dry=dry)
    kept = () if images and dry else tuple(docker_reap.reap_cache(dry=True))
    return Cleaned(removed=tuple(removed), kept=kept)
