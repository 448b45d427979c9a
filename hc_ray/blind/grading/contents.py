"""Reading a submission, and packing it again without what does not travel. Pure: bytes in, values out."""

import contextlib
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from hc_ray.domain.filetree import Change, pack, unpack
from hc_ray.domain.value import Value

_DEEPEST = 256
"""Folders inside each other: far beyond any honest tree, far below what ends a recursion over it."""
_TEXT_LIMIT = 1 << 20
_FURTHER_NAMES = 64 << 20
"""Bytes beyond its own that a tar may hold unpacked: files of several names."""
_READ = ("/etc/passwd", "/etc/group")
ENTRY_POINTS = "entry_points.txt"
_MODULE = re.compile(r"([A-Za-z_]\w*)(\.[\w-]+)*\.(py|pyc|so)")


class Refused(ValueError):
    """A submission that no honest difference looks like."""


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """What cannot be done with a submission, or in a sandbox that a candidate made, is its fault: ``Refused``."""
    try:
        yield
    except ValueError as error:
        raise Refused(str(error)) from None


class Contents(Value):
    """What a submission holds. Paths are absolute."""

    members: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """Members that are folders: they carry modes, and are no change of what lies in them."""
    links: dict[str, str] = {}
    """Members that are symbolic links, with what they name."""
    texts: dict[str, str] = {}
    """Of the few members whose text decides: accounts, and what packages announce themselves by; none of those that are
    longer than any honest one."""


def read_contents(tar: bytes) -> Contents:
    """List a submission, read as by a sandbox that is given it. Raises ``Refused`` for one that is no tar of files,
    folders and links, or with members that lie below a link of it, or are or lead absurdly deep."""
    if not tar:
        return Contents()
    change = _unpacked(tar)
    links = {one.path: one.target for one in change.members if one.kind == "link"}
    for path in (*(one.path for one in change.members), *change.deleted, *links.values()):
        if path.count("/") > _DEEPEST:
            raise Refused(f"{path[:60]}... is more than {_DEEPEST} folders deep")
    for one in change.members:
        if any(parent in links for parent in parents(one.path)):
            raise Refused(f"{one.path} lies below a link")
    decide = [one for one in change.members if one.path in _READ or posixpath.basename(one.path) == ENTRY_POINTS]
    return Contents(
        members=tuple(one.path for one in change.members),
        deleted=change.deleted,
        folders=tuple(one.path for one in change.members if one.kind == "folder"),
        links=links,
        texts={
            one.path: one.data.decode(errors="replace")
            for one in decide
            if one.kind == "file" and len(one.data) <= _TEXT_LIMIT
        },
    )


def _unpacked(tar: bytes) -> Change:
    with refusing():
        return unpack(tar, limit=len(tar) + _FURTHER_NAMES)


def parents(path: str) -> list[str]:
    """The folders that a path lies in, without the root."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts))]


def top_module(path: str, folder: str) -> str:
    """The top-level module that a path in a search folder belongs to; empty where it is none."""
    prefix = folder.rstrip("/") + "/"
    if not path.startswith(prefix):
        return ""
    first, _, rest = path.removeprefix(prefix).partition("/")
    if rest:
        return first
    found = _MODULE.fullmatch(first)
    return found[1] if found else first if first.isidentifier() else ""


def begins(path: str, folder: str) -> bool:
    """Whether what is imported from a folder begins with it: a folder in there without ``__init__`` hides no module."""
    return re.fullmatch(r"[^/]+(/__init__\.[^/]*)?", path.removeprefix(folder.rstrip("/") + "/")) is not None


def without(tar: bytes, dropped: Collection[str], removed: Sequence[str], mode: Callable[[str, int], int]) -> bytes:
    """The tar again, without some members, with another list of removed paths, and with modes as ``mode`` has them."""
    kept = [one for one in _unpacked(tar).members if one.path not in dropped]
    return pack([replace(one, mode=mode(one.path, one.mode)) for one in kept], removed).tar
