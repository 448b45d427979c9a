"""uv as tests run it, and the wheel: what it is built from, and an environment that holds it."""

import contextlib
import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

from tests.fakes.processes import ran
from tests.fakes.sweeps import REPOSITORY


def found_uv() -> str:
    """uv, wherever scripts/install found or put it."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    folders = [Path.home() / ".local/bin", Path(site.getuserbase()) / "bin", data / "hc-ray/uv/bin"]
    program = shutil.which("uv") or shutil.which("uv", path=os.pathsep.join(map(str, folders)))
    assert program, "uv is missing: scripts/install brings it"
    return program


def uv(*arguments: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs uv; no Python is ever downloaded."""
    env = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    env.pop("VIRTUAL_ENV", None)
    return ran(found_uv(), *arguments, cwd=cwd, env=env, timeout=540, check=check)


def online_at_need(*words: str | Path, cwd: Path) -> None:
    """Runs uv without the package index, and with it where its cache lacks something."""
    if uv(*words, "--offline", cwd=cwd, check=False).returncode != 0:
        uv(*words, cwd=cwd)


def copy_source(target: Path) -> None:
    for folder in ("hc_ray", "actors", "configs"):
        shutil.copytree(REPOSITORY / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"),
                        symlinks=True)  # fmt: skip
    for file in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "uv.lock"):
        shutil.copy(REPOSITORY / file, target)


def build_wheel(source: Path, out: Path) -> Path:
    uv("build", "--quiet", "--wheel", "--out-dir", out, cwd=source)
    return next(out.glob("*.whl"))


def make_environment(venv: Path, wheel: Path) -> None:
    """An environment with a wheel and what it needs, in the versions of our lock."""
    uv("venv", "--quiet", "--python", sys.executable, venv, cwd=venv.parent)
    exported = ("export", "--quiet", "--frozen", "--no-dev", "--no-hashes", "--no-emit-project")
    (venv / "pinned.txt").write_text(uv(*exported, cwd=REPOSITORY).stdout)
    install(venv, wheel)
    _share_byte_code(Path(site.getsitepackages()[0]), next(venv.glob("lib/python*/site-packages")))


def _share_byte_code(ours: Path, theirs: Path) -> None:
    """What tests before this one had compiled of the same files, which Python knows by their times and sizes."""
    for folder in ours.rglob("__pycache__"):
        place = theirs / folder.relative_to(ours)
        if place.parent.is_dir() and not place.exists():
            with contextlib.suppress(OSError):  # another file system; what is missing is compiled
                shutil.copytree(folder, place, copy_function=os.link)


def install(venv: Path, what: Path | str) -> None:
    given = ("--python", venv / "bin/python", "--constraint", venv / "pinned.txt", what)
    online_at_need("pip", "install", "--quiet", *given, cwd=venv)
