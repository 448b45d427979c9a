"""A node's capabilities for a sweep, probed on the node, and the base class of actors that make sandboxes."""

import asyncio
import hashlib
import shutil
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import hc_ray
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.task import Task
from hc_ray.domain.value import Value
from hc_ray.machine.cleanup import reap_folders, reap_processes
from hc_ray.machine.paths import data_root
from hc_ray.sandboxes.docker.transfer import Exchange
from hc_ray.sandboxes.docker.values import ImageFacts
from hc_ray.sandboxes.runner_build import runner_digest
from hc_ray_actors.backends import Backends, open_place


class Slots:
    """A semaphore that accounts for its use."""

    def __init__(self, count: int, now: Callable[[], float] = time.monotonic) -> None:
        self.count, self._now = count, now
        self._free = asyncio.Semaphore(count)
        self._busy = self._waiting = 0
        self._settled = now()
        self._seconds = self._busy_seconds = self._queued_seconds = 0.0

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        self._settle(waiting=1)
        try:
            await self._free.acquire()
        finally:
            self._settle(waiting=-1)
        self._settle(busy=1)
        try:
            yield
        finally:
            self._settle(busy=-1)
            self._free.release()

    def account(self) -> dict[str, float]:
        """Use of the slots since the last call, with the fields of ``events.SlotUse``."""
        self._settle()
        told = {"seconds": self._seconds, "busy": self._busy_seconds, "queued": self._queued_seconds}
        self._seconds = self._busy_seconds = self._queued_seconds = 0.0
        return {name: round(spent, 3) for name, spent in told.items()}

    def _settle(self, *, busy: int = 0, waiting: int = 0) -> None:
        now = self._now()
        passed, self._settled = now - self._settled, now
        self._seconds += passed
        self._busy_seconds += passed * self._busy
        self._queued_seconds += passed * self._waiting
        self._busy += busy
        self._waiting += waiting


BUILDS = 4
"""Images that an actor prepares concurrently, so that a hung one does not block the others."""
LEAST_DISK = 64 << 20
"""Free disk space in bytes below which a node makes no sandboxes."""


class NodeReport(Value):
    """A node's report about itself."""

    hc_ray: str
    code: str
    """Digest of hc-ray's modules, since a wheel can change without a new version."""
    runner: str
    """Digest of the sandboxes' runner, which is built from the node's own Python."""
    faults: dict[str, str] = {}
    """Backend → why it does not work there."""


def report(*backends: str) -> NodeReport:
    """Report on this node, checking the named backends."""
    faults = {backend: fault for backend in backends if (fault := fault_here(backend))}
    return NodeReport(hc_ray=hc_ray.__version__, code=_code(), runner=runner_digest(), faults=faults)


def fault_here(backend: str) -> str | None:
    """Why no sandbox of a backend can be made on this node now, in one line; None if there is no known reason."""
    if fault := Backends().fault(backend):
        return fault.splitlines()[0]
    root = data_root()
    root.mkdir(parents=True, exist_ok=True)
    for place in (root, root / "sandboxes"):  # each may be on a separate disk
        if place.is_dir() and (free := shutil.disk_usage(place).free) < LEAST_DISK:
            return f"the disk with {place} is full ({free >> 20} MiB free)"
    return None


def differs(seen: NodeReport) -> str | None:
    """Why a node cannot work with this one; None if it can."""
    if seen.code == _code():
        return None
    other = seen.hc_ray if seen.hc_ray != hc_ray.__version__ else f"another build of {seen.hc_ray}"
    return f"has hc-ray {other}, the driver has {hc_ray.__version__}: install the same wheel on every node"


class NodeProbe:
    """An actor that probes its node once, before a sweep is planned, and removes what dead processes left there."""

    needs_keys = False

    async def report(self, backends: tuple[str, ...]) -> NodeReport:
        reap_processes()
        reap_folders()
        return report(*backends)


@runtime_checkable
class HasImages(Protocol):
    """A place whose sandboxes use images, and may have a network."""

    images: Exchange

    async def keep_from(self, away: Collection[str]) -> None: ...


class SandboxActor:
    """Base class of actors that make sandboxes: their node's health, images and network rules."""

    label: str
    """Separates the sandboxes of solvers, verifiers and others."""

    def __init__(self, backend: str, public_root: str | None, slots: int) -> None:
        self._backend, self._slots = backend, Slots(slots)
        self._public = Path(public_root) if public_root else data_root() / "public"
        self._builds = asyncio.Semaphore(BUILDS)

    @cached_property
    def _place(self) -> SandboxPlace:
        """Opened on first use, so that ``fault`` can report a broken backend before."""
        return open_place(self._backend, self._public, label=self.label)

    async def prepare(self, task: Task) -> None:
        """Prepare the task's image, so that no trial waits for it while holding a slot."""
        async with self._builds:
            await self._place.prepare(task)

    async def alive(self) -> bool:
        return True

    async def fault(self) -> str | None:
        """Why no sandbox can be made on this node now, in one line; None if there is no known reason."""
        return await asyncio.to_thread(fault_here, self._backend)

    async def use(self) -> dict[str, float]:
        """Use of its slots since the last call."""
        return self._slots.account()

    async def report(self) -> NodeReport:
        return await asyncio.to_thread(report)

    async def image(self, task: Task) -> ImageFacts | None:
        """The task's image, if it is here; None if the backend has no images."""
        return await self._place.images.held(task) if isinstance(self._place, HasImages) else None

    @property
    def _images(self) -> Exchange:
        """The exchange of images; only for backends for which ``image`` returns one."""
        assert isinstance(self._place, HasImages)
        return self._place.images

    async def take_image(self, task: Task, image: ImageFacts, source: Any) -> None:
        """Get an image for a task from its registry or another node's actor. Raises ``SandboxError``."""
        await self._images.take(task, image, source)

    async def begin_export(self, image: str, skip: int) -> int:
        return await self._images.begin_export(image, skip)

    async def export_part(self, number: int) -> bytes:
        return await self._images.export_part(number)

    async def keep_from(self, away: Sequence[str]) -> None:
        """Block the cluster's addresses for sandboxes with a network."""
        if isinstance(self._place, HasImages):
            await self._place.keep_from(away)


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for package in (Path(hc_ray.__file__).parent, Path(__file__).parent):
        for path in sorted(package.rglob("*.py")):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
