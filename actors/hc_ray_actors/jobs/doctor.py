"""Checks this machine and its resource limits, with a remedy for each failure, and removes leftovers."""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial

from hc_ray.domain.errors import PlatformError
from hc_ray.domain.value import Value
from hc_ray.machine.paths import data_root, refusal

DEMO = "starter"
"""The shipped dataset that a first run uses."""
BACKENDS = ("docker", "bwrap")
MODEL = "model "
"""Prefix of the names of findings about models."""
_NEEDED = {"platform", "home", "runner", "ray"}
"""Checks without which nothing runs."""


class Finding(Value):
    """The result of one check."""

    name: str
    ok: bool
    says: str
    remedy: str = ""


def examine() -> list[Finding]:
    """Check everything that a sweep needs; each check tries the real thing instead of reading a version string."""
    from hc_ray.engines.catalogue import catalogue

    data_root()  # without a home folder, fail here and ask only for one
    return [
        _tried(
            "platform", _python, "hc-ray runs on Linux with Python 3.11 or later (macOS and Windows: Docker or WSL)"
        ),
        _tried("home", _home, "set HC_RAY_HOME to a folder you can write to"),
        _tried("runner", _runner, "install hc-ray again"),
        *(_tried(backend, partial(_sandbox, backend)) for backend in BACKENDS),
        _tried("sandbox auto", _auto),
        *(_tried(f"{MODEL}{name}", partial(_model, name), f"hc-ray models pull {name}") for name in catalogue()),
        _tried("ray", _cluster),  # its errors contain their remedy
        _tried("leftovers", _leftovers, "hc-ray clean"),
        _tried("disk", _disk, "free at least 2 GiB"),
    ]


def lacking(findings: Sequence[Finding]) -> list[str]:
    """What every sweep needs and this machine lacks, except a model, which a server may provide."""
    works = {one.name for one in findings if one.ok}
    needed = [one.name for one in findings if one.name in _NEEDED and not one.ok]
    if not works & set(BACKENDS):
        needed.append("a sandbox (docker or bwrap)")
    return needed


def _tried(name: str, look: Callable[[], str], remedy: str = "") -> Finding:
    """Run a check; without a ``remedy``, use the error's own, from its second line on."""
    try:
        return Finding(name=name, ok=True, says=look())
    except Exception as fault:
        says, _, own = (refusal(fault) if isinstance(fault, OSError) else str(fault)).partition("\n")
        return Finding(name=name, ok=False, says=says, remedy=own.strip() or remedy)


def _found(says: str, *, fault: bool) -> str:
    if fault:
        raise PlatformError(says)
    return says


def _python() -> str:
    says = (
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {'root' if os.geteuid() == 0 else 'not root'}"
    )
    return _found(says, fault=sys.version_info < (3, 11) or platform.system() != "Linux")


def _home() -> str:
    root = data_root()
    root.mkdir(parents=True, exist_ok=True)
    probe = root / f".probe-{os.getpid()}"
    probe.write_text("x")
    probe.unlink()
    return str(root)


def _runner() -> str:
    from hc_ray.sandboxes.runner_build import ensure_runner

    return str(ensure_runner())


def _sandbox(backend: str) -> str:
    from hc_ray_actors.backends import Backends, open_place

    if fault := Backends().fault(backend):
        raise PlatformError(fault)
    limits = open_place(backend, data_root() / "public", label="doctor").limits()
    return "; ".join(f"{limit}: {by}" for limit, by in limits.items())


def _auto() -> str:
    """The choice of ``--sandbox auto`` for the shipped tasks: Docker needs their images, not only a daemon."""
    from hc_ray_actors import verifiers
    from hc_ray_actors.backends import choose
    from hc_ray_actors.driver.task_choice import dataset_folder, sealed_folder

    folder, public_root = dataset_folder(DEMO), data_root() / "public"
    choice = choose("auto", verifiers.seal(folder, public_root, sealed_folder(folder)).tasks, public_root)
    return f"{choice.backend} for the shipped tasks. {choice.why}"


def _model(name: str) -> str:
    from hc_ray.engines.catalogue import resolve
    from hc_ray.engines.embedded import check_library

    found = resolve(name)
    check_library()
    return str(found.path)


def _cluster() -> str:
    from hc_ray_actors.address import running_cluster

    address = running_cluster()
    return f"cluster at {address}" if address else "no cluster is running; sweeps start a local one"


def _leftovers() -> str:
    found = len(clean(dry=True).removed)
    return _found(f"{found or 'none'} from dead hc-ray processes", fault=found > 0)


def _disk() -> str:
    root = data_root()
    while not root.exists():
        root = root.parent
    free = shutil.disk_usage(root).free / (1 << 30)
    return _found(f"{free:.1f} GiB free below {root}", fault=free <= 2)


class Cleaned(Value):
    """The result of ``clean``."""

    removed: tuple[str, ...]
    kept: tuple[str, ...] = ()
    """Kept because they save time: task images, the runner's volume."""
    note: str = ""
    """What could not be checked, and why."""


def clean(*, images: bool = False, dry: bool = False) -> Cleaned:
    """Remove what dead hc-ray processes left: child processes, sandboxes, containers, fork images, images of failed
    builds, temporary folders; never anything of a live process or not of hc-ray. ``images`` also removes task images
    and the runner's volumes; ``dry`` only lists."""
    from hc_ray.machine import cleanup
    from hc_ray.sandboxes.bwrap import sandbox as bwrap_sandbox
    from hc_ray.sandboxes.docker import reaper as docker_reap
    from hc_ray.sandboxes.docker.connection import why_not

    # Processes first: one that still runs would recreate its folder.
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
