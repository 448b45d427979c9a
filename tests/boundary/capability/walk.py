"""Looks for tokens in everything that a running process can reach without asking: its directory, what it imports from,
its environment, its open files, the root of the sandbox that it lives in."""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.canary_search import found_in
from tests.fakes.processes import carrying, family, read

LARGE = 64 << 20
"""Files above this are Ray's shared memory and its like, looked at in ``shared_memory``."""
_KERNEL = frozenset({"proc", "sys", "dev"})
_HOSTS = frozenset({"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"})
"""Of a sandbox's root: views of the kernel, and programs of the host that it shows read-only."""


@dataclass
class Walk:
    """What was looked at, and where a token was."""

    tokens: tuple[str, ...]
    processes: int = 0
    files: int = 0
    bytes: int = 0
    found: list[str] = field(default_factory=list)
    quick: bool = False
    """Look for tokens as they are, in no other spelling and in no archive: for installed libraries."""
    _known: set[tuple[int, int, int]] = field(default_factory=set)

    def process(self, pid: int, *, directory: bool = True) -> None:
        """Everything of one process, its working directory only if ``directory``; of one that ends meanwhile, what was
        left of it."""
        self.processes += 1
        for name in ("environ", "cmdline", "maps"):
            with suppress(OSError):
                self._look(f"process {pid}: {name}", Path(f"/proc/{pid}/{name}").read_bytes())
        for descriptor in _listed(Path(f"/proc/{pid}/fd")):
            with suppress(OSError):
                self._file(descriptor, f"process {pid}: open file {descriptor.readlink()}")
        if _same(Path(f"/proc/{pid}/root"), Path("/")):
            with suppress(OSError):
                if directory:
                    self.tree(Path(f"/proc/{pid}/cwd").readlink())
        else:
            self.tree(Path(f"/proc/{pid}/root"), without=_KERNEL | _HOSTS)

    def tree(self, root: Path, *, without: Collection[str] = (), below: Collection[Path] = ()) -> None:
        """Every file below a folder (or a file). Entries of the folder named in ``without``, and paths in ``below``,
        are left out."""
        if root.is_file():
            self._file(root, str(root))
        for folder, folders, files in os.walk(root):
            at_top = Path(folder) == root
            folders[:] = [
                name for name in folders if not (at_top and name in without) and Path(folder, name) not in below
            ]
            for name in files:
                with suppress(OSError):
                    self._file(Path(folder, name), str(Path(folder, name)))

    def _file(self, path: Path, told: str) -> None:
        about = path.stat()
        identity = (about.st_dev, about.st_ino, about.st_mtime_ns)
        if not stat.S_ISREG(about.st_mode) or identity in self._known or about.st_size > LARGE:
            return
        self._known.add(identity)
        self._look(told, path.read_bytes())

    def _look(self, told: str, data: bytes) -> None:
        self.files += 1
        self.bytes += len(data)
        here = any(token.encode() in data for token in self.tokens) if self.quick else found_in(self.tokens, data)
        self.found += [told] * bool(here)


def marked(mark: str) -> list[int]:
    """Processes that inherited ``mark`` in their environment, and all that they started."""
    return sorted(family(*carrying(mark)))


def title(pid: int) -> str:
    """A process's command line."""
    return read(pid, "cmdline").replace("\0", " ").strip()


def environment(pid: int) -> dict[str, str]:
    """A process's environment, as it was started with."""
    return dict(line.partition("=")[::2] for line in read(pid, "environ").split("\0") if line)


def _listed(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from list(folder.iterdir())


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return True
