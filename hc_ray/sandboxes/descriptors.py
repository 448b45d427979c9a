"""Folders and files by open descriptor: the steps that ``bwrap.files`` and ``bwrap.copy`` are made of. No step follows
a link, and none waits on a pipe that hostile code put in a file's place."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from hc_ray.machine.sealed_guard import make_link as make_link
from hc_ray.machine.sealed_guard import open_at as open_at

_O_PATH: int = getattr(os, "O_PATH", 0)
"""Linux only; other systems may import this module, and are told by ``bwrap.sandbox.probe`` why they cannot use it."""
PATH_ONLY = _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_DEPTH = 200
"""Folders within folders that are looked at; every level costs a descriptor."""


NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EISDIR, errno.ENAMETOOLONG,
           errno.EINVAL}  # fmt: skip
"""What says that a path leads to no file that can be read."""
_CHANGED = frozenset(
    getattr(errno, name) for name in ("ENOENT", "ENOTDIR", "ELOOP", "ENXIO", "EINVAL", "EEXIST", "EACCES")
)


@contextmanager
def unless_changed() -> Iterator[None]:
    """Pass over a name that is gone by now, locked, or another thing than it was when it was looked at: whatever runs
    inside may change it at any time, and a folder's list may then name it twice."""
    try:
        yield
    except OSError as error:
        if error.errno not in _CHANGED:
            raise


@contextmanager
def opened(name: str, flags: int, folder: int | None = None, mode: int = 0o600) -> Iterator[int]:
    file = os.open(name, flags, mode) if folder is None else open_at(name, flags, folder, mode)
    try:
        yield file
    finally:
        os.close(file)


@contextmanager
def unlocked(name: str, folder: int, state: os.stat_result) -> Iterator[int]:
    """An open folder, though whoever runs inside took the right to read it away (for its owner; root needs none)."""
    locked = os.geteuid() == state.st_uid and state.st_mode & 0o700 != 0o700
    if locked:
        with opened(name, PATH_ONLY | os.O_DIRECTORY, folder) as place:
            os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101 (the open folder itself, never a name)
    below = open_at(name, FOLDER, folder)
    try:
        yield below
    finally:
        if locked:
            os.fchmod(below, stat.S_IMODE(state.st_mode))
        os.close(below)


def empty(folder: int, depth: int = 0) -> None:
    """Remove all that an open folder holds. Raises ``OSError``, or ``ValueError`` for folders nested too deeply."""
    if depth > MAX_DEPTH:
        raise ValueError(f"folders nest deeper than {MAX_DEPTH}")
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
            continue
        try:  # most hold nothing: that is one call instead of ten
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            with unlocked(name, folder, os.stat(name, dir_fd=folder, follow_symlinks=False)) as below:
                empty(below, depth + 1)
            os.rmdir(name, dir_fd=folder)


def link_target(name: str, folder: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
            return None
        raise


def read_all(file: int, limit: int) -> bytes:
    parts = []
    while limit > 0 and (part := os.read(file, min(limit, 1 << 20))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def unlock_folder(folder: int) -> int | None:
    """Give this process's user its rights on an open folder of its own back, should they have been taken away. Answers
    the mode that it had then."""
    if os.geteuid() == 0:
        return None
    state = os.fstat(folder)
    if state.st_uid != os.geteuid() or state.st_mode & 0o700 == 0o700:
        return None
    os.chmod(f"/proc/self/fd/{folder}", stat.S_IMODE(state.st_mode) | 0o700)  # noqa: PTH101
    return stat.S_IMODE(state.st_mode)


def let_in(folder: int) -> None:
    """Give whoever owns an open folder the right to enter and change it."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(f"/proc/self/fd/{folder}", mode | 0o700)  # noqa: PTH101 (the open folder itself, never a name)


def own(name: str, folder: int, user: int | None) -> None:
    """Give a name in an open folder, and no file that it links to, to a user (None: it is this process's)."""
    if user is not None:
        os.chown(name, user, user, dir_fd=folder, follow_symlinks=False)


def own_open(file: int, user: int | None, mode: int) -> None:
    """The same for an open file or folder, which gets a mode."""
    if user is not None:
        os.fchown(file, user, user)
    os.fchmod(file, stat.S_IMODE(mode))


def content(folder: int, name: str, state: os.stat_result, limit: int) -> bytes:
    try:
        with opened(name, FILE, folder) as file:
            return read_all(file, limit) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    except PermissionError:
        with opened(name, PATH_ONLY, folder) as place:
            if not stat.S_ISREG(os.fstat(place).st_mode):
                return b""
            place_path = f"/proc/self/fd/{place}"
            os.chmod(place_path, 0o600)  # noqa: PTH101 (the open file itself, never a name)
            try:
                with opened(place_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) as file:
                    return read_all(file, limit)
            finally:
                os.chmod(place_path, stat.S_IMODE(state.st_mode))  # noqa: PTH101
