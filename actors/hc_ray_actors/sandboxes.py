"""The sandboxes of one node behind one actor."""

import asyncio
import contextlib
import io
import socket
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path
from typing import Any

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.fork_steps import Exec, ForkStep
from hc_ray.domain.ports import HandsOver, Sandbox
from hc_ray.domain.task import Task
from hc_ray.machine.whole_files import lay
from hc_ray.tasks.public_folder import is_here
from hc_ray_actors.cluster import SANDBOX, laptop_slots
from hc_ray_actors.node_probe import SandboxActor
from hc_ray_actors.remote_place import Forked


def pack(root: Path, digest: str) -> bytes:
    """A task's folder below a root as a tar, to send to a node."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(root / digest, arcname=digest)
    return buffer.getvalue()


def unpack(tar: bytes, place: Path, *, anew: bool = False) -> None:
    """Extract the single folder of a tar to ``place``, atomically; ``anew`` replaces what is there. Raises
    ``SandboxError`` if it cannot be written."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".arriving-", dir=place.parent) as scratch:
            with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
                # Python before 3.11.4 has no filters, and we made this tar ourselves.
                archive.extraction_filter = getattr(tarfile, "tar_filter", lambda member, _: member)
                archive.extractall(scratch)
            lay(Path(scratch, place.name), place, anew=anew)
    except OSError as fault:
        raise SandboxError(f"{socket.gethostname()} cannot store task {place.name[:12]}: {fault}") from None


class Sandboxes(SandboxActor):
    """One per node. Limits the number of busy sandboxes, so that an engine on the same node keeps its cores."""

    needs_keys = False
    """Its process drops secrets from its environment (``ray_cluster``), so that nothing that it starts inherits one."""

    label = "solve"

    def __init__(self, backend: str, public_root: str | None, slots: int | None) -> None:
        super().__init__(backend, public_root, int(slots or laptop_slots()[SANDBOX]))
        self._open: dict[str, Sandbox] = {}
        self._making: dict[str, asyncio.Event] = {}
        self._waiting: set[str] = set()
        """Sandboxes with a command that waits for a slot."""

    async def missing(self, digests: Sequence[str]) -> list[str]:
        """The public tasks that this node lacks."""
        return [digest for digest in digests if not is_here(self._public, digest)]

    async def install(self, digest: str, tar: bytes) -> None:
        """Unpack a public task."""
        await asyncio.to_thread(unpack, tar, self._public / digest)

    async def limits(self) -> dict[str, str]:
        return dict(self._place.limits())

    async def clear(self, living: Sequence[str]) -> None:
        """Close the sandboxes of dead trial processes: all except those with the given names."""
        left = [handle for handle in (*self._open, *self._making) if handle.partition("-")[0] not in living]
        await asyncio.gather(*(self.close(handle) for handle in left), return_exceptions=True)

    async def create(self, handle: str, task: Task, name: str, network: bool) -> str:
        """Make a sandbox under ``handle`` and return its workdir. The caller chooses the handle, so that it can close a
        sandbox that it gave up before it existed."""
        return await self._keep(handle, self._place.create(task, name, network=network))

    async def fork(self, handle: str, parent: str, name: str) -> str:
        return await self._keep(handle, self._find(parent).fork(name))

    async def in_fork(self, handle: str, parent: str, name: str, steps: Sequence[ForkStep[Any]]) -> Forked:
        """Run steps in a fork, which is closed after the last one, or when the caller closes ``handle``."""
        began, answer, waited = time.monotonic(), None, 0.0
        await self.fork(handle, parent, name)
        try:
            for step in steps:
                asked = time.monotonic()
                async with self._slot(handle) if isinstance(step, Exec) else contextlib.nullcontext():
                    waited += time.monotonic() - asked
                    answer = await step.on(self._find(handle))
            return Forked(answer, time.monotonic() - began - waited)
        finally:
            await asyncio.shield(self.close(handle))

    async def _keep(self, handle: str, made: Awaitable[Sandbox]) -> str:
        ready = self._making[handle] = asyncio.Event()
        try:
            sandbox = self._open[handle] = await made
            return sandbox.workdir
        finally:
            del self._making[handle]
            ready.set()

    async def call(self, handle: str, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of ``ports.Sandbox``; commands wait for a slot."""
        async with self._slot(handle) if method == "exec" else contextlib.nullcontext():
            return await getattr(self._find(handle), method)(*arguments, **options)

    @contextlib.asynccontextmanager
    async def _slot(self, handle: str) -> AsyncIterator[None]:
        """A slot for a command in a sandbox."""
        async with contextlib.AsyncExitStack() as held:
            self._waiting.add(handle)
            try:
                await held.enter_async_context(self._slots.one())
            finally:
                self._waiting.discard(handle)
            yield

    async def waits(self, handle: str) -> bool:
        """Whether a command in a sandbox waits for a slot."""
        return handle in self._waiting

    async def hand_over(self, handle: str) -> str:
        """Hand a live sandbox to this node's verifier; it can no longer be reached through this actor."""
        sandbox = self._find(handle)
        if not isinstance(sandbox, HandsOver):
            raise SandboxError(f"{self._backend} sandboxes cannot be handed to a verifier while they run")
        ticket = await sandbox.hand_over()
        del self._open[handle]
        return ticket

    async def close(self, handle: str) -> None:
        if ready := self._making.get(handle):
            await ready.wait()
        if sandbox := self._open.pop(handle, None):
            await sandbox.close()

    async def stop(self) -> None:
        self._open.clear()
        await self._place.close()

    def _find(self, handle: str) -> Sandbox:
        try:
            return self._open[handle]
        except KeyError:
            raise SandboxError(f"sandbox {handle} is not open") from None
