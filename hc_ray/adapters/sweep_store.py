"""The sweep directory (DESIGN 5) on any ``pyarrow.fs`` filesystem: whole-file writes, listing, and Parquet tables.

A local write goes to a temporary name and is renamed, so that a reader or a later start sees a file whole or not at
all; object stores give that by themselves."""

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hc_ray.errors import StoreError


class SweepStore:
    """``ports.Store`` below one root: a local path or a URI that ``pyarrow.fs`` knows (``s3://…``, ``gs://…``)."""

    def __init__(self, root: str) -> None:
        from pyarrow import fs

        self.root = root
        try:
            if "://" in root:
                self._fs, self._base = fs.FileSystem.from_uri(root)
            else:
                self._fs, self._base = fs.LocalFileSystem(), str(Path(root).expanduser().absolute())
        except (OSError, ValueError) as fault:
            raise StoreError(f"{root}: cannot be opened: {fault}") from fault
        self._local = isinstance(self._fs, fs.LocalFileSystem)

    def _path(self, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/"):
            raise StoreError(f"{path}: not a path inside the sweep directory")
        return f"{self._base}/{path}" if path else self._base

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, replacing what was there. Raises ``StoreError`` (disk full, no permission)."""
        full = self._path(path)
        try:
            self._fs.create_dir(full.rsplit("/", 1)[0], recursive=True)
            target = f"{full}.{os.getpid()}.tmp" if self._local else full
            with self._fs.open_output_stream(target) as stream:
                stream.write(data)
            if self._local:
                Path(target).replace(full)
        except OSError as fault:
            raise StoreError(f"{self.root}: could not write {path}: {fault}") from fault

    def read(self, path: str) -> bytes:
        """A whole file. Raises ``FileNotFoundError`` where nothing was written."""
        full = self._path(path)
        if self._local:
            return Path(full).read_bytes()
        try:
            with self._fs.open_input_stream(full) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            raise
        except OSError as fault:
            raise StoreError(f"{self.root}: could not read {path}: {fault}") from fault

    def exists(self, path: str) -> bool:
        from pyarrow import fs

        return bool(self._fs.get_file_info(self._path(path)).type == fs.FileType.File)

    def list(self, prefix: str) -> list[str]:
        """Relative paths of all files below a folder, sorted; unfinished temporary files are not listed."""
        from pyarrow import fs

        base = self._path(prefix.rstrip("/"))
        infos = self._fs.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True))
        return sorted(
            info.path[len(self._base) + 1 :]
            for info in infos
            if info.type == fs.FileType.File and not info.path.endswith(".tmp")
        )

    def finished(self) -> set[str]:
        """Names of the trials that have a ``result.json``. One look at each folder, no file is read: 100,000 trials in
        seconds."""
        from pyarrow import fs

        base = self._path("trials")
        if self._local:
            try:
                with os.scandir(base) as folders:
                    return {folder.name for folder in folders if os.path.exists(f"{folder.path}/result.json")}  # noqa: PTH110
            except FileNotFoundError:
                return set()
        infos = self._fs.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True))
        return {info.path.rsplit("/", 2)[1] for info in infos if info.path.endswith("/result.json")}


def parquet(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> bytes:
    """Rows as one Parquet file; ``columns`` keeps the schema of a table that has no rows."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    names = list(columns) or sorted({name for row in rows for name in row})
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def read_parquet(data: bytes) -> list[dict[str, Any]]:
    """The rows of a Parquet file."""
    from pyarrow import parquet as pq

    return list(pq.read_table(io.BytesIO(data)).to_pylist())
