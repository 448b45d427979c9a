"""The sandboxes of one node behind one actor, and the proxies through which trials use them."""

import asyncio
import io
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hc_ray.errors import PlatformError, SandboxError
from hc_ray.home import data_root
from hc_ray.ports import Difference, ExecResult, Sandbox, SandboxPlace
from hc_ray.task import Task
from hc_ray.value import Value


class Choice(Value):
    """Which backend is used, and why."""

    backend: str
    why: str


def choose(wanted: str) -> Choice:
    """``auto``: Docker if its socket answers, else bubblewrap, each tried with a real probe; nothing falls back in
    silence. Raises ``PlatformError`` with the remedy when what was asked for does not work here."""
    from hc_ray.adapters import bwrap_sandbox, docker_sandbox

    if wanted in {"auto", "docker"}:
        fault = docker_sandbox.probe()
        if fault is None:
            return Choice(backend="docker", why="Docker answers" if wanted == "auto" else "asked for")
        if wanted == "docker":
            raise PlatformError(f"Docker was asked for, and does not work here: {fault}")
        docker_fault = fault
    fault = bwrap_sandbox.probe()
    if fault is None:
        why = "asked for" if wanted == "bwrap" else f"no Docker ({docker_fault.splitlines()[0]}); bubblewrap works"
        return Choice(backend="bwrap", why=why)
    raise PlatformError(f"bubblewrap does not work here: {fault}")


def open_place(backend: str, public_root: Path, *, label: str) -> SandboxPlace:
    """The backend's place on this node, owned by this process; what dead owners left is reaped first. ``label`` keeps
    solvers' and verifiers' sandboxes apart."""
    from hc_ray.owner import current_owner

    owner = f"{current_owner()}-{label}"
    if backend == "docker":
        from hc_ray.adapters.docker_reap import reap
        from hc_ray.adapters.docker_sandbox import DockerPlace

        reap([])
        return DockerPlace(public_root, owner=owner)
    from hc_ray.adapters.bwrap_sandbox import BwrapPlace

    return BwrapPlace(public_root, data_root() / "sandboxes" / label, owner=owner)


def pack_public(public_root: Path, digest: str) -> bytes:
    """A task's public folder as a tar, to be shipped to a node."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(public_root / digest, arcname=digest)
    return buffer.getvalue()


class Sandboxes:
    """One a node. It limits how many sandboxes are busy at once, so that an engine on the same node keeps its cores."""

    def __init__(self, backend: str, public_root: str | None, slots: int | None) -> None:
        self._public = Path(public_root) if public_root else data_root() / "public"
        self._place = open_place(backend, self._public, label="solve")
        cores = os.cpu_count() or 2
        self._slots = asyncio.Semaphore(slots or max(1, cores - 1))
        self._open: dict[str, Sandbox] = {}
        self._count = 0

    async def missing(self, digests: Sequence[str]) -> list[str]:
        """Which public tasks this node still has to be given."""
        return [digest for digest in digests if not (self._public / digest / "task.json").is_file()]

    async def install(self, tar: bytes) -> None:
        """Unpack a public task."""
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            archive.extractall(self._public, filter="tar")

    async def limits(self) -> dict[str, str]:
        return dict(self._place.limits())

    def _keep(self, sandbox: Sandbox) -> tuple[str, str]:
        self._count += 1
        handle = f"s{self._count}"
        self._open[handle] = sandbox
        return handle, sandbox.workdir

    async def create(self, task: Task, name: str, network: bool) -> tuple[str, str]:
        return self._keep(await self._place.create(task, name, network=network))

    async def fork(self, handle: str, name: str) -> tuple[str, str]:
        return self._keep(await self._find(handle).fork(name))

    async def exec(self, handle: str, command: Sequence[str], options: Mapping[str, Any]) -> ExecResult:
        async with self._slots:
            return await self._find(handle).exec(command, **options)

    async def put(self, handle: str, files: Mapping[str, bytes], mode: int) -> None:
        await self._find(handle).put(files, mode=mode)

    async def put_tar(self, handle: str, tar: bytes) -> None:
        await self._find(handle).put_tar(tar)

    async def get(self, handle: str, path: str, limit: int) -> bytes | None:
        return await self._find(handle).get(path, limit=limit)

    async def difference(self, handle: str, limit: int) -> Difference:
        return await self._find(handle).difference(limit=limit)

    async def close(self, handle: str) -> None:
        if sandbox := self._open.pop(handle, None):
            await sandbox.close()

    async def close_all(self) -> None:
        self._open.clear()
        await self._place.close()

    def _find(self, handle: str) -> Sandbox:
        try:
            return self._open[handle]
        except KeyError:
            raise SandboxError(f"sandbox {handle} is not open") from None


class RemotePlace:
    """``ports.SandboxPlace`` over ``Sandboxes`` actors: a sandbox goes to the node with the fewest, ties in node
    order."""

    def __init__(self, actors: Sequence[Any], limits: Mapping[str, str]) -> None:
        self._actors = list(actors)
        self._load = [0] * len(self._actors)
        self._limits = dict(limits)

    async def create(self, task: Task, name: str, *, network: bool = False) -> Sandbox:
        chosen = self._load.index(min(self._load))
        self._load[chosen] += 1
        try:
            handle, workdir = await self._actors[chosen].create(task, name, network)
        except BaseException:
            self._load[chosen] -= 1
            raise
        return RemoteSandbox(self, chosen, handle, workdir)

    def refuses(self, task: Task) -> str | None:
        # The plan has refused what the backend cannot take before any trial starts.
        return None

    def limits(self) -> Mapping[str, str]:
        return self._limits

    async def close(self) -> None:
        for actor in self._actors:
            await actor.close_all()

    def actor(self, index: int) -> Any:
        return self._actors[index]

    def count(self, index: int, change: int) -> None:
        self._load[index] += change


class RemoteSandbox:
    """``ports.Sandbox`` over an actor call each."""

    def __init__(self, place: RemotePlace, index: int, handle: str, workdir: str) -> None:
        self._place, self._index, self._handle, self._workdir = place, index, handle, workdir
        self._actor = place.actor(index)
        self._closed = False

    @property
    def workdir(self) -> str:
        return self._workdir

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
        options = {"timeout": timeout, "cwd": cwd, "env": env, "stdin": stdin, "output_limit": output_limit}
        result: ExecResult = await self._actor.exec(self._handle, list(command), options)
        return result

    async def put(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        await self._actor.put(self._handle, dict(files), mode)

    async def put_tar(self, tar: bytes) -> None:
        await self._actor.put_tar(self._handle, tar)

    async def get(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        found: bytes | None = await self._actor.get(self._handle, path, limit)
        return found

    async def difference(self, *, limit: int = 64 << 20) -> Difference:
        found: Difference = await self._actor.difference(self._handle, limit)
        return found

    async def fork(self, name: str) -> Sandbox:
        handle, workdir = await self._actor.fork(self._handle, name)
        self._place.count(self._index, 1)
        return RemoteSandbox(self._place, self._index, handle, workdir)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._place.count(self._index, -1)
            await self._actor.close(self._handle)
