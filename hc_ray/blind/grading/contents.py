"""Reads a submission, and repacks it without the parts that are not carried. Pure: bytes in, values out."""

import contextlib
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from hc_ray.domain.filetree import Change, pack, unpack
from hc_ray.domain.value import Value

_DEEPEST = 256
"""The deepest nesting of folders: far beyond any honest tree, far below the recursion limit."""
_TEXT_LIMIT = 1 << 20
_FURTHER_NAMES = 64 << 20
"""Bytes that a tar may exceed its own size by when unpacked, by hard links."""
_READ = ("/etc/passwd", "/etc/group")
ENTRY_POINTS = "entry_points.txt"
_MODULE = re.compile(r"([A-Za-z_]\w*)(\.[\w-]+)*\.(py|pyc|so)")


class Refused(ValueError):
    """A submission that cannot be an honest difference."""


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Convert failures caused by a submission, or in a sandbox made by a candidate, to ``Refused``."""
    try:
        yield
    except ValueError as error:
        raise Refused(str(error)) from None


class Contents(Value):
    """The contents of a submission. Paths are absolute."""

    members: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """Members that are folders: they carry modes only, and do not change their content."""
    links: dict[str, str] = {}
    """Member that is a symbolic link → its target."""
    texts: dict[str, str] = {}
    """Texts of the few members whose content matters: account files and package metadata; without implausibly long
    ones."""


def read_contents(tar: bytes) -> Contents:
    """List a submission, as a sandbox would unpack it. Raises ``Refused`` if it is not a tar of files, folders and
    links, has members below one of its links, or is absurdly deep."""
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
    """The parent folders of a path, without the root."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts))]


def top_module(path: str, folder: str) -> str:
    """The top-level module of a path in a search folder; empty if it is not part of one."""
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
    """Repack the tar without some members, with another list of removed paths, and with modes from ``mode``."""
    kept = [one for one in _unpacked(tar).members if one.path not in dropped]
    return pack([replace(one, mode=mode(one.path, one.mode)) for one in kept], removed).tar
