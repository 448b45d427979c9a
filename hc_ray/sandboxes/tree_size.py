"""What folders hold that hostile code fills: measured by open descriptors, whatever modes and depths it left."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from hc_ray.sandboxes.descriptors import FOLDER, MAX_DEPTH, opened, unlocked


def folder_size(folder: Path, most: tuple[int, int] | None = None) -> tuple[int, int]:
    """Bytes (the larger of length and blocks of each file, hard links once) and number of paths below a folder, or of
    one file. The count ends where one of ``most`` is passed. Raises ``ValueError`` for folders nested too deeply."""
    tally = _Tally(most)
    try:
        with opened(str(folder), FOLDER) as place:
            tally.add(place, 0)
    except NotADirectoryError:
        tally.count(os.lstat(folder))
    return tally.size, tally.paths


class _Tally:
    def __init__(self, most: tuple[int, int] | None) -> None:
        self.size, self.paths, self._most = 0, 1, most
        self._linked: set[tuple[int, int]] = set()

    def add(self, folder: int, depth: int) -> bool:
        """Count what an open folder holds; False when enough was seen."""
        if depth > MAX_DEPTH:
            raise ValueError(f"its folders nest deeper than {MAX_DEPTH}")
        below = []
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):  # gone since it was listed
                    self.count(entry.stat(follow_symlinks=False))
                    if entry.is_dir(follow_symlinks=False):
                        below.append(entry.name)
                if self._most is not None and (self.size > self._most[0] or self.paths > self._most[1]):
                    return False
        for name in below:
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                state = os.stat(name, dir_fd=folder, follow_symlinks=False)
                with unlocked(name, folder, state) as place:
                    if not self.add(place, depth + 1):
                        return False
        return True

    def count(self, state: os.stat_result) -> None:
        self.paths += 1
        if not stat.S_ISDIR(state.st_mode):
            if state.st_nlink > 1:
                if (state.st_dev, state.st_ino) in self._linked:
                    return
                self._linked.add((state.st_dev, state.st_ino))
            self.size += max(state.st_size, state.st_blocks * 512)


def unlinked_size(processes: Sequence[int], most: int) -> int:
    """Bytes of files that have no name any more and that these processes hold open or mapped: no folder shows them. The
    count ends where ``most`` is passed; processes that this user may not look at count as nothing, and what is only
    mapped is seen by root alone."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for path in chain(open_files(processes), _deleted_maps(processes)):
        with suppress(OSError):
            state = os.stat(path)  # noqa: PTH116
            if stat.S_ISREG(state.st_mode) and state.st_nlink == 0 and (state.st_dev, state.st_ino) not in seen:
                seen.add((state.st_dev, state.st_ino))
                total += max(state.st_size, state.st_blocks * 512)
                if total > most:
                    break
    return total


def on_their_way(processes: Iterable[int]) -> int:
    """How many descriptors wait in sockets of these processes for somebody to take them (since Linux 5.10)."""
    found: dict[str, int] = {}
    for path in open_files(processes):
        with suppress(OSError, ValueError, IndexError):
            if (socket := os.readlink(path)).startswith("socket:"):  # noqa: PTH115
                with open(path.replace("/fd/", "/fdinfo/"), "rb") as file:  # noqa: PTH123
                    found[socket] = next((int(line.split()[1]) for line in file if line.startswith(b"scm_fds:")), 0)
    return sum(found.values())


def open_files(processes: Iterable[int]) -> Iterator[str]:
    """The links to what processes hold open, as far as this user may look; a link may come once for each thread, since
    each may have files of its own."""
    for process in processes:
        for thread in threads_of(process):
            with suppress(OSError), os.scandir(f"/proc/{process}/task/{thread}/fd") as entries:
                yield from (entry.path for entry in entries)


def threads_of(process: int) -> list[str]:
    """Its threads by number, the first one first; none where it is gone."""
    try:
        return os.listdir(f"/proc/{process}/task")  # noqa: PTH208
    except OSError:
        return []


def shared_memory(processes: Iterable[int]) -> int:
    """Bytes of the shared memory without a name of which these processes have at least a page mapped, resident in
    somebody or not; root alone sees it."""
    found: dict[int, int] = {}
    for path in _deleted_maps(processes, memory=True):
        with suppress(OSError):
            state = os.stat(path)  # noqa: PTH116
            found[state.st_ino] = state.st_blocks * 512
    return sum(found.values())


def _deleted_maps(processes: Iterable[int], *, memory: bool = False) -> Iterator[str]:
    """The links to files without a name that processes have mapped, or to shared memory, which has none by nature."""
    for process in processes:
        for thread in threads_of(process):
            lines: list[bytes] = []
            with suppress(OSError), open(f"/proc/{process}/task/{thread}/maps", "rb") as file:  # noqa: PTH123
                lines = file.readlines()
            for line in lines:
                if line.endswith(b" (deleted)\n") and line.endswith(b" /dev/zero (deleted)\n") == memory:
                    yield f"/proc/{thread}/map_files/{_range(line.split(None, 1)[0])}"
            if lines:  # threads that live share them
                break


def _range(mapped: bytes) -> str:
    """Addresses as ``map_files`` writes them, without leading zeros."""
    return "-".join(f"{int(end, 16):x}" for end in mapped.split(b"-"))
