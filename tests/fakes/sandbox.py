"""A sandbox place without processes: files in a dictionary, and a function that plays what commands do.

``FakePlace(on_exec)`` is given ``(sandbox, command, options)`` and answers what a command that ended well printed. It
may change ``sandbox.files``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.filetree import Member, absolute, is_outside, pack, unpack
from hc_ray.domain.ports import Difference, ExecResult
from hc_ray.domain.task import Task

OnExec = Callable[["FakeSandbox", tuple[str, ...], dict[str, Any]], bytes | None]


class FakeSandbox:
    """``ports.Sandbox`` over a dictionary of absolute path → content. ``modes`` holds what is not 0o644."""

    def __init__(self, place: "FakePlace", name: str, task: Task, image: Mapping[str, bytes]) -> None:
        self.place, self.name, self.task = place, name, task
        self.image = dict(image)
        self.files = dict(image)
        self.modes: dict[str, int] = {}
        self.closed = False

    @property
    def workdir(self) -> str:
        return self.task.environment.workdir

    def _check(self) -> None:
        if self.closed:
            raise SandboxError("the sandbox is closed")

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
        self._check()
        options = {"timeout": timeout, "cwd": cwd or self.workdir, "env": dict(env or {}), "stdin": stdin}
        said = self.place.on_exec(self, tuple(command), options)
        return ExecResult(exit_code=0, stdout=said or b"", stderr=b"")

    async def put(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        self._check()
        for path, data in files.items():
            self._write(Member(absolute(path, self.workdir), "file", mode, data=data))

    def _write(self, member: Member) -> None:
        if member.kind == "file":
            self.files[member.path] = member.data
            self.modes[member.path] = member.mode

    async def put_tar(self, tar: bytes) -> None:
        self._check()
        change = unpack(tar)
        for path in change.deleted:
            for name in [name for name in self.files if name == path or name.startswith(f"{path}/")]:
                del self.files[name]
        for member in change.members:
            self._write(member)

    async def get(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        self._check()
        found = self.files.get(absolute(path, self.workdir))
        return None if found is None else found[:limit]

    async def difference(self, *, limit: int = 64 << 20) -> Difference:
        self._check()
        changed = [
            Member(path, "file", self.modes.get(path, 0o644), data=data)
            for path, data in self.files.items()
            if self.image.get(path) != data and not is_outside(path)
        ]
        return pack(changed, [path for path in self.image if path not in self.files and not is_outside(path)])

    async def fork(self, name: str) -> "FakeSandbox":
        self._check()
        child = FakeSandbox(self.place, name, self.task, self.image)
        child.files, child.modes = dict(self.files), dict(self.modes)
        self.place.sandboxes.append(child)
        return child

    async def close(self) -> None:
        self.closed = True


class FakePlace:
    """``ports.SandboxPlace`` that keeps every sandbox it made in ``sandboxes``, in order."""

    def __init__(self, on_exec: OnExec | None = None, *, image: Mapping[str, bytes] | None = None) -> None:
        """``image``: the files of every new sandbox."""
        self.on_exec: OnExec = on_exec or (lambda sandbox, command, options: None)
        self.image = dict(image or {})
        self.sandboxes: list[FakeSandbox] = []

    async def create(self, task: Task, name: str, *, network: bool = False) -> FakeSandbox:
        sandbox = FakeSandbox(self, name, task, self.image)
        self.sandboxes.append(sandbox)
        return sandbox

    async def prepare(self, task: Task) -> None:
        """Nothing to prepare."""

    def refuses(self, task: Task) -> str | None:
        return None

    def limits(self) -> Mapping[str, str]:
        return dict.fromkeys(("memory", "disk", "pids", "network", "cpu"), "fake")

    async def close(self) -> None:
        for sandbox in self.sandboxes:
            await sandbox.close()
