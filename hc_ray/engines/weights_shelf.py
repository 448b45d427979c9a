"""Weights that a node was sent, stored by digest: ``data_root()/models/by-digest/<SHA-256>/<name>.gguf``."""

import asyncio
import contextlib
import functools
import hashlib
import shutil
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any

from hc_ray.domain.errors import EngineError, ModelError
from hc_ray.engines.catalogue import resolve, sent_weights, shelf
from hc_ray.machine.whole_files import hold


def _apart(work: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Run a shelf's method off the event loop; any failure aborts the transfer."""

    @functools.wraps(work)
    async def called(self: "WeightsShelf", *given: Any) -> Any:
        try:
            return await asyncio.to_thread(work, self, *given)
        except OSError as fault:
            self._end()
            raise EngineError(f"node {socket.gethostname()} cannot store the weights: {fault}") from None
        except Exception:
            self._end()
            raise

    return called


class WeightsShelf:
    """The part of an engine's actor that receives weights: the first caller of ``lacks_weights`` sends them in pieces,
    and other actors of the node wait."""

    _lock: IO[str] | None = None
    _arriving: IO[bytes] | None = None

    @_apart
    def lacks_weights(self, model: str, sha256: str, size: int) -> bool:
        """Whether this node lacks the weights, both at the configured path and on its shelf, so that they must be sent.
        Raises ``EngineError`` if the disk has no room for them."""
        with contextlib.suppress(ModelError):
            if resolve(model, sha256).digest == sha256:
                return False
        folder = shelf(sha256)
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / ".lock").open("w")
        hold(self._lock.fileno(), folder / ".lock")
        if sent_weights(sha256) is not None:
            self._end()
            return False
        if (free := shutil.disk_usage(folder).free) < size:
            raise OSError(f"they need {size / 2**30:.1f} GiB, but {folder} has only {free / 2**30:.1f} GiB free")
        self._arriving, self._digest = (folder / ".arriving").open("wb"), hashlib.sha256()
        return True

    @_apart
    def take_piece(self, piece: bytes) -> None:
        """Append the next bytes of the file."""
        assert self._arriving is not None
        self._digest.update(piece)
        self._arriving.write(piece)
        self._arriving.flush()

    @_apart
    def keep_weights(self, sha256: str, name: str) -> None:
        """Finish the transfer. Raises ``ModelError`` if the weights have another SHA-256."""
        assert self._arriving is not None
        if (found := self._digest.hexdigest()) != sha256:
            raise ModelError(
                f"{name} has changed since this sweep was planned (SHA-256 {found[:16]}…); start a new one"
            )
        Path(self._arriving.name).replace(shelf(sha256) / Path(name).name)
        self._end()

    def _end(self) -> None:
        """End the transfer, and let other actors of this node proceed."""
        with contextlib.suppress(OSError):
            if self._arriving is not None:
                Path(self._arriving.name).unlink(missing_ok=True)
                self._arriving.close()
        if self._lock is not None:
            self._lock.close()
