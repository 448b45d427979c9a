"""A sandbox that is a folder: real commands, no isolation, for tests of what runs inside a sandbox. Paths of the runner
and of /tmp/hc are mapped to this checkout and to the folder, and so is a terminal's place."""

import asyncio
import atexit
import contextlib
import functools
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hc_ray.domain.ports import Difference, ExecResult
from hc_ray.domain.runner_paths import RUNNER_LIB, RUNNER_PYTHON, inside_script
from hc_ray.domain.task import Task
from hc_ray.sandboxes.inside import look, shell
from hc_ray.sandboxes.inside.suites import driver, serve
from hc_ray.sandboxes.runner_build import inside_modules
from tests.fakes.grading import PlainPlace
from tests.fakes.tars import make_tar

IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where the many small folders are made: on a disk they take a third of the processor time of tests that use them."""


@functools.cache
def _installed() -> Path:
    """What the runner's folder holds: each module of ``inside`` as ``hc_<name>.py``; removed with this process."""
    folder = Path(tempfile.mkdtemp(prefix="hc-inside-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, source in inside_modules().items():
        (folder / f"hc_{name}.py").write_bytes(source)
    return folder


class _HereDriver(driver.Driver):
    """Loads candidates in this process: no limits, no time to start an interpreter a test."""

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        kept = list(sys.path)
        try:
            run = {"call": serve.run_call, "compiles": serve.run_compiles}[job["kind"]]
            return run(job)
        finally:
            sys.path[:] = kept
            sys.modules.pop(Path(job["path"]).stem, None)

    def bury(self) -> None:
        """What hangs on this process is not the tests' own."""

    def _check(self, test: dict[str, Any], path: Path) -> driver.Result:
        kept, known = list(sys.path), set(sys.modules)
        sys.path.insert(0, str(self.workdir))
        try:
            with contextlib.chdir(self.workdir), contextlib.redirect_stdout(io.StringIO()):
                made: dict[str, Any] = {}
                exec(test["input"], made)
                made[test["subject"]["function"]]()
            return driver.cell("pass", "pass")
        except (Exception, SystemExit) as error:
            outcome = "fail" if isinstance(error, AssertionError) else "error"
            said = f"{type(error).__name__}: {(*error.args, '')[0]}"  # never a path of this machine
            return driver.cell(outcome, f"fail: {said}", said)
        finally:
            sys.path[:] = kept
            for name in set(sys.modules) - known:
                sys.modules.pop(name)


_REPORTS: dict[tuple[str, ...], bytes] = {}


def _drive_here(plan_path: str) -> bytes:
    """The report of a suite, without pytest and without a process. As in a process of its own, nothing that is loaded
    leaves byte code behind, which would have to be put back after every test. What is the same, file by file, is
    reported the same: the candidates of tests draw nothing by lot."""
    plan = json.loads(Path(plan_path).read_text())
    work = Path(plan["workdir"])
    files = sorted((str(path.relative_to(work)), path.read_bytes().hex()) for path in work.rglob("*") if path.is_file())
    key = (json.dumps({**plan, "workdir": ""}), *itertools.chain(*files))
    if key not in _REPORTS:
        with tempfile.TemporaryDirectory(dir=IN_MEMORY) as scratch, patch.object(sys, "dont_write_bytecode", True):
            report = io.StringIO()
            driver.run(plan, _HereDriver(plan, Path(scratch)), report)
        _REPORTS[key] = report.getvalue().encode()
    return _REPORTS[key]


class FolderSandbox:
    def __init__(self, place: "FolderPlace", root: Path, name: str, image: dict[str, bytes]) -> None:
        self.place, self.root, self.name, self.image = place, root, name, image
        self.closed = False
        (root / "app").mkdir(parents=True, exist_ok=True)

    @property
    def workdir(self) -> str:
        return str(self.root / "app")

    def _real(self, path: str) -> Path:
        if path.startswith(self.workdir):
            return Path(path)
        return self.root / path.lstrip("/") if path.startswith("/") else self.root / "app" / path

    def _argument(self, text: str) -> str:
        if text == RUNNER_PYTHON[0]:
            return sys.executable
        if text.startswith(RUNNER_LIB + "/"):
            return str(_installed() / Path(text).name)
        return str(self._real(text)) if text.startswith("/tmp/hc") else text

    async def exec(
        self, command: Sequence[str], *, timeout: float, cwd: str | None = None, env: Mapping[str, str] | None = None,
        stdin: bytes = b"", output_limit: int = 1 << 20,
    ) -> ExecResult:  # fmt: skip
        self.place.commands.append((self.name, tuple(command)))
        if self.place.hangs(self.name):
            await asyncio.sleep(3600)
        if self.place.quick and inside_script("driver") in command:
            return ExecResult(exit_code=0, stdout=_drive_here(self._argument(command[-1])), stderr=b"")
        if self.place.quick and inside_script("look") in command:
            seen = {"tools": {}, "files": look.files(Path(command[-1]))}
            return ExecResult(exit_code=0, stdout=json.dumps(seen).encode(), stderr=b"")
        if inside_script("shell") in command:
            order = json.loads(stdin)
            order |= {"place": str(self.root / order["place"].lstrip("/"))}
            if self.place.quick:
                told = await asyncio.to_thread(shell.step, order)
                return ExecResult(exit_code=0, stdout=json.dumps(told).encode(), stderr=b"")
            stdin = json.dumps(order).encode()
        # The interpreter itself comes first: a version manager's shim would cost every test a shell.
        path = f"{sys.base_prefix}/bin:{os.environ['PATH']}"
        try:
            done = await asyncio.to_thread(
                subprocess.run, [self._argument(part) for part in command], cwd=cwd or self.workdir, input=stdin,
                capture_output=True, timeout=timeout, env={**os.environ, "PATH": path, **(env or {})},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return ExecResult(exit_code=None, stdout=b"", stderr=b"", timed_out=True)
        return ExecResult(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    async def put(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        for path, data in files.items():
            real = self._real(path)
            real.parent.mkdir(parents=True, exist_ok=True)
            if path.startswith("/tmp/hc") and path.endswith(".json"):
                plan = json.loads(data)
                data = json.dumps({**plan, "workdir": self.workdir}).encode()
            real.write_bytes(data)
            real.chmod(mode)

    async def put_tar(self, tar: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            archive.extractall(self.root, filter="data")

    async def get(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        real = self._real(path)
        return real.read_bytes()[:limit] if real.is_file() else None

    def _files(self) -> dict[str, bytes]:
        paths = (path for path in (self.root / "app").rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in paths}

    async def difference(self, *, limit: int = 64 << 20) -> Difference:
        now = self._files()
        changed = sorted(path for path, data in now.items() if self.image.get(path) != data)
        deleted = sorted("/" + path for path in self.image if path not in now)
        tar = make_tar({path: now[path] for path in changed}, deleted=deleted, mode=0o644)
        return Difference(changed=tuple("/" + path for path in changed), deleted=tuple(deleted), tar=tar)

    async def fork(self, name: str) -> "FolderSandbox":
        root = self.place.folder()
        shutil.copytree(self.root / "app", root / "app", symlinks=True)
        return self.place.keep(FolderSandbox(self.place, root, name, self.image))

    async def close(self) -> None:
        self.closed = True
        shutil.rmtree(self.root, ignore_errors=True)


class FolderPlace(PlainPlace):
    """Makes ``FolderSandbox``es whose image is ``files`` (path below the workdir → text)."""

    def __init__(self, files: Mapping[str, str] | None = None, *, quick: bool = False) -> None:
        """``quick`` drives suites and starts shells in this process: for tests of what is decided on cells and on
        observations, not of how they come."""
        self.quick = quick
        self.hangs: Callable[[str], bool] = lambda name: False
        """The sandboxes, by name, in which no command ends."""
        self.files = dict(files or {})
        self.made: list[FolderSandbox] = []
        self.commands: list[tuple[str, tuple[str, ...]]] = []

    def folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="hc-folder-", dir=IN_MEMORY))

    def keep(self, sandbox: FolderSandbox) -> FolderSandbox:
        self.made.append(sandbox)
        return sandbox

    async def create(self, task: Task, name: str, *, network: bool = False) -> FolderSandbox:
        image = {f"app/{path}": text.encode() for path, text in self.files.items()}
        sandbox = self.keep(FolderSandbox(self, self.folder(), name, image))
        await sandbox.put({path: text.encode() for path, text in self.files.items()})
        return sandbox
