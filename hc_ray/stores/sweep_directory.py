"""The sweep directory on any ``pyarrow.fs`` filesystem: whole-file writes, listing, and Parquet tables.

A local write goes to a temporary name and is renamed, so that a reader or a later start sees a file whole or not at
all; object stores give that by themselves. What a resume builds on outlasts a power cut too: it is on the disk before
it has its name, and its name is before the sweep goes on. All calls wait for the disk or the network: event loops make
them in threads."""

import contextlib
import errno
import functools
import io
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyarrow import Table as Table

from hc_ray.domain.errors import OutputError, StoreError
from hc_ray.machine.lean_imports import without_pandas
from hc_ray.machine.paths import expanded
from hc_ray.machine.whole_files import beside, link, lock, sync_folder
from hc_ray.stores.conditional import create_object

COMMITTING = frozenset({"sweep.json", "lease.json", "result.json"})
"""Files that outlast a power cut, wherever they lie; and everything in the folders below."""
COMMITTING_FOLDERS = ("suites/", "climb/")
ANSWER_SECONDS = 15.0
"""Seconds after which an object store that does not answer counts as unreachable; pyarrow itself waits for minutes."""
REMEDY = "check the URI, the network and the store's credentials"


class SweepStore:
    """``ports.Store`` below one root: a local path or a URI that ``pyarrow.fs`` knows (``s3://…``, ``gs://…``)."""

    def __init__(self, root: str) -> None:
        from pyarrow import fs

        self.root = root
        try:
            if "://" in root:
                _reach(root)
                self._fs, self._base = fs.FileSystem.from_uri(root)
            else:
                self._fs, self._base = fs.LocalFileSystem(), str(expanded(root).absolute())
        except (OSError, ValueError) as fault:
            raise StoreError(f"{root}: cannot be opened: {fault}") from fault
        self._local = isinstance(self._fs, fs.LocalFileSystem)
        self._named: set[Path] = set()
        """Folders whose own names are on the disk."""

    def refusal(self) -> str | None:
        """Why nothing can be written there; None if it can, or if only the object store can tell."""
        if not self._local:
            return None
        base = Path(self._base)
        there = next(one for one in (base, *base.parents) if os.path.lexists(one))
        if not there.is_dir():
            return f"{there} is {'a link to nothing' if there.is_symlink() else 'a file'}, not a folder"
        return None if os.access(there, os.W_OK | os.X_OK) else f"you cannot write to {there}"

    def _path(self, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/"):
            raise StoreError(f"{path}: not a path inside the sweep directory")
        return f"{self._base}/{path}" if path else self._base

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, replacing what was there. Raises ``StoreError`` (disk full, no permission)."""
        full = self._path(path)
        with self._faults(f"write {path}"):
            if self._local:
                lasting = path.startswith(COMMITTING_FOLDERS) or path.rpartition("/")[2] in COMMITTING
                with beside(Path(full), data, lasting=lasting) as whole:
                    whole.replace(full)
                if lasting:
                    self._sync_folders(Path(full))
                return
            self._fs.create_dir(full.rsplit("/", 1)[0], recursive=True)
            with self._fs.open_output_stream(full) as stream:
                stream.write(data)

    @contextlib.contextmanager
    def _faults(self, doing: str, *, answers: type[OSError] | tuple[()] = ()) -> Iterator[None]:
        """Convert file system errors in this block to ``StoreError``; expected ones just end the block."""
        try:
            yield
        except answers:
            return
        except OSError as fault:
            if fault.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreError(f"{self.root}: the disk is full: could not {doing}; free some space") from fault
            raise StoreError(f"{self.root}: could not {doing}: {fault.strerror or fault}") from fault

    def sync(self, path: str) -> None:
        """Let a file outlast a power cut that was written as one that need not. Raises ``StoreError``."""
        if not self._local:
            return
        with self._faults(f"write {path}"):
            with Path(self._path(path)).open("rb") as file:
                os.fsync(file.fileno())
            self._sync_folders(Path(self._path(path)))

    def _sync_folders(self, path: Path) -> None:
        """A file's name lasts, and those of the folders that lead to it, up to the root's own."""
        folder, outside = path.parent, Path(self._base).parent
        sync_folder(folder)
        while folder not in self._named and folder != outside:
            sync_folder(folder.parent)
            self._named.add(folder)
            folder = folder.parent

    @contextlib.contextmanager
    def alone(self, path: str, *, seconds: float) -> Iterator[None]:
        """Hold a lock, a file of that path, among all processes that see the same file system; the kernel lets it go
        when its holder dies. Raises ``StoreError`` when it is not free within ``seconds``. Object stores have no locks:
        there nothing is held."""
        if not self._local:
            yield
            return
        full = Path(self._path(path))
        with self._faults(f"write {path}"):
            full.parent.mkdir(parents=True, exist_ok=True)
            file = full.open("a")
        with file:
            try:
                lock(file, seconds)
            except TimeoutError as fault:
                raise StoreError(f"{self.root}: another process has locked {path}") from fault
            yield

    def claim(self, path: str, data: bytes) -> bool:
        """Create a file that is not there yet; False where it is. One of several claimants gets it, whether or not the
        file system has locks. Raises ``StoreError``, and ``OutputError`` for an object store that cannot say who was
        first."""
        full = self._path(path)
        if not self._local:
            return create_object(self.root, full, data)
        with self._faults(f"write {path}", answers=FileExistsError):
            with beside(Path(full), data, lasting=True) as whole:
                link(whole, Path(full))
                whole.unlink()
            self._sync_folders(Path(full))
            return True
        return False

    @property
    def locks(self) -> bool:
        """Whether it is on a file system, with locks and exclusive creation."""
        return self._local

    def remove(self, path: str) -> None:
        """Remove a file if it exists. Raises ``StoreError``."""
        with self._faults(f"remove {path}", answers=FileNotFoundError):
            self._fs.delete_file(self._path(path))

    def find(self, path: str) -> bytes | None:
        """Read a file; None if it does not exist. Raises ``StoreError``."""
        full = self._path(path)
        with self._faults(f"read {path}", answers=FileNotFoundError):
            if self._local:
                with open(full, "rb", buffering=0) as file:  # noqa: PTH123 (a Path costs as much as the rest)
                    return file.read()
            with self._fs.open_input_stream(full) as stream:
                return bytes(stream.read())
        return None

    def read(self, path: str) -> bytes:
        """As ``find``. Raises ``FileNotFoundError`` where nothing was written."""
        if (found := self.find(path)) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path(path))
        return found

    def rows(self, path: str) -> list[dict[str, Any]]:
        """Of a table, as ``read``. Raises ``ValueError`` for what is none."""
        return read_parquet(self.read(path))

    def exists(self, path: str) -> bool:
        with self._faults("look"):
            return bool(self._fs.get_file_info(self._path(path)).is_file)

    def list(self, prefix: str) -> list[str]:
        """Relative paths of all files below a folder, sorted; unfinished temporary files are not listed."""
        paths = (info.path for info in self._below(prefix.rstrip("/")))
        return sorted(path[len(self._base) + 1 :] for path in paths if not path.endswith(".tmp"))

    def _below(self, folder: str) -> Iterator[Any]:
        from pyarrow import fs

        # What is not found is a folder that was made while pyarrow looked.
        with self._faults("look", answers=FileNotFoundError):
            found = self._fs.get_file_info(fs.FileSelector(self._path(folder), allow_not_found=True, recursive=True))
            yield from (info for info in found if info.is_file)

    def holding(self, name: str) -> set[str]:
        """Names of the trials whose folder holds a file ``name`` with something in it. One look at each folder, no file
        is read: 100,000 trials in seconds."""
        if self._local:
            with self._faults("list trials", answers=FileNotFoundError), os.scandir(self._path("trials")) as folders:
                return {folder.name for folder in folders if _size(f"{folder.path}/{name}")}
            return set()
        return {
            one.path.rsplit("/", 2)[1] for one in self._below("trials") if one.path.endswith(f"/{name}") and one.size
        }


@functools.cache
def _reach(uri: str) -> None:
    """Raises ``StoreError`` where an object store does not answer. Asked by a process of its own: a thread of this one
    that still waits for a silent server would keep it from ending."""
    words = "import sys; from pyarrow import fs; at, base = fs.FileSystem.from_uri(sys.argv[1]); at.get_file_info(base)"
    try:
        asked = subprocess.run(
            [sys.executable, "-c", words, uri], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise StoreError(f"{uri}: cannot be opened: no answer within {ANSWER_SECONDS:.0f} s; {REMEDY}") from None
    if asked.returncode:
        raise StoreError(f"{uri}: cannot be opened: {asked.stderr.strip().rpartition(chr(10))[2]}; {REMEDY}")


def _size(path: str) -> int:
    """Of a file; 0 where there is none."""
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


def sweep_at(out: str) -> SweepStore:
    """The store of a sweep directory. Raises ``OutputError`` where there is no sweep."""
    store = SweepStore(out)
    if store.exists("settings.json") and not store.exists("sweep.json"):
        raise OutputError(
            f"{out}: a climb, not a sweep; {out}/sweeps holds its sweeps, `hc-ray report {out}` tells of it, and to "
            f"continue it: hc-ray climb --resume -o {out}"
        )
    if not store.exists("sweep.json"):
        raise OutputError(f"{out}: not a sweep directory (no sweep.json); give the folder that `hc-ray sweep -o` wrote")
    return store


def forgo_pandas() -> None:
    """For a process in which nobody gives pyarrow objects of pandas: to tell them from lists, it imports pandas before
    its first table."""
    if "pandas" not in sys.modules:
        import pyarrow as pa

        with without_pandas():
            pa.array([])  # pyarrow tries once


def parquet(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> bytes:
    """Rows as one Parquet file; ``columns`` keeps the schema of a table that has no rows."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    names = list(columns) or sorted({name for row in rows for name in row})
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def parquet_of(batches: Iterable[Sequence[Mapping[str, Any]]], columns: Mapping[str, str]) -> bytes:
    """As ``parquet``, a batch of rows at a time, so that a table is never in memory as a whole but compressed.
    ``columns``: name → ``string``, ``int64``, ``double`` or ``bool``; None stands in any of them."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, schema, compression="zstd") as writer:
        for rows in batches:
            writer.write_table(pa.Table.from_pylist(list(rows), schema=schema))
    return buffer.getvalue()


def read_table(data: bytes) -> "Table":
    """A Parquet file."""
    from pyarrow import parquet as pq

    return pq.read_table(io.BytesIO(data))


def read_parquet(data: bytes) -> list[dict[str, Any]]:
    """The rows of a Parquet file."""
    return list(read_table(data).to_pylist())
