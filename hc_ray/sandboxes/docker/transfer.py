"""Images on their way between daemons, so that a task has one image, of one build, wherever it runs. Where a registry
shows the image by its digest it is pulled; else another node sends what ``docker save`` gives, without the layers that
are there already."""

import asyncio
import json
import tarfile
import tempfile
from collections.abc import Iterator
from typing import IO

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.task import Task
from hc_ray.machine.paths import data_root
from hc_ray.sandboxes.docker.availability import ASK_SECONDS
from hc_ray.sandboxes.docker.images import PULL_SECONDS
from hc_ray.sandboxes.docker.place import Ground
from hc_ray.sandboxes.docker.values import DaemonRefusal, DiskFull, ImageFacts

PART = 16 << 20
"""Bytes that are on their way at once."""
LOAD_SECONDS = 3600.0


class Exchange:
    """What one place gives to others and takes from them. It sends one image at a time: who begins another export ends
    the one before."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._number, self._leaving = 0, iter([b""])

    async def held(self, task: Task) -> ImageFacts | None:
        """The task's image, if it is here."""
        return await self._ground.call(self._ground.images.held, task)

    async def begin_export(self, image: str, skip: int) -> int:
        """Save an image, whose lowest ``skip`` layers are not needed; answers the number of this export."""
        self._number += 1
        number, leaving = self._number, await self._ground.call(self._saved, image, skip)
        if number == self._number:
            self._leaving = leaving
        return number

    def _saved(self, image: str, skip: int) -> Iterator[bytes]:
        root = data_root()
        try:
            root.mkdir(parents=True, exist_ok=True)
            file = tempfile.TemporaryFile(dir=root)  # noqa: SIM115 (``trimmed`` closes it)
            for part in self._ground.daemon.save(image):
                file.write(part)
        except OSError as fault:
            raise SandboxError(f"{root} cannot hold an image that is to be sent: {fault}") from None
        return trimmed(file, skip)

    async def export_part(self, number: int) -> bytes:
        """The next bytes; none at the end."""
        if number != self._number:
            raise SandboxError("another image is being sent from here meanwhile")
        return await self._ground.call(lambda: next(self._leaving, b""))

    async def take(self, task: Task, image: ImageFacts, source: "Exchange") -> None:
        """Have the task's image, and none but that; ``source`` is another node's. Raises ``SandboxError`` where it
        cannot be had."""
        ground = self._ground
        if not await ground.call(self._has_or_pulls, image):
            for skip in dict.fromkeys((await ground.call(self._common_layers, image), 0)):
                number = await source.begin_export(image.id, skip)
                try:
                    await ground.call(ground.daemon.load, _arriving(source, number), seconds=LOAD_SECONDS)
                    break
                except DaemonRefusal:
                    # Not every store of images loads one of which layers are left out.
                    if skip == 0:
                        raise
        await ground.call(ground.images.keep, task, image.id)

    def _has_or_pulls(self, image: ImageFacts) -> bool:
        daemon = self._ground.daemon
        if daemon.image(image.id) is None and image.digests:
            try:
                daemon.ask_registry(image.digests[0], seconds=ASK_SECONDS)
                daemon.pull(image.digests[0], seconds=PULL_SECONDS)
            except DiskFull:
                raise
            except SandboxError:
                return False  # no registry shows it
        return daemon.image(image.id) is not None

    def _common_layers(self, image: ImageFacts) -> int:
        """How many of the image's lowest layers some image here has."""
        most = 0
        for other in self._ground.daemon.named_images():
            facts = self._ground.daemon.image(other)
            same = [one == two for one, two in zip(image.layers, facts.layers if facts else (), strict=False)]
            most = max(most, (*same, False).index(False))
        return most


def _arriving(source: Exchange, number: int) -> Iterator[bytes]:
    """The parts of an export, for a thread beside the event loop that this is called on."""
    loop = asyncio.get_running_loop()

    def parts() -> Iterator[bytes]:
        while part := asyncio.run_coroutine_threadsafe(source.export_part(number), loop).result():
            yield part

    return parts()


def trimmed(file: IO[bytes], skip: int) -> Iterator[bytes]:
    """What ``docker save`` wrote, in parts, without the files of the lowest ``skip`` layers; closes the file."""
    with file:
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            members = tar.getmembers()
            described = tar.extractfile("manifest.json")
            layers = json.load(described)[0]["Layers"] if described else []
        left_out = set(layers[:skip]) - set(layers[skip:])
        pending = bytearray()
        for member in members:
            at, end = member.offset, member.offset_data + -(-member.size // 512) * 512 * member.isfile()
            file.seek(at)
            while member.name not in left_out and at < end:
                pending += (data := file.read(min(PART - len(pending), end - at)))
                at += len(data)
                if len(pending) == PART:
                    yield bytes(pending)
                    pending.clear()
        yield bytes(pending) + bytes(1024)
