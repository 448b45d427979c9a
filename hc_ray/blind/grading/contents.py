"""Reading a submission, and packing it again without what does not travel. Pure: bytes in, values out."""

import contextlib
import io
import json
import posixpath
import tarfile
from collections.abc import Callable, Collection, Iterator, Sequence

from hc_ray.domain.candidate import DELETED
from hc_ray.domain.filetree import read_deleted
from hc_ray.domain.value import Value

_DEEPEST = 256
"""Folders inside each other: far beyond any honest tree, far below what ends a recursion over it."""
_TEXT_LIMIT = 1 << 20
_READ = ("/etc/passwd", "/etc/group")
ENTRY_POINTS = "entry_points.txt"


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
    """Members that are symbolic or hard links, with what symbolic ones name."""
    texts: dict[str, str] = {}
    """Of the few members whose text decides: accounts, and what packages announce themselves by; none of those that are
    longer than any honest one."""


def read_contents(tar: bytes) -> Contents:
    """List a submission. Raises ``Refused`` for one that is no tar, or with members that could land elsewhere than
    their name says: doubles, ``..``, devices, members below a link of the same tar, hard links out of it."""
    if not tar:
        return Contents()
    members: dict[str, tarfile.TarInfo] = {}
    texts: dict[str, str] = {}
    links: dict[str, str] = {}
    deleted: tuple[str, ...] = ()
    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as archive:
            for member in archive:
                if member.name == DELETED and member.isfile():
                    deleted = tuple(map(absolute, read_deleted(archive.extractfile(member))))
                    continue
                path = absolute(member.name)
                if path in members:
                    raise Refused(f"{path} is there twice")
                if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
                    raise Refused(f"{path} is neither file, folder nor link")
                if member.issparse():
                    raise Refused(f"{path} is sparse: what it unpacks to has no bound")
                if member.islnk() and absolute(member.linkname) not in members:
                    raise Refused(f"{path} is a hard link to something that was not handed in")
                if any(parent in members and members[parent].issym() for parent in parents(path)):
                    raise Refused(f"{path} lies below a link")
                decides = member.isfile() and (path in _READ or posixpath.basename(path) == ENTRY_POINTS)
                if decides and member.size <= _TEXT_LIMIT and (file := archive.extractfile(member)):
                    texts[path] = file.read().decode(errors="replace")
                if member.issym() or member.islnk():
                    links[path] = member.linkname if member.issym() else links.get(absolute(member.linkname), "")
                members[path] = member
    except (tarfile.TarError, EOFError, ValueError, LookupError, OverflowError, RecursionError) as error:
        raise Refused(str(error)) from None
    folders = tuple(path for path, member in members.items() if member.isdir())
    return Contents(members=tuple(members), deleted=deleted, folders=folders, links=links, texts=texts)


def absolute(name: str) -> str:
    """A member's place. Raises ``Refused`` for one that leaves the root or lies absurdly deep."""
    parts = name.split("/")
    if ".." in parts:
        raise Refused(f"{name} leaves its folder")
    if len(parts) > _DEEPEST:
        raise Refused(f"{name[:60]}... is more than {_DEEPEST} folders deep")
    return posixpath.normpath("/" + name.lstrip("/"))


def parents(path: str) -> list[str]:
    """The folders that a path lies in, without the root."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts))]


def without(tar: bytes, dropped: Collection[str], removed: Sequence[str], mode: Callable[[str, int], int]) -> bytes:
    """The tar again, without some members, with another list of removed paths, and with modes as ``mode`` has them."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(tar)) as archive,
        tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as kept,
    ):
        if removed:
            listing = json.dumps(sorted(removed)).encode()
            info = tarfile.TarInfo(DELETED)
            info.size = len(listing)
            kept.addfile(info, io.BytesIO(listing))
        for member in archive:
            if member.name == DELETED or (path := absolute(member.name)) in dropped:
                continue
            if member.islnk() and absolute(member.linkname) in dropped:
                continue
            member.mode = mode(path, member.mode)
            kept.addfile(member, archive.extractfile(member) if member.isfile() else None)
    return out.getvalue()
