"""Finds canaries in what sweeps leave behind: as the product does, and in databases and tables too, whose formats cut
and compress values. The product has no need to open these: it searches what it writes into them beforehand."""

import sqlite3
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, suppress
from typing import IO

from hc_ray.blind.sealing import canaries
from hc_ray.blind.sealing.archive_scan import streams
from hc_ray.stores.sweep_directory import read_parquet


def found_in(tokens: Collection[str], source: bytes | IO[bytes]) -> frozenset[str]:
    """Those of ``tokens`` that stand in ``source``, however nested in archives, databases and tables."""
    return canaries.find(tokens, [source]) | canaries.find(tokens, _values(source))


def _values(source: bytes | IO[bytes]) -> Iterator[bytes]:
    """The rows of all databases and tables; of a damaged one, what can be read."""
    from pyarrow import ArrowException

    for stream in streams(source):
        with suppress(OSError, EOFError, ValueError, tarfile.TarError, sqlite3.Error, ArrowException):
            yield from _rows(stream)


def _rows(stream: IO[bytes]) -> Iterator[bytes]:
    head = stream.read(512)
    stream.seek(0)
    if head.startswith(b"SQLite format 3\0"):
        yield from _in_database(stream.read())
    elif head.startswith(b"PAR1"):
        yield from (_row(row.values()) for row in read_parquet(stream.read()))
    elif head[257:262] == b"ustar":
        # ``streams`` gives those members of a tar that are archives.
        with tarfile.open(fileobj=stream, mode="r:") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isreg() else None
                if file is not None and file.read(16).startswith((b"SQLite format 3\0", b"PAR1")):
                    file.seek(0)
                    yield from _rows(file)


def _in_database(data: bytes) -> Iterator[bytes]:
    """Every row of every table: a long value is cut into pages by the file format."""
    with tempfile.NamedTemporaryFile(suffix=".db") as copy:
        copy.write(data)
        copy.flush()
        with closing(sqlite3.connect(f"file:{copy.name}?mode=ro&immutable=1", uri=True)) as connection:
            connection.text_factory = bytes
            named = "select name from sqlite_master where type = 'table' and sql not like 'create virtual%'"
            for (name,) in connection.execute(named).fetchall():
                quoted = name.decode().replace('"', '""')
                yield from map(_row, connection.execute(f'select * from "{quoted}"'))


def _row(values: Iterable[object]) -> bytes:
    return b"\x1f".join(value if isinstance(value, bytes) else str(value).encode() for value in values)
