"""A sandbox place in memory: files are a dict, and what commands print, the runner's answers too, is scripted."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.filetree import pack, unpack
from hc_ray.domain.ports import Difference, ExecResult
from hc_ray.domain.task import Task

Answer = Callable[["MemorySandbox", dict[str, Any]], dict[str, Any] | None]
Says = Callable[["MemorySandbox", list[str]], bytes]


class MemorySandbox:
    """Remembers what was put and done, in order."""

    workdir = "/app"

    def __init__(self, name: str, network: bool, answer: Answer, says: Says) -> None:
        self.name, self.network, self._answer, self._says = name, network, answer, says
        self.files: dict[str, bytes] = {}
        self.executable: set[str] = set()
        self.orders: list[dict[str, Any]] = []
        self.tars: list[bytes] = []
        self.done: list[str] = []
        self.closed = False

    async def exec(self, command: Sequence[str], *, stdin: bytes = b"", **options: Any) -> ExecResult:
        if not command[-1].endswith(("hc_grade.py", "hc_probe.py")):
            self.done.append("exec")
            return ExecResult(exit_code=0, stdout=self._says(self, list(command)), stderr=b"")
        order = json.loads(stdin)
        self.orders.append(order)
        self.done.append("run" if "command" in order else "probe")
        answer = self._answer(self, order)
        if answer is None:
            return ExecResult(exit_code=None, stdout=b"noise\n", stderr=b"")
        line = f"{order['nonce']} {json.dumps(answer)}\n".encode()
        return ExecResult(exit_code=0, stdout=b"noise\n" + line, stderr=b"")

    async def put(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        self.done.append("put")
        self.files |= files
        if mode & 0o100:
            self.executable |= set(files)

    async def put_tar(self, tar: bytes) -> None:
        self.done.append("put_tar")
        self.tars.append(tar)
        for member in unpack(tar).members:
            self.files[member.path] = member.data
            if member.mode & 0o100:
                self.executable.add(member.path)

    async def get(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return self.files.get(path)

    async def difference(self, *, limit: int = 64 << 20) -> Difference:
        return pack(())

    async def fork(self, name: str) -> "MemorySandbox":
        raise NotImplementedError

    async def close(self) -> None:
        self.closed = True


class PlainPlace:
    """What places of fake sandboxes have in common: they take every task, and close what they ``made``."""

    made: list[Any]

    async def prepare(self, task: Task) -> None:
        """Nothing to prepare."""

    def refuses(self, task: Task) -> str | None:
        return None

    def limits(self) -> Mapping[str, str]:
        return {}

    async def close(self) -> None:
        for sandbox in self.made:
            await sandbox.close()


class MemoryPlace(PlainPlace):
    """Makes ``MemorySandbox``es; ``broken`` makes it fail as a daemon does that is down."""

    def __init__(self, answer: Answer = lambda sandbox, order: None, *, says: Says = lambda sandbox, command: b"",
                 broken: bool = False) -> None:  # fmt: skip
        self._answer, self._says, self._broken = answer, says, broken
        self.made: list[MemorySandbox] = []

    async def create(self, task: Task, name: str, *, network: bool = False) -> MemorySandbox:
        if self._broken:
            raise SandboxError("the daemon is down")
        sandbox = MemorySandbox(name, network, self._answer, self._says)
        self.made.append(sandbox)
        return sandbox
