"""Copies and removes the state folders of bwrap sandboxes, by open descriptors."""

import errno
import functools
import os
import stat
import struct
import subprocess
import tempfile
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from hc_ray.sandboxes.descriptors import (  # fmt: skip
    FILE,
    FOLDER,
    MAX_DEPTH,
    NEW_FILE,
    content,
    empty,
    make_link,
    opened,
    own,
    own_open,
    unless_changed,
    unlocked,
)
from hc_ray.sandboxes.inside.processes import write_all

_GET_FLAGS, _SET_FLAGS, _TOP_OF_HIERARCHIES = 0x80086601, 0x40086602, 0x00020000
"""``FS_IOC_GETFLAGS``, ``FS_IOC_SETFLAGS`` and ``FS_TOPDIR_FL`` (``chattr +T``) on 64-bit x86, ARM and s390x."""


def scatter_folders(folder: Path) -> None:
    """Ask ext4 to spread the subfolders of this one over the disk; other file systems refuse.

    Without a journal, as on the disks of many virtual machines, ext4 passes over every inode freed nearby within the
    last minutes for each new one (``recently_deleted`` in ``fs/ext4/ialloc.c``). Sandboxes are made while others are
    removed: side by side, their files cost six to ten times as much. With a journal there is no difference."""
    with suppress(OSError, ImportError), opened(str(folder), FOLDER) as place:
        from fcntl import ioctl

        (flags,) = struct.unpack("=L", ioctl(place, _GET_FLAGS, bytes(8))[:4])
        ioctl(place, _SET_FLAGS, struct.pack("=LL", flags | _TOP_OF_HIERARCHIES, 0))


def remove_tree(folder: Path) -> None:
    """Remove a state folder whose processes are dead, whatever permissions and depths they left."""
    with suppress(OSError, ValueError):  # rm removes the rest below
        with opened(str(folder), FOLDER) as place:
            empty(place)
        folder.rmdir()
    if folder.exists():
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, capture_output=True, timeout=600)
        subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=False, capture_output=True, timeout=600)


def copy_root(source: int, target: int, user: int | None, left_out: Collection[str], *, beside: Path) -> None:
    """Copy an open root (files without their holes, folders, links) to another, unused one, owned by ``user`` (None:
    this process's), except the paths ``left_out``. ``beside``: a folder on the same file system. Raises ``ValueError``
    for folders that nest too deeply."""
    with ExitStack() as stack:

        @functools.cache
        def aside() -> int:
            folder = tempfile.TemporaryDirectory(prefix="links-", dir=beside)
            return stack.enter_context(opened(stack.enter_context(folder), FOLDER))

        _Copying(user, left_out, aside).names(os.listdir(source), source, target)


@dataclass(frozen=True)
class _Copying:
    user: int | None
    left_out: Collection[str]
    aside: Callable[[], int]
    """Copies a tree, keeping hard links: a file with several names is held in a folder under its inode number, so that
    a fork does not contain it once per name."""

    def names(self, names: list[str], source: int, target: int, at: str = "", depth: int = 0) -> None:
        if depth > MAX_DEPTH:
            raise ValueError(f"folders nest deeper than {MAX_DEPTH}")
        for name in names:
            path = f"{at}/{name}"
            if path in self.left_out:
                continue
            with unless_changed():
                state = os.stat(name, dir_fd=source, follow_symlinks=False)
                if stat.S_ISDIR(state.st_mode):
                    self._folder(name, source, target, state, path, depth)
                elif stat.S_ISLNK(state.st_mode):
                    make_link(os.symlink, os.readlink(name, dir_fd=source), name, dir_fd=target)
                    own(name, target, self.user)
                elif stat.S_ISREG(state.st_mode) and state.st_nlink == 1:
                    _copy_file(name, source, name, target, state, self.user)
                elif stat.S_ISREG(state.st_mode):
                    _link_copy(name, source, target, state, self.user, self.aside())

    def _folder(self, name: str, source: int, target: int, state: os.stat_result, path: str, depth: int) -> None:
        with unlocked(name, source, state) as below:
            os.mkdir(name, 0o700, dir_fd=target)
            if names := os.listdir(below):  # noqa: PTH208 (most hold nothing, and need not be opened a second time)
                with opened(name, FOLDER, target) as made:
                    self.names(names, below, made, path, depth + 1)
        own(name, target, self.user)
        os.chmod(name, stat.S_IMODE(state.st_mode), dir_fd=target)
        os.utime(name, ns=(state.st_atime_ns, state.st_mtime_ns), dir_fd=target)


def _link_copy(name: str, source: int, target: int, state: os.stat_result, user: int | None, aside: int) -> None:
    """Copy one name of a hard-linked file, as a link to the copy made for its first name."""
    kept = str(state.st_ino)
    with suppress(FileExistsError):
        _copy_file(name, source, kept, aside, state, user)
    try:
        make_link(os.link, kept, name, src_dir_fd=aside, dst_dir_fd=target)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        os.rename(kept, name, src_dir_fd=aside, dst_dir_fd=target)


def _copy_file(name: str, source: int, as_name: str, target: int, state: os.stat_result, user: int | None) -> None:
    with ExitStack() as files:  # open the source first: if it is no longer a file, create none
        try:
            file, data = files.enter_context(opened(name, FILE, source)), b""
        except PermissionError:
            file, data = -1, content(source, name, state, state.st_size)
        made = files.enter_context(opened(as_name, NEW_FILE, target, 0o600))
        if file >= 0:
            _copy_data(file, made, state.st_size)
        else:
            write_all(made, data)
        own_open(made, user, state.st_mode)
        os.utime(made, ns=(state.st_atime_ns, state.st_mtime_ns))


def _copy_data(source: int, target: int, size: int) -> None:
    """Content without its holes."""
    at = 0
    while at < size:
        try:
            start = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # a hole up to the end
        end = min(size, os.lseek(source, start, os.SEEK_HOLE))
        os.lseek(source, start, os.SEEK_SET)
        os.lseek(target, start, os.SEEK_SET)
        at = start
        while at < end and (part := os.read(source, min(1 << 20, end - at))):
            write_all(target, part)
            at += len(part)
        if at < end:
            break  # cut shorter meanwhile
    if at < size:
        os.ftruncate(target, size)
