"""Operations on folders and files by open descriptors, for ``bwrap.files`` and ``bwrap.copy``. None follows a link or
blocks on a pipe that hostile code put in a file's place."""

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
"""The deepest nesting of folders; every level costs a descriptor."""


NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EISDIR, errno.ENAMETOOLONG,
           errno.EINVAL}  # fmt: skip
"""Errors which mean that a path has no readable file."""
_CHANGED = frozenset(
    getattr(errno, name) for name in ("ENOENT", "ENOTDIR", "ELOOP", "ENXIO", "EINVAL", "EEXIST", "EACCES")
)


@contextmanager
def unless_changed() -> Iterator[None]:
    """Ignore a name that has vanished, is locked, or has changed its kind since it was seen: code inside may change it
    at any time, and a folder listing may even contain it twice."""
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
    """Open a folder even if code inside removed its read permission (for its owner; root needs none)."""
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
    """Remove the content of an open folder. Raises ``OSError``, or ``ValueError`` for folders nested too deeply."""
    if depth > MAX_DEPTH:
        raise ValueError(f"folders nest deeper than {MAX_DEPTH}")
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
            continue
        try:  # most folders are empty, which takes one call instead of ten
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
    """Restore this user's permissions on its own open folder if they were removed; returns the previous mode."""
    if os.geteuid() == 0:
        return None
    state = os.fstat(folder)
    if state.st_uid != os.geteuid() or state.st_mode & 0o700 == 0o700:
        return None
    os.chmod(f"/proc/self/fd/{folder}", stat.S_IMODE(state.st_mode) | 0o700)  # noqa: PTH101
    return stat.S_IMODE(state.st_mode)


def let_in(folder: int) -> None:
    """Give an open folder's owner permission to enter and change it."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(f"/proc/self/fd/{folder}", mode | 0o700)  # noqa: PTH101 (the open folder itself, never a name)


def own(name: str, folder: int, user: int | None) -> None:
    """Change the owner of a name in an open folder, not of a link's target (None: keep this process's user)."""
    if user is not None:
        os.chown(name, user, user, dir_fd=folder, follow_symlinks=False)


def own_open(file: int, user: int | None, mode: int) -> None:
    """Like ``own``, for an open file or folder, whose mode is also set."""
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
