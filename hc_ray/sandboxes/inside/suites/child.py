"""What every self-test needs of the system: a child process under limits, and a workdir that is put back after it.
Standard library only; it runs under the runner's Python inside a sandbox."""
# Started for every suite: what is slow to import (tempfile, hashlib) is left out, or imported where it is needed.

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

from hc_ray.sandboxes.inside.originals import Facts, facts, put_back, remove

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


class Files:
    """The workdir, and single files elsewhere, there or not, with private copies: ``restore`` undoes what a test
    changed. Folders elsewhere, and what this user may not read, are nobody's to put back."""

    def __init__(self, workdir: str, elsewhere: Sequence[str], scratch: Path) -> None:
        self.workdir, self._elsewhere, self._copies = workdir, list(elsewhere), f"{scratch}/originals"
        found = self._looked()
        self._kept = {path: was for path, was in sorted(found.items()) if self._copied(path, was)}
        self._elsewhere = [path for path in elsewhere if path in self._kept or path not in found]
        self._last = self._looked()

    def _looked(self) -> dict[str, Facts]:
        below = [f"{at}/{name}" for at, folders, files in os.walk(self.workdir) for name in (*folders, *files)]
        return {path: known for path in (*below, *self._elsewhere) if (known := facts(path))}

    def _copied(self, path: str, was: Facts) -> bool:
        """Whether what lies there can be put back; a file is copied for that."""
        kind, size, copy = was[0], was[4], self._copies + path
        if kind == "other" or (path in self._elsewhere and (kind != "file" or size > WRITES)):
            return False
        if kind != "file":
            return kind == "link" or os.access(path, os.R_OK)
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            return bool(shutil.copyfile(path, copy))
        return False

    def _changed(self, now: dict[str, Facts]) -> set[str]:
        def told(known: Facts | None) -> object:  # a folder's size and times say what comes and goes in it
            return (known[:4], known[8]) if known and known[0] == "folder" else known

        return {path for path in {*now, *self._last} if told(now.get(path)) != told(self._last.get(path))}

    def changes(self) -> str:
        """What a run changed in the workdir, for an observation: paths with a digest of what they hold now."""
        import hashlib

        now, told = self._looked(), []
        for path in sorted(self._changed(now).difference(self._elsewhere)):
            name = os.path.relpath(path, self.workdir)
            if "__pycache__" in name or name.endswith(".pyc"):
                continue
            if path not in now:
                told.append(f"-{name}")
            elif now[path][0] == "file":
                with open(path, "rb") as file:
                    told.append(f"{name} {hashlib.sha256(file.read(8 << 20)).hexdigest()[:8]}")
            elif path not in self._last:
                told.append(f"{name}/" if os.path.isdir(path) else name)
        return ", ".join(told[:20])

    def restore(self) -> None:
        """Put back what a test changed; nothing is touched where nothing changed."""
        if changed := self._changed(self._looked()):
            for path in sorted(changed.difference(self._last), reverse=True):
                with contextlib.suppress(OSError):
                    remove(path)
            for path in sorted(changed.intersection(self._kept)):
                with contextlib.suppress(OSError):
                    put_back(path, self._kept[path], self._copies + path)
            self._last = self._looked()


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
