"""Packs and unpacks differences of file trees as tars, refusing harmful ones. Pure: bytes in, values out.

A difference's tar holds changed paths without their leading slash, sorted, with numeric owners and a fixed time, so
that equal changes give equal bytes; if paths were removed, its first member ``candidate.DELETED`` lists them."""

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
"""Package managers' caches, which may exceed 64 MiB; grading leaves them out."""
OUTSIDE = ("/proc", "/sys", "/dev", "/tmp", "/run", "/logs", "/tests", RUNNER_ROOT, f"/{DELETED}", *CACHES)
"""Paths that no difference contains, including everything below; ``DELETED``, so that nobody can forge that list."""

STAMP = 946_684_800
"""Modification time of every member of a difference: 2000-01-01."""

UNPACK_LIMIT = 1 << 30
"""Maximum unpacked size of a tar in bytes, including holes of sparse members."""


@dataclass(frozen=True)
class Member:
    """One path of a tree."""

    path: str
    """Absolute and normalised: no ``..``, no double slash, no trailing slash."""
    kind: Literal["file", "folder", "link"]
    mode: int = 0o644
    data: bytes = b""
    """Content of a file."""
    target: str = ""
    """A symbolic link's target, as written."""
    owner: tuple[int, int] = (0, 0)
    """Numeric user and group; root if the backend has no owners."""


@dataclass(frozen=True)
class Change:
    """A difference, to apply to a tree: first remove ``deleted``, then write ``members``."""

    members: tuple[Member, ...]
    deleted: tuple[str, ...]


_KINDS = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}


def is_outside(path: str, named: Collection[str] = ()) -> bool:
    """Whether differences leave out an absolute path. ``named``: paths inside ``OUTSIDE`` that differences include,
    with everything below."""
    root = next((root for root in OUTSIDE if path == root or path.startswith(f"{root}/")), None)
    return root is not None and not any(
        f"{path}/".startswith(f"{one}/") or (path != root and one.startswith(f"{path}/")) for one in named
    )


def absolute(path: str, base: str = "/") -> str:
    """Normalise a path; relative ones start at ``base``. Raises ``ValueError`` for a path with ``..``, which could
    leave the root, or NUL."""
    joined = PurePosixPath("/", base, path)
    if ".." in joined.parts or "\0" in path:
        raise ValueError(f"the path {path!r} leaves the root")
    return "/" + "/".join(joined.parts[1:])


def top_most(paths: Iterable[str]) -> list[str]:
    """The paths, sorted, without those below another."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda text: text.split("/")):
        if not kept or not (path == kept[-1] or path.startswith(f"{kept[-1].rstrip('/')}/")):
            kept.append(path)
    return kept


def pack(members: Iterable[Member], deleted: Iterable[str] = (), *, stamp: float = STAMP) -> Difference:
    """Pack changed members and removed absolute paths into a difference. ``stamp``: the members' modification time."""
    changed = sorted(members, key=lambda member: member.path.split("/"))
    removed = top_most(deleted)
    buffer = io.BytesIO()
    # In pax headers, tarfile reads long numbers in quadratic time before Python 3.11.10 and 3.12.6.
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
    """Read a difference's tar. Raises ``ValueError`` if it is not a tar, has members that would leave the root,
    devices, pipes or sockets, or exceeds ``limit`` bytes unpacked."""
    members: dict[str, Member] = {}
    deleted: tuple[str, ...] = ()
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as archive:
            for info in archive:
                total += info.size
                if info.size < 0 or total > limit:  # a negative size would make ``tarfile`` loop forever
                    raise ValueError(f"the tar contains more than {limit} bytes")
                if _path_of(info) == f"/{DELETED}":
                    deleted = read_deleted(archive.extractfile(info))
                    continue
                member = _other_name(info, members) if info.islnk() else member_of(archive, info, _path_of(info))
                if member is None:
                    raise ValueError(f"the member {info.name!r} is not a file, folder or link")
                total += len(member.data) if info.islnk() else 0  # a hard link's header has no size
                if member.path != "/":
                    members[member.path] = member
    except (tarfile.TarError, EOFError, KeyError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a tar of files: {error}") from error
    return Change(members=tuple(members.values()), deleted=deleted)


def member_of(archive: tarfile.TarFile, info: tarfile.TarInfo, path: str) -> Member | None:
    """A tar's member; None for devices, pipes and sockets. Hard links have no content of their own."""
    mode, owner = info.mode & 0o7777, (info.uid, info.gid)
    if info.isdir():
        return Member(path, "folder", mode, owner=owner)
    if info.issym() and "\0" not in info.linkname:  # the target would end at a NUL
        return Member(path, "link", 0o777, target=info.linkname, owner=owner)
    content = archive.extractfile(info) if info.isreg() else None
    return Member(path, "file", mode, data=content.read(), owner=owner) if content is not None else None


def _other_name(info: tarfile.TarInfo, members: Mapping[str, Member]) -> Member:
    """Resolve a hard link to a copy of its target. Done here, since ``tarfile`` scans all members for each link."""
    first = members.get(absolute(info.linkname))
    if first is None or first.kind == "folder":
        raise ValueError(f"the member {info.name!r} is a hard link to a file that does not precede it in the tar")
    return replace(first, path=_path_of(info))


def _path_of(info: tarfile.TarInfo) -> str:
    if info.name.startswith("/"):
        raise ValueError(f"the member {info.name!r} leaves the root")
    return absolute(info.name)


def read_deleted(content: object) -> tuple[str, ...]:
    """Parse the removed paths. Raises ``ValueError`` unless they are a JSON list of absolute paths below the root."""
    listed = json.loads(content.read()) if hasattr(content, "read") else None
    if not isinstance(listed, list) or not all(isinstance(path, str) and path.startswith("/") for path in listed):
        raise ValueError(f"{DELETED} is not a list of absolute paths")
    paths = tuple(absolute(path) for path in listed)
    if "/" in paths:
        raise ValueError(f"{DELETED} removes the root")
    return paths
