"""What folders hold that hostile code fills: measured by open descriptors, whatever modes and depths it left."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from hc_ray.sandboxes.descriptors import FOLDER, MAX_DEPTH, opened, unlocked


def folder_size(folder: Path, most: tuple[int, int] | None = None) -> tuple[int, int]:
    """Bytes (the larger of length and blocks of each file, hard links once) and number of paths below a folder. The
    count ends where one of ``most`` is passed. Raises ``ValueError`` for folders nested too deeply."""
    tally = _Tally(most)
    with opened(str(folder), FOLDER) as place:
        tally.add(place, 0)
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
                    self._count(entry.stat(follow_symlinks=False))
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

    def _count(self, state: os.stat_result) -> None:
        self.paths += 1
        if not stat.S_ISDIR(state.st_mode):
            if state.st_nlink > 1:
                if (state.st_dev, state.st_ino) in self._linked:
                    return
                self._linked.add((state.st_dev, state.st_ino))
            self.size += max(state.st_size, state.st_blocks * 512)


def unlinked_size(processes: Iterable[int], most: int) -> int:
    """Bytes of files that have no name any more and that these processes hold open: no folder shows them. The count
    ends where ``most`` is passed; processes that this user may not look at count as nothing."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for entry in open_files(processes):
        with suppress(OSError):
            state = entry.stat()
            if stat.S_ISREG(state.st_mode) and state.st_nlink == 0 and (state.st_dev, state.st_ino) not in seen:
                seen.add((state.st_dev, state.st_ino))
                total += max(state.st_size, state.st_blocks * 512)
                if total > most:
                    break
    return total


def open_files(processes: Iterable[int]) -> Iterator[os.DirEntry[str]]:
    """The links to what processes hold open, as far as this user may look."""
    for process in processes:
        with suppress(OSError), os.scandir(f"/proc/{process}/fd") as entries:
            yield from entries
