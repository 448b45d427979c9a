"""What lies inside a file: itself, and the members of the archives and compressed streams in it, however nested.

Only Python's own decompressors read what candidates may have made (tar, gzip, zlib, bzip2, xz, zip). Everything
streams: a member is spooled, and memory holds a few megabytes of it. What is unpacked of one file is bounded, so that a
bomb costs seconds and no disk; what lies beyond the bound is not looked at."""

import bz2
import contextlib
import io
import lzma
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import IO, Any

CHUNK = 1 << 20
"""Bytes that are read or unpacked at a time."""
MAX_DEPTH = 6
"""Archives within archives that are opened."""
MAX_BYTES = 512 << 20
"""Bytes that are unpacked of one file, all its members together."""
MAX_MEMBERS = 50_000
_SPOOL = 4 << 20
_XZ_MEMORY = 128 << 20
_EITHER = zlib.MAX_WBITS | 32
"""zlib tells its own streams from gzip's by their headers."""
_BROKEN: tuple[type[Exception], ...] = (
    *(OSError, EOFError, ValueError, RuntimeError, NotImplementedError, KeyError, IndexError, OverflowError),
    *(zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile),
)
"""What a damaged or hostile archive raises: its raw bytes were looked at, and what could be read of it."""


class _Bound:
    """What may still be unpacked of one file."""

    def __init__(self) -> None:
        self.bytes, self.members = MAX_BYTES, MAX_MEMBERS

    def spool(self, pieces: Iterable[bytes]) -> IO[bytes]:
        """The pieces as a seekable stream, cut at the bound; of a source that breaks, what came before."""
        self.members -= 1
        kept = tempfile.SpooledTemporaryFile(max_size=_SPOOL)  # noqa: SIM115 (the caller closes it)
        with contextlib.suppress(*_BROKEN):
            for piece in pieces:
                if self.bytes <= 0 or self.members < 0:
                    break
                self.bytes -= len(piece)
                kept.write(piece)
        kept.seek(0)
        return kept


def streams(source: bytes | IO[bytes]) -> Iterator[IO[bytes]]:
    """``source`` itself, then everything in it, each as a stream at its begin; a stream is closed when the next is
    asked for. ``source`` must be seekable."""
    yield from _within(io.BytesIO(source) if isinstance(source, bytes) else source, _Bound(), MAX_DEPTH)


def pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """A stream's bytes, some at a time."""
    while data := stream.read(CHUNK):
        yield data


def _within(stream: IO[bytes], bound: _Bound, depth: int) -> Iterator[IO[bytes]]:
    stream.seek(0)
    head = stream.read(512)
    stream.seek(0)
    yield stream
    opener = _opener(head)
    if opener is None or depth <= 0:
        return
    with contextlib.suppress(*_BROKEN):
        stream.seek(0)
        for member in opener(stream):
            if bound.members < 0 or bound.bytes <= 0:
                return
            with bound.spool(member) as inner:
                yield from _within(inner, bound, depth - 1)


Opener = Callable[[IO[bytes]], Iterator[Iterable[bytes]]]


def _opener(head: bytes) -> Opener | None:
    """How to open what begins like this; None for what is no archive."""
    if head[257:262] == b"ustar":
        return _tar
    for magic, opener in _KINDS:
        if head.startswith(magic):
            return opener
    if len(head) > 2 and head[0] & 0x0F == 8 and not int.from_bytes(head[:2], "big") % 31:
        return _DEFLATED
    return None


def _tar(stream: IO[bytes]) -> Iterator[Iterable[bytes]]:
    """Members that are archives themselves: the others stand in the tar as they are, and were seen there."""
    with tarfile.open(fileobj=stream, mode="r:") as tar:
        for member in tar:
            if not member.isreg() or (file := tar.extractfile(member)) is None:
                continue
            if _opener(file.read(512)) is not None or member.issparse():
                file.seek(0)
                yield pieces(file)


def _zip(stream: IO[bytes]) -> Iterator[Iterable[bytes]]:
    with zipfile.ZipFile(stream) as archive:
        for name in archive.infolist():
            with contextlib.suppress(*_BROKEN), archive.open(name) as file:
                yield pieces(file)


def _stream_of(unpacked: Callable[[IO[bytes]], Iterator[bytes]]) -> Opener:
    """A compressed stream has one member."""
    return lambda stream: iter([unpacked(stream)])


def _inflated(stream: IO[bytes]) -> Iterator[bytes]:
    """All members of a gzip or zlib stream, one after another."""
    machine, data = zlib.decompressobj(_EITHER), b""
    while data or (data := stream.read(CHUNK)):
        yield machine.decompress(data, CHUNK)
        data = machine.unconsumed_tail
        if machine.eof:
            data, machine = machine.unused_data, zlib.decompressobj(_EITHER)
    yield machine.flush()


def _decompressed(stream: IO[bytes], new: Callable[[], Any]) -> Iterator[bytes]:
    """The same for decompressors of bzip2's and xz's kind."""
    machine, data = new(), stream.read(CHUNK)
    while data or not machine.needs_input:
        yield machine.decompress(data, CHUNK)
        data = b""
        if machine.eof:
            data, machine = machine.unused_data, new()
        if not data and machine.needs_input:
            data = stream.read(CHUNK)


_DEFLATED = _stream_of(_inflated)
_BZIP2 = _stream_of(partial(_decompressed, new=bz2.BZ2Decompressor))
_XZ = _stream_of(partial(_decompressed, new=partial(lzma.LZMADecompressor, memlimit=_XZ_MEMORY)))
_KINDS: tuple[tuple[bytes, Opener], ...] = (
    (b"\x1f\x8b", _DEFLATED),
    (b"BZh", _BZIP2),
    (b"\xfd7zXZ\0", _XZ),
    (b"PK\x03\x04", _zip),
)
