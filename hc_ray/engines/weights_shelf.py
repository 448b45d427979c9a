"""Weights that a node was sent, by their digest: ``data_root()/models/by-digest/<SHA-256>/<name>.gguf``."""

import asyncio
import fcntl
import hashlib
import shutil
import socket
from pathlib import Path
from typing import IO

from hc_ray.domain.errors import ModelError
from hc_ray.engines.catalogue import resolve, sent_weights, shelf


class WeightsShelf:
    """An engine's actor, as it is sent weights: whoever asked ``lacks_weights`` first sends them in pieces, and others
    of the same node wait for it."""

    _lock: IO[str] | None = None
    _arriving: IO[bytes] | None = None

    async def lacks_weights(self, model: str, sha256: str, size: int) -> bool:
        """Whether this node has the weights neither where the config names them nor on its shelf. They must be sent
        then. Raises ``ModelError`` where the disk has no room for them."""
        return await asyncio.to_thread(self._lacks, model, sha256, size)

    def _lacks(self, model: str, sha256: str, size: int) -> bool:
        try:
            if resolve(model, sha256).digest == sha256:
                return False
        except ModelError:
            pass
        folder = shelf(sha256)
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / ".lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if sent_weights(sha256) is not None:
            self._lock.close()
            return False
        self._arriving = (folder / ".arriving").open("wb")
        if (free := shutil.disk_usage(folder).free) < size:
            raise self._given_up(f"{size / 2**30:.1f} GiB, and {folder} has {free / 2**30:.1f} GiB free")
        self._digest = hashlib.sha256()
        return True

    async def take_piece(self, piece: bytes) -> None:
        """The next bytes of the file."""
        await asyncio.to_thread(self._take, piece)

    def _take(self, piece: bytes) -> None:
        assert self._arriving is not None
        try:
            self._digest.update(piece)
            self._arriving.write(piece)
            self._arriving.flush()
        except OSError as fault:
            raise self._given_up(f"room in {shelf('')}: {fault}") from None

    async def keep_weights(self, sha256: str, name: str) -> None:
        """That was all. Raises ``ModelError`` for other weights than these."""
        assert self._arriving is not None and self._lock is not None
        found = self._digest.hexdigest()
        if found != sha256:
            raise self._given_up(f"SHA-256 {sha256[:16]}…, but what was sent has {found[:16]}…: did {name} change?")
        self._arriving.close()
        Path(self._arriving.name).replace(shelf(sha256) / Path(name).name)
        self._lock.close()

    def _given_up(self, needs: str) -> ModelError:
        assert self._arriving is not None and self._lock is not None
        self._arriving.close()
        Path(self._arriving.name).unlink()
        self._lock.close()
        return ModelError(f"node {socket.gethostname()}: the weights need {needs}")
