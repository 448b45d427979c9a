"""Differences of file trees as tars: packed, unpacked, refused where they would do harm. Pure: bytes in, values out.

A difference's tar holds changed paths without their leading slash, in order of their names, each with its owner's
numbers and a fixed time so that equal changes are equal bytes; when paths were removed, ``candidate.DELETED`` lists
them first."""

import io
import json
import tarfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

from hc_ray.domain.candidate import DELETED
from hc_ray.domain.ports import Difference
from hc_ray.domain.runner_paths import RUNNER_ROOT

CACHES = ("/var/lib/apt/lists", "/var/cache/apt", "/root/.cache/pip", "/root/.cache/uv")
"""What package managers download, more than 64 MiB at times; grading carries none of it."""
OUTSIDE = ("/proc", "/sys", "/dev", "/tmp", "/run", "/logs", "/tests", RUNNER_ROOT, f"/{DELETED}", *CACHES)
"""What no difference holds, with all that lies below: nobody writes the list of removed paths in our place."""

STAMP = 946_684_800
"""The time that every member of a difference bears: 2000-01-01."""

UNPACK_LIMIT = 1 << 30
"""Bytes that a tar may hold unpacked (holes of sparse members counted)."""


@dataclass(frozen=True)
class Member:
    """One path of a tree."""

    path: str
    """Absolute and normal: no ``..``, no double slash, no slash at the end."""
    kind: Literal["file", "folder", "link"]
    mode: int = 0o644
    data: bytes = b""
    """Content of a file."""
    target: str = ""
    """Where a symbolic link points, as it was written."""
    owner: tuple[int, int] = (0, 0)
    """User and group; root where a backend knows no owners."""


@dataclass(frozen=True)
class Change:
    """What a difference does to a tree: first remove, then write."""

    members: tuple[Member, ...]
    deleted: tuple[str, ...]


_KINDS = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}


def is_outside(path: str, named: Collection[str] = ()) -> bool:
    """Whether an absolute path never belongs to a difference. ``named``: paths that do, with all below them, though
    they lie in one of ``OUTSIDE``."""
    root = next((root for root in OUTSIDE if path == root or path.startswith(f"{root}/")), None)
    return root is not None and not any(
        f"{path}/".startswith(f"{one}/") or (path != root and one.startswith(f"{path}/")) for one in named
    )


def absolute(path: str, base: str = "/") -> str:
    """A path in normal form, relative ones taken from ``base``. Raises ``ValueError`` for one that has a ``..`` in it
    or a NUL: it could leave the root, and nothing needs it."""
    joined = PurePosixPath("/", base, path)
    if ".." in joined.parts or "\0" in path:
        raise ValueError(f"the path {path!r} leaves the root")
    return "/" + "/".join(joined.parts[1:])


def top_most(paths: Iterable[str]) -> list[str]:
    """Sorted, without those that lie below another."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda text: text.split("/")):
        if not kept or not (path == kept[-1] or path.startswith(f"{kept[-1].rstrip('/')}/")):
            kept.append(path)
    return kept


def pack(members: Iterable[Member], deleted: Iterable[str] = (), *, stamp: float = STAMP) -> Difference:
    """A difference of changed members and removed absolute paths. ``stamp``: the time that members bear."""
    changed = sorted(members, key=lambda member: member.path.split("/"))
    removed = top_most(deleted)
    buffer = io.BytesIO()
    # Of pax headers, the tarfile of Python before 3.11.10 and 3.12.6 reads long numbers in quadratic time.
    listing = [Member(DELETED, "file", data=json.dumps(removed).encode())] if removed else []
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for member in (*listing, *changed):
            info = tarfile.TarInfo(member.path.lstrip("/"))
            info.type, info.linkname, info.mtime = _KINDS[member.kind], member.target, stamp
            info.mode = 0o777 if member.kind == "link" else member.mode & 0o7777
            info.size, (info.uid, info.gid) = len(member.data), member.owner
            tar.addfile(info, io.BytesIO(member.data))
    paths = tuple(sorted(member.path for member in changed))
    return Difference(changed=paths, deleted=tuple(sorted(removed)), tar=buffer.getvalue())


def unpack(tar: bytes, *, limit: int = UNPACK_LIMIT) -> Change:
    """Read a difference's tar. Raises ``ValueError`` for what is no tar, for members that would leave the root, for
    devices, pipes and sockets, and for more than ``limit`` bytes."""
    members: dict[str, Member] = {}
    deleted: tuple[str, ...] = ()
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as archive:
            for info in archive:
                total += info.size
                if info.size < 0 or total > limit:  # a negative one leads ``tarfile`` back, for ever
                    raise ValueError(f"the tar holds more than {limit} bytes")
                if _path_of(info) == f"/{DELETED}":
                    deleted = read_deleted(archive.extractfile(info))
                    continue
                member = _other_name(info, members) if info.islnk() else member_of(archive, info, _path_of(info))
                if member is None:
                    raise ValueError(f"the member {info.name!r} is no file, folder or link")
                total += len(member.data) if info.islnk() else 0  # whose header has no size
                if member.path != "/":
                    members[member.path] = member
    except (tarfile.TarError, EOFError, KeyError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a tar of files: {error}") from error
    return Change(members=tuple(members.values()), deleted=deleted)


def member_of(archive: tarfile.TarFile, info: tarfile.TarInfo, path: str) -> Member | None:
    """What a tar holds for a path; None for devices, pipes and sockets. Hard links have no content of their own."""
    mode, owner = info.mode & 0o7777, (info.uid, info.gid)
    if info.isdir():
        return Member(path, "folder", mode, owner=owner)
    if info.issym() and "\0" not in info.linkname:  # where it would end, for whoever makes the link
        return Member(path, "link", 0o777, target=info.linkname, owner=owner)
    content = archive.extractfile(info) if info.isreg() else None
    return Member(path, "file", mode, data=content.read(), owner=owner) if content is not None else None


def _other_name(info: tarfile.TarInfo, members: Mapping[str, Member]) -> Member:
    """A hard link is a copy of what it links to. Looked up here: ``tarfile`` goes through all members for each link."""
    first = members.get(absolute(info.linkname))
    if first is None or first.kind == "folder":
        raise ValueError(f"the member {info.name!r} is a hard link to something that the tar does not hold before it")
    return replace(first, path=_path_of(info))


def _path_of(info: tarfile.TarInfo) -> str:
    if info.name.startswith("/"):
        raise ValueError(f"the member {info.name!r} leaves the root")
    return absolute(info.name)


def read_deleted(content: object) -> tuple[str, ...]:
    """Removed paths. Raises ``ValueError`` where the member is not a JSON list of absolute paths below the root."""
    listed = json.loads(content.read()) if hasattr(content, "read") else None
    if not isinstance(listed, list) or not all(isinstance(path, str) and path.startswith("/") for path in listed):
        raise ValueError(f"{DELETED} is no list of absolute paths")
    paths = tuple(absolute(path) for path in listed)
    if "/" in paths:
        raise ValueError(f"{DELETED} removes the root")
    return paths
