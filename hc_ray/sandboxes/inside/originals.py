"""What lies at a path, and putting back what lay there: after each test of a suite, and where states take turns.
Standard library only."""

from __future__ import annotations

import os
import shutil
import stat

Facts = tuple[str, int, int, int, int, int, int, str, int]
"""Kind, mode, owner, group, size, time of its content, time of its state (which nobody can set), where a link leads,
inode."""


def facts(path: str) -> Facts | None:
    """None where nothing lies; the kind of devices, pipes and sockets, which nobody puts back, is ``other``."""
    try:
        state = os.lstat(path)
        link = os.readlink(path) if stat.S_ISLNK(state.st_mode) else ""
    except OSError:
        return None
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    kind, mode = kinds.get(stat.S_IFMT(state.st_mode), "other"), stat.S_IMODE(state.st_mode)
    times = (state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return (kind, mode, state.st_uid, state.st_gid, *times, link, state.st_ino)


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.remove(path)


def clear(path: str, *, keep_folder: bool) -> None:
    """Make room for something at a path."""
    if not keep_folder or not os.path.isdir(path) or os.path.islink(path):
        remove(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)


def put_back(path: str, was: Facts, copy: str) -> None:
    """Have there what lay there; of a file ``copy`` holds the content. Folders come before what they hold."""
    kind, mode, uid, gid, _, time_ns, _, target, _ = was
    clear(path, keep_folder=kind == "folder")
    if kind == "link":
        os.symlink(target, path)
    elif kind == "folder":
        os.makedirs(path, exist_ok=True)
    else:
        shutil.copyfile(copy, path)
        os.utime(path, ns=(time_ns, time_ns))
    os.chown(path, uid, gid, follow_symlinks=False)
    if kind != "link":  # a new owner takes the right to run as the owner away
        os.chmod(path, mode)
