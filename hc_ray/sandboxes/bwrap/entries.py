"""The state of one path in a sandbox's root, at its creation and for a difference."""

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hc_ray.domain.filetree import Member
from hc_ray.sandboxes.descriptors import FILE, content, opened, unless_changed


@dataclass(frozen=True)
class Entry:
    """The state of one path when the sandbox was created."""

    kind: Literal["file", "folder", "link", "other"]
    mode: int
    target: str = ""
    digest: str = ""
    stamp: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Inode, size, mtime and ctime in ns. Equal stamps mean equal files, since nobody can set the ctime."""


Manifest = Mapping[str, Entry]


def kind_of(state: os.stat_result) -> Literal["file", "folder", "link", "other"]:
    if stat.S_ISREG(state.st_mode):
        return "file"
    if stat.S_ISDIR(state.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(state.st_mode) else "other"


def stamp_of(state: os.stat_result) -> tuple[int, int, int, int]:
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def member_of(
    path: str, kind: Literal["file", "folder", "link"], state: os.stat_result, folder: int, name: str, limit: int
) -> Member | None:
    mode = stat.S_IMODE(state.st_mode)
    with unless_changed():
        if kind == "folder":
            return Member(path, "folder", mode)
        if kind == "link":
            return Member(path, "link", 0o777, target=os.readlink(name, dir_fd=folder))
        return Member(path, "file", mode, data=content(folder, name, state, limit + 1))
    return None


def entry_of(state: os.stat_result, folder: int, name: str) -> Entry:
    kind, mode = kind_of(state), stat.S_IMODE(state.st_mode)
    if kind == "file":
        digest = hashlib.sha256()
        with opened(name, FILE, folder) as file:
            while part := os.read(file, 1 << 20):
                digest.update(part)
        return Entry(kind, mode, digest=digest.hexdigest(), stamp=stamp_of(state))
    return Entry(kind, mode, target=os.readlink(name, dir_fd=folder) if kind == "link" else "")


def is_same(old: Entry, member: Member) -> bool:
    digest = hashlib.sha256(member.data).hexdigest() if member.kind == "file" else ""
    return (old.kind, old.mode, old.target, old.digest) == (member.kind, member.mode, member.target, digest)
