"""What lies inside a file: itself, and the members of the archives and compressed streams in it, however nested.

Only Python's own decompressors read what candidates may have made (tar, gzip, zlib, bzip2, xz, zip). Everything
streams: a member is spooled, and memory holds a few megabytes of it. What is unpacked of one file is bounded, so that a
bomb costs seconds and no disk; what lies beyond the bound is not looked at."""

import bz2
import contextlib
import io
import lzma
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import IO, Any, cast

CHUNK = 1 << 20
"""Bytes to read or unpack at a time."""
MAX_DEPTH = 6
"""The deepest nesting of archives to open."""
MAX_BYTES = 512 << 20
"""Maximum bytes to unpack from one file, over all members."""
MAX_MEMBERS = 50_000
_SPOOL = 4 << 20
_FED = 64 << 10
"""Bytes that a decompressor is given at a time: for each of the streams that stand one after another it copies what is
left of them."""
_LISTING = 8 << 20
"""Bytes of a zip's list of members, each of which takes several times as much memory."""
_XZ_MEMORY = 128 << 20
_EITHER = zlib.MAX_WBITS | 32
"""zlib tells its own streams from gzip's by their headers."""
_BROKEN: tuple[type[Exception], ...] = (
    *(OSError, EOFError, ValueError, RuntimeError, NotImplementedError, KeyError, IndexError, OverflowError),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile),
    MemoryError,  # xz in a zip says itself how much it takes
)
"""What a damaged or hostile archive raises: its raw bytes were looked at, and what could be read of it."""


class _Bound:
    """The remaining bytes to unpack from one file."""

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
    """Yield ``source`` itself, then everything in it, each as a stream at its start; a stream is closed when the next
    is requested. ``source`` must be seekable."""
    yield from _within(io.BytesIO(source) if isinstance(source, bytes) else source, _Bound(), MAX_DEPTH)


def pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """A stream's bytes in chunks."""
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
    """The function that opens an archive with this beginning; None if it is not an archive."""
    if head[257:262] == b"ustar":
        return _tar
    for magic, opener in _KINDS:
        if head.startswith(magic):
            return opener
    if len(head) > 2 and head[0] & 0x0F == 8 and not int.from_bytes(head[:2], "big") % 31:
        return _DEFLATED
    return None


def _tar(stream: IO[bytes]) -> Iterator[Iterable[bytes]]:
    """Members that are archives themselves: the others stand in the tar as they are, and were seen there. Headers are
    looked at here: those that ``tarfile`` obeys can take hours and all memory."""
    at = 0
    while len(head := _bytes_at(stream, at, _BLOCK)) == _BLOCK:
        at += _BLOCK
        if head[257:262] != b"ustar" or head[156:157] in _WITHOUT_CONTENT:
            continue
        size = _tar_number(head[124:136])
        if _opener(_bytes_at(stream, at, min(size, _BLOCK))) is not None:
            yield _part(stream, at, size)
        at += -(-size // _BLOCK) * _BLOCK


_BLOCK = 512
_WITHOUT_CONTENT = tuple(b"%d" % kind for kind in range(1, 7))
"""Links, devices, folders, pipes."""


def _tar_number(field: bytes) -> int:
    """Octal digits, or the number's bytes where they would not suffice."""
    return (
        int.from_bytes(field[1:], "big") if field[0] & 0x80 else max(0, int(field.split(b"\0")[0].strip() or b"0", 8))
    )


def _bytes_at(stream: IO[bytes], at: int, size: int) -> bytes:
    stream.seek(at)
    return stream.read(size)


def _part(stream: IO[bytes], at: int, size: int) -> Iterator[bytes]:
    while size > 0 and (data := _bytes_at(stream, at, min(size, CHUNK))):
        yield data
        at, size = at + len(data), size - len(data)


class _ShortListing:
    """A zip of which no more is read at once than ``_LISTING``."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._read, self.seek, self.tell, self.seekable = stream.read, stream.seek, stream.tell, stream.seekable

    def read(self, size: int = -1) -> bytes:
        if size > _LISTING:
            raise ValueError("the zip lists too many members")
        return self._read(size)


def _zip(stream: IO[bytes]) -> Iterator[Iterable[bytes]]:
    with zipfile.ZipFile(cast(IO[bytes], _ShortListing(stream))) as archive:
        for name in archive.infolist():
            with contextlib.suppress(*_BROKEN), archive.open(name) as file:
                yield pieces(file)


def _stream_of(unpacked: Callable[[IO[bytes]], Iterator[bytes]]) -> Opener:
    """A compressed stream has one member."""
    return lambda stream: iter([unpacked(stream)])


def _inflated(stream: IO[bytes]) -> Iterator[bytes]:
    """All members of a gzip or zlib stream, one after another."""
    machine, data = zlib.decompressobj(_EITHER), b""
    while data or (data := stream.read(_FED)):
        yield machine.decompress(data, CHUNK)
        data = machine.unconsumed_tail
        if machine.eof:
            data, machine = machine.unused_data, zlib.decompressobj(_EITHER)
    yield machine.flush()


def _decompressed(stream: IO[bytes], new: Callable[[], Any]) -> Iterator[bytes]:
    """The same for decompressors of bzip2's and xz's kind."""
    machine, data = new(), stream.read(_FED)
    while data or not machine.needs_input:
        yield machine.decompress(data, CHUNK)
        data = b""
        if machine.eof:
            data, machine = machine.unused_data, new()
        if not data and machine.needs_input:
            data = stream.read(_FED)


_DEFLATED = _stream_of(_inflated)
_BZIP2 = _stream_of(partial(_decompressed, new=bz2.BZ2Decompressor))
_XZ = _stream_of(partial(_decompressed, new=partial(lzma.LZMADecompressor, memlimit=_XZ_MEMORY)))
_KINDS: tuple[tuple[bytes, Opener], ...] = (
    (b"\x1f\x8b", _DEFLATED),
    (b"BZh", _BZIP2),
    (b"\xfd7zXZ\0", _XZ),
    (b"PK\x03\x04", _zip),
)
