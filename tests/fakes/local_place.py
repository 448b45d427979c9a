"""Sandboxes that are plain folders with plain processes: no isolation at all, for code that tests themselves wrote."""

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hc_ray.errors import SandboxError
from hc_ray.ports import Difference, ExecResult, Sandbox
from hc_ray.task import Task


class LocalSandbox:
    """A temporary folder; ``exec`` runs there with the test's own rights."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hc-local-")
        self.workdir = self._folder.name
        self.closed = False

    async def exec(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        output_limit: int = 1 << 20,
    ) -> ExecResult:
        started = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *command, cwd=cwd or self.workdir, env=None if env is None else dict(env),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = await asyncio.wait_for(process.communicate(stdin), timeout)
        except TimeoutError:
            process.kill()
            await process.wait()
            return ExecResult(exit_code=None, stdout=b"", stderr=b"", timed_out=True, seconds=timeout)
        return ExecResult(
            exit_code=process.returncode, stdout=out[:output_limit], stderr=err[:output_limit],
            seconds=time.monotonic() - started,
        )  # fmt: skip

    async def put(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        for name, data in files.items():
            target = Path(self.workdir) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            target.chmod(mode)

    async def put_tar(self, tar: bytes) -> None:
        raise SandboxError("a local sandbox takes no tar")

    async def get(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        target = Path(self.workdir) / path
        return target.read_bytes()[:limit] if target.is_file() else None

    async def difference(self, *, limit: int = 64 << 20) -> Difference:
        raise SandboxError("a local sandbox knows no difference")

    async def fork(self, name: str) -> Sandbox:
        raise SandboxError("a local sandbox cannot fork")

    async def close(self) -> None:
        self.closed = True
        self._folder.cleanup()


class LocalPlace:
    """Implements ``ports.SandboxPlace`` with folders; remembers what it made."""

    def __init__(self) -> None:
        self.made: list[LocalSandbox] = []

    async def create(self, task: Task, name: str, *, network: bool = False) -> LocalSandbox:
        self.made.append(LocalSandbox())
        return self.made[-1]

    def refuses(self, task: Task) -> str | None:
        return None

    def limits(self) -> Mapping[str, str]:
        return {}

    async def close(self) -> None:
        for sandbox in self.made:
            await sandbox.close()
