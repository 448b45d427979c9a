"""Builds the runner: the machine's own Python with standard library, shared libraries, loader and pytest, made once and
mounted read-only at ``/.hc`` in every sandbox (``hc_ray.domain.runner_paths``).

What runs inside lies in its ``lib/hc``. Everything is byte-compiled with unchecked hashes (time stamps do not matter),
built beside its place and renamed, and never changed afterwards."""

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from hc_ray.domain.errors import PlatformError
from hc_ray.domain.runner_paths import RUNNER_ROOT
from hc_ray.machine.paths import data_root, inside_sources
from hc_ray.machine.whole_files import one_process_at_a_time
from hc_ray.sandboxes.runner_elf import ElfFile

_LEFT_OUT = (
    "test", "tests", "idlelib", "tkinter", "turtledemo", "turtle.py", "ensurepip", "venv", "lib2to3", "pydoc_data",
    "site-packages", "dist-packages", "__pycache__", "sitecustomize.py", "EXTERNALLY-MANAGED", "config-*", "*.a", "*.o",
    "_tkinter.*", "_test*.so", "_ctypes_test.*", "xxlimited*",
)  # fmt: skip
"""Of the standard library: tests, graphics, installers and what a distribution added."""

_PURE = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
"""pytest and everything it imports on Python 3.11 or later (``py`` is a file of pytest's own)."""

_DISTRIBUTIONS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")

_LEXERS = {"__init__.py", "_mapping.py", "python.py", "diff.py"}
"""The lexers of pygments that pytest names; the other 250 modules stay out."""

_BESIDE_LIBC = ("libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2")
"""Libraries that glibc opens by name at run time: no list of needed libraries shows them."""


def ensure_runner() -> Path:
    """The folder of the runner, built if it is not there yet (about 10 s, once).

    Safe against other processes that build at the same time. Raises ``PlatformError`` where this machine's Python
    cannot be copied (musl, a 32-bit or static interpreter)."""
    root = data_root() / "runner"
    target = root / runner_digest()
    if not target.is_dir():
        with one_process_at_a_time(root / ".lock"):
            for folder in (root.parent, root):
                if ~folder.stat().st_mode & 0o555:  # it may be another user's, who alone can change it
                    folder.chmod(folder.stat().st_mode | 0o555)
            if not target.is_dir():
                with staged(target) as stage:
                    _copy_python(stage)
                    _write_inside(stage)
                    _byte_compile(stage)
    return target


def runner_digest() -> str:
    """What tells one runner from another: this machine's Python, pytest, and the modules that run inside."""
    digest = hashlib.sha256(_python_key().encode())
    for name, source in inside_modules().items():
        digest.update(f"{name} {len(source)} ".encode() + source)
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1)  # what a process has loaded goes with what it read first
def inside_modules() -> Mapping[str, bytes]:
    """What runs inside, as it is there: the modules lie side by side, as ``hc_<name>.py``, and import each other so."""
    sources = {name: path.read_text("utf-8") for name, path in inside_sources().items()}

    def side_by_side(found: re.Match[str]) -> str:
        if found[1] in sources:
            return f"from hc_{found[1]} import {found[2]}"
        return "import " + ", ".join(f"hc_{name} as {name}" for name in found[2].split(", "))

    imports = re.compile(r"from hc_ray\.sandboxes\.inside(?:\.(?:grading|suites))?(?:\.(\w+))? import (.+)")
    return {name: imports.sub(side_by_side, source).encode() for name, source in sources.items()}


@lru_cache(maxsize=1)
def _python_key() -> str:
    parts = [sys.version, platform.machine(), str(base_python()), Path(__file__).read_text("utf-8")]
    parts += [f"{name} {importlib.metadata.version(name)}" for name in _DISTRIBUTIONS]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def base_python() -> Path:
    """The real interpreter behind the running one: no venv link, no shim."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = Path(getattr(sys, "_base_executable", ""))
    for candidate in (Path(sys.base_prefix) / "bin" / name, own, Path(sys.executable)):
        if candidate.is_file():
            with candidate.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    return candidate.resolve()
    raise PlatformError(f"no interpreter found below {sys.base_prefix}: the runner is built from a CPython on Linux")


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """A folder that becomes ``target`` when the block ends well, and nothing otherwise."""
    stage = Path(tempfile.mkdtemp(prefix=".build-", dir=target.parent))
    try:
        yield stage
        for folder, _, files in os.walk(stage):
            Path(folder).chmod(0o755)
            for file in files:
                path = Path(folder) / file
                if not path.is_symlink():
                    path.chmod(0o755 if os.access(path, os.X_OK) else 0o644)
        os.sync()  # else, with the power, its files may be lost and its name kept
        try:
            stage.rename(target)
        except OSError:
            if not target.is_dir():  # else a machine that sees this disk, and not this one's locks, made the same
                raise
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _copy_python(stage: Path) -> None:
    python = base_python()
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    stdlib = stage / "lib" / library
    shutil.copytree(sysconfig.get_path("stdlib"), stdlib, symlinks=False, ignore_dangling_symlinks=True,
                    ignore=shutil.ignore_patterns(*_LEFT_OUT, "lib-dynload"))  # fmt: skip
    platform_folder = stage / sys.platlibdir / library
    extensions = platform_folder / "lib-dynload"
    _copy_extensions(extensions)
    _copy_pytest(stage / "lib" / "pytest_pure", stdlib)
    _copy_machine_code(python, extensions, stage)
    binaries = stage / "bin"
    for name in ("python", library):
        (binaries / name).symlink_to("python3")
    script = f"#!{RUNNER_ROOT}/bin/python3\nimport runpy\n\nrunpy.run_module('pytest', run_name='__main__')\n"
    for name in ("pytest", "py.test"):
        (binaries / name).write_text(script)
        (binaries / name).chmod(0o755)


def _copy_extensions(target: Path) -> None:
    """``lib-dynload``: in the standard library's folder or, on some distributions, in one of their own."""
    folders = [Path(sysconfig.get_path(name)) / "lib-dynload" for name in ("platstdlib", "stdlib")]
    for source in (*folders, Path(sysconfig.get_config_var("DESTSHARED") or "")):
        if source.is_dir() and source.name == "lib-dynload":
            shutil.copytree(source, target, symlinks=False, ignore=shutil.ignore_patterns(*_LEFT_OUT))
            return
    target.mkdir(parents=True)  # an interpreter with every extension built in


def _copy_pytest(pure: Path, stdlib: Path) -> None:
    pure.mkdir(parents=True)

    def skip(folder: str, names: list[str]) -> set[str]:
        left_out = {name for name in names if name == "__pycache__" or name.endswith((".so", ".pyi"))}
        if folder.endswith("pygments/lexers"):
            left_out |= set(names) - _LEXERS
        return left_out

    for name in _PURE:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise PlatformError(f"the runner needs {name}, which is not installed: install hc-ray's dependencies again")
        origin = Path(spec.origin)
        member = name if origin.name == "__init__.py" else origin.name
        if member == name:
            shutil.copytree(origin.parent, pure / member, ignore=skip)
        else:
            shutil.copyfile(origin, pure / member)
        # A link beside the standard library: found under -I, -S and any PYTHONPATH.
        (stdlib / member).symlink_to(f"../pytest_pure/{member}")
    for name in _DISTRIBUTIONS:
        version = importlib.metadata.version(name)
        folder = f"{name}-{version}.dist-info"  # pluggy and plugins ask for versions by name
        (pure / folder).mkdir()
        (pure / folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (stdlib / folder).symlink_to(f"../pytest_pure/{folder}")


def _copy_machine_code(python: Path, extensions: Path, stage: Path) -> None:
    """The interpreter, its loader and every library that it or an extension needs, made to find one another."""
    loader = ElfFile(python.read_bytes()).interpreter
    if loader is None or "ld-linux" not in loader:
        raise PlatformError(f"{python} is not linked against glibc ({loader}): use hc-ray with a glibc Python")
    libraries = stage / "lib"
    needed: dict[str, Path] = {}
    for binary in (python, *sorted(extensions.glob("*.so"))):
        needed |= _needed_libraries(loader, binary)
    libc = needed.get("libc.so.6")
    if libc is not None:
        needed |= {name: libc.parent / name for name in _BESIDE_LIBC if (libc.parent / name).is_file()}
    for name, source in needed.items():
        elf = ElfFile(source.read_bytes())
        elf.forget_search_paths()
        (libraries / name).write_bytes(elf.data)
        (libraries / name).chmod(0o755)
    for extension in extensions.glob("*.so"):
        elf = ElfFile(extension.read_bytes())
        elf.forget_search_paths()
        extension.write_bytes(elf.data)
    (stage / "ld.so").write_bytes(_deaf(Path(loader).resolve().read_bytes()))
    (stage / "ld.so").chmod(0o755)
    elf = ElfFile(python.read_bytes())
    try:
        elf.set_loader(f"{RUNNER_ROOT}/ld.so", f"{RUNNER_ROOT}/lib")
    except ValueError as error:
        raise PlatformError(f"{python} cannot be made relocatable: {error}") from error
    (stage / "bin").mkdir()
    (stage / "bin" / "python3").write_bytes(elf.data)
    (stage / "bin" / "python3").chmod(0o755)


def _deaf(loader: bytes) -> bytes:
    """The loader, made to look for libraries to preload, and for the cache of libraries, where nobody can put any: an
    image's own ``/etc/ld.so.preload`` may be a candidate's, and the runner must not start with it. A loader that names
    neither file (another libc's) is left as it is."""
    for name in (b"/etc/ld.so.preload\0", b"/etc/ld.so.cache\0"):
        loader = loader.replace(name, b"/proc/0/".ljust(len(name) - 1, b"-") + b"\0")
    return loader


def _needed_libraries(loader: str, binary: Path) -> dict[str, Path]:
    """Name → file of all libraries that the loader would map for a binary."""
    listed = subprocess.run([loader, "--list", str(binary)], capture_output=True, text=True, check=False, timeout=60)
    found = {}
    for line in listed.stdout.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        path = rest.rsplit(" (", 1)[0]
        if arrow and path.startswith("/") and "/" not in name and not name.startswith("ld-linux"):
            found[name] = Path(path).resolve()
    return found


def _write_inside(stage: Path) -> None:
    folder = stage / "lib" / "hc"
    folder.mkdir()
    for name, source in inside_modules().items():
        (folder / f"hc_{name}.py").write_bytes(source)


def _byte_compile(stage: Path) -> None:
    folder = stage / "lib"
    command = [sys.executable, "-I", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash",
               "-s", str(stage), "-p", RUNNER_ROOT, str(folder)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if not any((folder / "hc").rglob("*.pyc")):
        raise PlatformError(f"the runner could not be byte-compiled: {(done.stdout + done.stderr).strip()[:500]}")


if __name__ == "__main__":
    print(ensure_runner())
