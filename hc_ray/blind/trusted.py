"""The trusted set: what ``test.sh`` resolves in the untouched image (programs, libraries, start-up files). A submission
may not change, remove or shadow it; what it adds to it is left behind; everything else is carried into the grading."""

import io
import json
import posixpath
import re
import sys
import tarfile
from collections.abc import Collection, Sequence

from hc_ray.candidate import DELETED
from hc_ray.value import Value

_FOLDERS = ("/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/opt/hc")
_FILES = re.compile(
    r"/etc/(ld\.so\.(preload|conf)|ld\.so\.conf\.d/.*|environment|profile|bash\.bashrc|python3?[^/]*/.*)"
    r"|/etc/(pip\.conf|uv/.*|wgetrc)"
    r"|(/root|/home/[^/]+)/(\.bashrc|\.bash_profile|\.profile|\.local/(bin|lib)/.*|\.config/(pip|uv)/.*|\.pdbrc)"
    r"|(/root|/home/[^/]+)/(\.pip/.*|\.curlrc|\.wgetrc|\.netrc)"
    r"|/etc|/etc/(ld\.so\.conf\.d|uv)|/opt|(/root|/home/[^/]+)(/\.local(/bin|/lib)?|/\.config|/\.pip)?|/home"
    r"|/(conftest\.py|pytest\.ini|\.pytest\.ini|pytest\.toml|tox\.ini|setup\.cfg|pyproject\.toml)"
    r"|(.*/)?(sitecustomize|usercustomize)(\.py|/.*)|.*\.pth|(.*/)?(site|dist)-packages/.*"
)
_TRANSIENT = ("/proc", "/sys", "/dev", "/run", "/tmp", "/logs", "/tests", "/solution", "/var/run")
_REGISTERED = ("/etc/alternatives", "/etc/ld.so.cache")
"""What installing a package rewrites. The tests resolve programs and libraries through it, so it stays as the image
has it, and a change is no tampering."""
_NEVER_A_CHANGE = {"/usr/sbin/docker-init", "/sbin/docker-init"}
"""Docker shows its own init as an added file."""
_STAYS = (*_TRANSIENT, *_REGISTERED)
_DEEPEST = 256
"""Folders inside each other: far beyond any honest tree, far below what ends a recursion over it."""
_PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py", "hc_witness")


class Refused(ValueError):
    """A submission that no honest difference looks like."""


class Contents(Value):
    """What a submission holds. Paths are absolute."""

    members: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """Members that are folders: they carry modes, and are no change of what lies in them."""


class Image(Value):
    """What the probe found in the untouched image."""

    exists: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    bash: bool = True
    pytest: str = "none"


class Carried(Value):
    """What becomes of a submission."""

    tar: bytes
    left_behind: tuple[str, ...] = ()
    tampered: tuple[str, ...] = ()


def read_contents(tar: bytes) -> Contents:
    """List a submission. Raises ``Refused`` for one that is no tar, or with members that could land elsewhere than
    their name says: doubles, ``..``, devices, members below a link of the same tar, hard links out of it."""
    if not tar:
        return Contents()
    members: dict[str, None] = {}
    folders: list[str] = []
    links: set[str] = set()
    deleted: tuple[str, ...] = ()
    try:
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            for member in archive:
                if member.name == DELETED:
                    deleted = _deleted(archive.extractfile(member))
                    continue
                path = _absolute(member.name)
                if path in members:
                    raise Refused(f"{path} is there twice")
                if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
                    raise Refused(f"{path} is neither file, folder nor link")
                if member.issparse():
                    raise Refused(f"{path} is sparse: what it unpacks to has no bound")
                if member.islnk() and _absolute(member.linkname) not in members:
                    raise Refused(f"{path} is a hard link to something that was not handed in")
                if any(parent in links for parent in _parents(path)):
                    raise Refused(f"{path} lies below a link")
                if member.issym():
                    links.add(path)
                if member.isdir():
                    folders.append(path)
                members[path] = None
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise Refused(str(error)) from None
    return Contents(members=tuple(members), deleted=deleted, folders=tuple(folders))


def _deleted(file: io.BufferedIOBase | object | None) -> tuple[str, ...]:
    content = file.read() if isinstance(file, io.BufferedIOBase) else b""
    listed = json.loads(content)
    if not isinstance(listed, list):
        raise Refused("the list of removed paths is no list")
    paths = tuple(_absolute(str(path)) for path in listed)
    if "/" in paths:
        raise Refused("everything was removed")
    return paths


def _absolute(name: str) -> str:
    parts = name.split("/")
    if ".." in parts:
        raise Refused(f"{name} leaves its folder")
    if len(parts) > _DEEPEST:
        raise Refused(f"{name[:60]}... is more than {_DEEPEST} folders deep")
    return posixpath.normpath("/" + name.lstrip("/"))


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts))]


def shadow_names(contents: Contents, workdir: str) -> tuple[str, ...]:
    """Top-level module names in the workdir (first on ``sys.path`` of ``python -m pytest``) that also name a part of
    the standard library or of pytest: the probe says which of them a session really loads."""
    known = {*sys.stdlib_module_names, *_PYTEST}
    return tuple(sorted({name for path in contents.members if (name := _top_module(path, workdir)) in known}))


def _top_module(path: str, workdir: str) -> str:
    prefix = workdir.rstrip("/") + "/"
    if not path.startswith(prefix):
        return ""
    first, _, rest = path.removeprefix(prefix).partition("/")
    if rest:
        return first
    module, dot, suffix = first.partition(".")
    return module if dot and suffix.split(".")[-1] in ("py", "pyc", "so") else ""


def to_probe(contents: Contents) -> tuple[str, ...]:
    """The paths of which the probe has to say whether the image has them."""
    folders = set(contents.folders)
    return tuple(path for path in contents.members if path not in folders)


def _trusted(path: str, search: Collection[str]) -> bool:
    return _below(path, _FOLDERS) or _FILES.fullmatch(path) is not None or posixpath.dirname(path) in search


def _below(path: str, folders: Collection[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def sort_out(tar: bytes, contents: Contents, image: Image, workdir: str) -> Carried:
    """Split a submission into what is carried and what is not, and name what it tampered with."""
    if not tar:
        return Carried(tar=b"")
    exists, folders = set(image.exists), set(contents.folders)
    left: list[str] = []
    tampered: list[str] = []
    for path in contents.members:
        if _below(path, _STAYS) or path in _NEVER_A_CHANGE:
            left.append(path)
        elif _trusted(path, image.path) and path not in folders:
            (tampered if path in exists else left).append(path)
        elif path not in exists and (_top_module(path, workdir) in image.loaded or _is_witness(path)):
            tampered.append(path)
    removed = [path for path in contents.deleted if not _below(path, _STAYS)]
    tampered += [path for path in removed if _trusted(path, image.path) and path not in _NEVER_A_CHANGE]
    return Carried(
        tar=_without(tar, {*left, *tampered}, removed),
        left_behind=tuple(sorted(left)),
        tampered=tuple(sorted(tampered)),
    )


def _is_witness(path: str) -> bool:
    return any(part.split(".")[0] == "hc_witness" for part in path.split("/"))


def _without(tar: bytes, dropped: Collection[str], removed: Sequence[str]) -> bytes:
    """The tar again, without some members and with another list of removed paths."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive, tarfile.open(fileobj=out, mode="w") as kept:
        if removed:
            listing = json.dumps(sorted(removed)).encode()
            info = tarfile.TarInfo(DELETED)
            info.size = len(listing)
            kept.addfile(info, io.BytesIO(listing))
        for member in archive:
            if member.name == DELETED or _absolute(member.name) in dropped:
                continue
            if member.islnk() and _absolute(member.linkname) in dropped:
                continue
            kept.addfile(member, archive.extractfile(member) if member.isfile() else None)
    return out.getvalue()
