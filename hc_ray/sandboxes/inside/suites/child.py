"""What every self-test needs of the system: a child process under limits, and a workdir that is put back after it.
Standard library only; it runs under the runner's Python inside a sandbox."""
# Started for every suite: what is slow to import (tempfile, hashlib) is left out, or imported where it is needed.

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import stat
import subprocess
from pathlib import Path

MYPY = False
if MYPY:
    from collections.abc import Sequence
    from typing import IO

CUT = 2000
CPU_SECONDS = 2
MEMORY = 2 << 30
WRITES = 64 << 20
ANSWER = 1 << 20
"""Bytes of an answer that are read."""

Run = tuple[int | None, bytes, bytes]
"""Exit code (None past the deadline), standard output, the beginning of standard error."""


class Workdir:
    """The workdir and its private copy; ``restore`` undoes what a test changed."""

    def __init__(self, path: str, scratch: Path) -> None:
        self.path, self.copy = Path(path), scratch / "pristine"
        shutil.copytree(self.path, self.copy, symlinks=True, ignore_dangling_symlinks=True, ignore=self._special)
        self.stamps = self._stamps()

    @staticmethod
    def _special(folder: str, names: list[str]) -> list[str]:
        modes = ((name, (Path(folder) / name).lstat().st_mode) for name in names)
        usual = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
        return [name for name, mode in modes if not any(is_a(mode) for is_a in usual) or _closed(Path(folder) / name)]

    def _stamps(self) -> dict[str, tuple[int, ...]]:
        """Path → what tells a changed entry; the change time cannot be set back by a test."""
        stamps: dict[str, tuple[int, ...]] = {}
        for folder, names, files in os.walk(self.path):
            for name in (*names, *files):
                path = Path(folder) / name
                info = path.lstat()
                changed = 0 if stat.S_ISDIR(info.st_mode) else info.st_ctime_ns
                size = info.st_size if changed else 0
                stamps[str(path)] = (info.st_ino, info.st_mode, size, changed, info.st_uid, info.st_gid)
        return stamps

    def changes(self) -> str:
        """What a run changed, for an observation: paths with a digest of what they hold now."""
        import hashlib

        before, now = self.stamps, self._stamps()
        told = []
        for path in sorted({*before, *now}):
            if before.get(path) == now.get(path):
                continue
            name = os.path.relpath(path, self.path)
            if "__pycache__" in name or name.endswith(".pyc"):
                continue
            place = Path(path)
            if path not in now:
                told.append(f"-{name}")
            elif place.is_file() and not place.is_symlink():
                with place.open("rb") as file:
                    told.append(f"{name} {hashlib.sha256(file.read(8 << 20)).hexdigest()[:8]}")
            elif path not in before:
                told.append(f"{name}/" if place.is_dir() else name)
        return ", ".join(told[:20])

    def restore(self) -> None:
        """Put back what a test changed; nothing is copied where nothing changed."""
        if self._stamps() == self.stamps:
            return
        for path in list(self.path.iterdir()):
            if not _closed(path):
                _remove(path)
        shutil.copytree(self.copy, self.path, symlinks=True, dirs_exist_ok=True)
        self._give_back()
        self.stamps = self._stamps()

    def _give_back(self) -> None:
        """Owners, which a copy does not keep. A user who may not give files away had none of others."""
        for path, (_, mode, *_, uid, gid) in self.stamps.items():
            with contextlib.suppress(OSError):
                info = os.lstat(path)
                if (info.st_uid, info.st_gid) == (uid, gid):
                    continue
                os.chown(path, uid, gid, follow_symlinks=False)
                if not stat.S_ISLNK(info.st_mode):  # which takes the right to run as the owner away
                    os.chmod(path, stat.S_IMODE(mode))


class Outside:
    """Single files elsewhere, there or not, and private copies of them."""

    def __init__(self, paths: Sequence[str], scratch: Path) -> None:
        self.copies = {Path(path): scratch / f"outside-{number}" for number, path in enumerate(paths)}
        self.stamps: dict[Path, tuple[int, ...]] = {}
        for path, copy in list(self.copies.items()):
            found = self.stamps[path] = _stamp(path)
            if found and not (stat.S_ISREG(found[1]) and found[2] <= WRITES and _copied(path, copy)):
                del self.copies[path]

    def restore(self) -> None:
        for path, copy in self.copies.items():
            if _stamp(path) != self.stamps[path]:
                with contextlib.suppress(OSError):
                    _remove(path)
                    if self.stamps[path]:
                        path.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy2(copy, path)
                        os.chown(path, *self.stamps[path][-2:])
                self.stamps[path] = _stamp(path)


def _stamp(path: Path) -> tuple[int, ...]:
    """What tells a changed file; empty where nothing is."""
    try:
        info = path.lstat()
    except OSError:
        return ()
    return info.st_ino, info.st_mode, info.st_size, info.st_ctime_ns, info.st_uid, info.st_gid


def _copied(path: Path, copy: Path) -> bool:
    with contextlib.suppress(OSError):
        return bool(shutil.copy2(path, copy))
    return False


def _closed(path: Path) -> bool:
    """Whether this user may not read it: nothing could put it back."""
    return not path.is_symlink() and not os.access(path, os.R_OK)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def nameless(folder: Path) -> IO[bytes]:
    """A file without a name on the file system of a folder."""
    try:
        file = os.open(folder, os.O_TMPFILE | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:  # a file system that has no such files
        import tempfile

        return tempfile.TemporaryFile(dir=folder)
    return os.fdopen(file, "w+b")


def environment(scratch: Path) -> dict[str, str]:
    """What a child sees: the sandbox's own variables without those of the runner's Python."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "LD_"))}
    env.update(PYTHONDONTWRITEBYTECODE="1", PYTHONHASHSEED="0", TMPDIR=str(scratch))
    env.setdefault("LC_ALL", "C.UTF-8")
    return env


def run(
    command: Sequence[str], *, cwd: Path, scratch: Path, timeout: float, stdin: bytes = b"", cpu: int = CPU_SECONDS
) -> Run:  # fmt: skip
    """Run a command to its end, in a session of its own and under limits; the whole session is killed then."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        most = WRITES if hard == resource.RLIM_INFINITY else min(WRITES, hard)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with nameless(scratch) as out, nameless(scratch) as err:
        process = subprocess.Popen(
            command, cwd=cwd, env=environment(scratch), stdin=subprocess.PIPE, stdout=out, stderr=err,
            start_new_session=True, preexec_fn=limit,
        )  # fmt: skip
        try:
            process.communicate(stdin, timeout=timeout)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            code = None
        out.seek(0)
        err.seek(0)
        return code, out.read(1 << 20), err.read(CUT)
