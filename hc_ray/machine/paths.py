"""Paths of hc-ray's data on a machine, and of its shipped data (in a wheel or a checkout)."""

import errno
import os
import shutil
from pathlib import Path

from hc_ray.domain.errors import PlatformError


def expanded(path: str) -> Path:
    """``~`` and ``~NAME`` as a shell reads them: where nobody has such a home they stand for themselves."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def data_root() -> Path:
    """The folder of weights, runner, public task copies and sandbox states.

    ``HC_RAY_HOME``, else ``/var/lib/hc-ray`` for root (a sandbox run by root drops to an unprivileged user that cannot
    enter root's home), else ``$XDG_DATA_HOME/hc-ray``. Raises ``PlatformError`` where a user has no home."""
    if given := os.environ.get("HC_RAY_HOME"):
        return expanded(given).resolve()
    if os.geteuid() == 0:
        return Path("/var/lib/hc-ray")
    base = expanded(os.environ.get("XDG_DATA_HOME") or "~/.local/share")
    if base.parts[0] == "~":
        raise PlatformError("this user has no home folder: set HC_RAY_HOME to a writable folder")
    return base.resolve() / "hc-ray"


def refusal(fault: OSError) -> str:
    """What this machine refused; the remedy on a second line where it concerns ``data_root()``."""
    name, why, root = fault.filename2 or fault.filename, fault.strerror, data_root()
    if isinstance(fault, shutil.Error) and isinstance(fault.args[0], list):  # of a whole tree: the first of its files
        _, name, why = fault.args[0][0]
    said = f"{name}: {why}" if isinstance(name, str) else str(fault)
    # Whose disk is full a write does not say: of all that hc-ray writes, most lies there.
    full = name is None and fault.errno == errno.ENOSPC
    if full or (isinstance(name, str) and (root.is_relative_to(name) or Path(name).is_relative_to(root))):
        said += (
            f"\nhc-ray keeps its data in {root}: set HC_RAY_HOME to a folder that you can write to, on a file system"
        )
        said += " with room and file locks"
    return said


def configs_dir() -> Path:
    """The shipped ``configs/``: package data in a wheel, the checkout's folder in an editable install."""
    package = Path(__file__).parents[1]
    packaged = package / "_configs"
    return packaged if packaged.is_dir() else package.parent / "configs"


def inside_sources() -> dict[str, Path]:
    """Every module that runs inside a sandbox, by the name that ``domain.runner_paths.inside_script`` takes."""
    inside = Path(__file__).parents[1] / "sandboxes" / "inside"
    return {path.stem: path for path in sorted(inside.rglob("*.py")) if path.stem != "__init__"}
