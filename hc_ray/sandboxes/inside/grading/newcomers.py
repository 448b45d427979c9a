"""Which names come into folders, or go from them, while somebody else's processes live beside: by inotify, which no
process can undo, however short its stay. Standard library only."""

import ctypes
import errno
import os
import re
import struct

MYPY = False
if MYPY:
    from collections.abc import Collection, Iterator, Mapping

_ONLY_FOLDERS, _UNFOLLOWED, _NAMED = 0x1000000, 0x2000000, 0x40 | 0x80 | 0x100 | 0x200
"""Names that were moved away or here, made, removed."""
_OVERFLOW = 0x4000
_HEAD = struct.Struct("iIII")
_MODULE = re.compile(r"([A-Za-z_]\w*)((\.[\w-]+)*\.(py|pyc|so))?")


def matters(name: str, names: "Collection[str]") -> bool:
    """Whether a name in a folder is one of those that matter there."""
    found = _MODULE.fullmatch(name)
    return name in names or (found is not None and found[1] in names)


def within(folders: "Mapping[str, list[str]]") -> "Iterator[tuple[str, list[str]]]":
    """The folders, and those in them of one of their names: what is there would make a module of such a one."""
    for folder, names in folders.items():
        yield folder, names
        for name in names:
            if os.path.isdir(place := f"{folder.rstrip('/')}/{name}"):
                yield place, ["__init__"]


def present(folders: "Mapping[str, list[str]]") -> "list[str]":
    """What has such a name there now, but for folders."""
    found = []
    for folder, names in within(folders):
        try:
            with os.scandir(folder) as entries:
                found += [entry.path for entry in entries
                          if matters(entry.name, names) and not entry.is_dir(follow_symlinks=False)]  # fmt: skip
        except OSError:
            continue
    return found


class Newcomers:
    """Watches until it is asked. Raises ``OSError`` where the kernel does not let it."""

    def __init__(self, folders: "Mapping[str, list[str]]") -> None:
        """``folders``: by their real paths, with the names of modules (or folders) that matter there."""
        libc = ctypes.CDLL(None, use_errno=True)
        self.file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.file < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._folders: dict[int, tuple[str, frozenset[str]]] = {}
        self.seen: set[str] = set()
        for folder, names in within(folders):
            place = os.fsencode(os.path.realpath(folder))
            watch = libc.inotify_add_watch(self.file, place, _NAMED | _ONLY_FOLDERS | _UNFOLLOWED)
            if watch >= 0:
                told, before = self._folders.get(watch, (folder, frozenset()))
                self._folders[watch] = (told, before.union(names))
            elif ctypes.get_errno() not in (errno.ENOENT, errno.ENOTDIR):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def hear(self, file: int = -1) -> None:
        """Take what has happened since."""
        while True:
            try:
                told = os.read(self.file, 1 << 16)
            except BlockingIOError:
                return
            at = 0
            while at < len(told):
                watch, kind, _, size = _HEAD.unpack_from(told, at)
                name = told[at + _HEAD.size : at + _HEAD.size + size].rstrip(b"\0").decode(errors="surrogateescape")
                at += _HEAD.size + size
                if kind & _OVERFLOW:
                    self.seen |= {folder for folder, _ in self._folders.values()}
                    continue
                folder, names = self._folders.get(watch, ("", frozenset()))
                if matters(name, names):
                    self.seen.add(f"{folder.rstrip('/')}/{name}")
