"""What changed in a container against the task's image, whatever lies between them (forks are commits, and Docker's own
diff knows the last one only): that diff says which paths were touched, and each is looked at now and in the image."""

import posixpath
import tarfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal

from hc_ray.domain.filetree import Member, is_outside, pack
from hc_ray.domain.ports import Difference
from hc_ray.domain.runner_paths import RUNNER_ROOT, RUNNER_SEALED
from hc_ray.domain.value import spelled
from hc_ray.sandboxes.docker.client import Daemon
from hc_ray.sandboxes.docker.values import Absent, DaemonRefusal, PathFacts

Touch = Literal["added", "modified", "whole"]
"""``added``: the image lacks it. ``modified``: look at the path itself. ``whole``: it was removed at some time, so that
what lies there now is compared with all that lay there."""

DOCKERS_OWN = frozenset({"/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/.dockerenv", RUNNER_SEALED})
UNSPELT = "\N{REPLACEMENT CHARACTER}"
"""What the daemon's list of changes has in the place of bytes of a name that are no UTF-8."""
SOLUTION = "/solution/"
"""Harbor's folder for the reference, which a user who is not root cannot remove when it has run."""
CROWD = 50
"""Touched paths of one folder beyond which it is read as a whole: a read of its own costs the daemon a process."""
MEMBER_LIMIT = 100_000
"""Paths that a difference may hold."""


def left_out(path: str) -> bool:
    return path == "/" or path in DOCKERS_OWN or is_outside(path) or f"{path}/".startswith(SOLUTION)


def ancestors(path: str) -> Iterator[str]:
    while (path := posixpath.dirname(path)) != "/":
        yield path


def merge(inherited: Mapping[str, Touch], changes: Mapping[str, int]) -> dict[str, Touch]:
    """The touched paths of a container whose image is a commit of one with ``inherited`` (none: the task's image).
    ``changes`` as of ``Daemon.changes``."""
    touched = dict(inherited)
    for path, kind in changes.items():
        if UNSPELT in path:  # its folder is compared with all that it holds
            folder = posixpath.dirname(path.partition(UNSPELT)[0] + "x")
            if not left_out(folder) and touched.get(folder) != "added":
                touched[folder] = "whole"
            continue
        if left_out(path) or touched.get(path) == "added":
            continue
        if kind == 2:
            touched[path] = "whole"
        elif path not in touched:
            touched[path] = "added" if kind == 1 else "modified"
    return touched


def put_changes(members: Iterable[Member], stat: Callable[[str], PathFacts | None]) -> dict[str, int] | None:
    """What ``docker diff`` says of an untouched container after nothing but these were put into it. None where that is
    more than their names tell: links, names that are no UTF-8, and one kind of thing in the place of another. ``stat``:
    of the image."""
    found: dict[str, int] = {}
    for member in members:
        if spelled(member.path) != member.path:
            return None
        lacking = False
        for path in (*reversed([*ancestors(member.path)]), member.path):
            before = None if lacking else stat(path)
            kind = member.kind if path == member.path else "folder"
            if kind == "link" or (before is not None and before.kind != kind):
                return None
            lacking = before is None
            if lacking or path == member.path:
                found.setdefault(path, int(lacking))
    return found


class Lineage:
    """Which paths a container and those that it was forked from touched. Asking the daemon is slow (it walks the whole
    image) and most forks are never asked: so it waits until it is needed, or until the container goes while its forks
    live on; and of an image's container in which nothing ran what was put there is known. What a parent touched after
    the fork is in it too: those paths are looked at in vain."""

    def __init__(
        self, daemon: Daemon, parent: "Lineage | None" = None, stat: Callable[[str], PathFacts | None] | None = None
    ) -> None:
        """``stat``: of the task's image, where nothing ran in the container yet."""
        self._daemon = daemon
        self._parent = parent
        self._stat = stat if parent is None else None
        self._put: list[Member] = []
        self._lock = threading.Lock()
        self._children = 0
        self._final: dict[str, Touch] | None = None
        self._unknown: Exception | None = None
        """Why it could not be told at the end."""
        self._inherited: dict[str, Touch] = {}
        self.container = ""
        if parent is not None:
            parent._count(1)

    @classmethod
    def of(cls, daemon: Daemon, container: str, touched: Mapping[str, Touch]) -> "Lineage":
        """Of a container that another place made, whose image is a commit of one with ``touched``."""
        found = cls(daemon)
        found.container, found._inherited = container, dict(touched)
        return found

    def inherited(self) -> dict[str, Touch]:
        """What was touched before the container's own image was made."""
        return self._parent.touched() if self._parent is not None else self._inherited

    def _count(self, change: int) -> None:
        with self._lock:
            self._children += change

    def touched(self) -> dict[str, Touch]:
        with self._lock:
            if self._unknown:
                raise self._unknown
            if self._final is not None:
                return self._final
            stat = self._stat
            known = put_changes([*self._put], stat) if stat is not None else None
            return merge(self.inherited(), self._daemon.changes(self.container) if known is None else known)

    def put(self, members: Iterable[Member]) -> None:
        """These are written from outside."""
        if self._stat is not None:
            self._put += [replace(member, data=b"") for member in members]

    def ran(self) -> None:
        """Something runs in the container: what it touches is not known beforehand."""
        self._stat, self._put = None, []

    def end(self) -> None:
        """The container is about to be removed."""
        with self._lock:
            needed = self._children > 0 and self._final is None
        if needed:
            try:
                final = self.touched()
            except (ValueError, DaemonRefusal) as fault:  # by what a program left behind: the forks are told
                self._unknown = fault if isinstance(fault, Absent) else ValueError(str(fault))
            else:
                with self._lock:
                    self._final = final
        if self._parent is not None:
            self._parent._count(-1)
            self._parent = None


class Budget:
    """Counts what is read: names, and sizes as the tar headers give them, so that a hole costs as much as data."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self.members = 0

    def take(self, size: int) -> None:
        self.bytes += size
        self.members += 1
        if self.bytes > self.limit:
            raise ValueError(f"the changes hold more than {self.limit} bytes")
        if self.members > MEMBER_LIMIT:
            raise ValueError(f"the changes are more than {MEMBER_LIMIT} paths")


def read_tree(
    daemon: Daemon, container: str, path: str, budget: Budget, *, whole: bool,
    among: Callable[[str], bool] = lambda place: True,
) -> dict[str, Member] | None:  # fmt: skip
    """The members at ``path`` (with ``whole``, and below it) by absolute path, as far as they are ``among`` those that
    are wanted; None where there is nothing. Devices, pipes and sockets are passed over."""
    found: dict[str, Member] = {}
    alone: list[str] = []
    parent = posixpath.dirname(path)
    with daemon.archive(container, path) as tar:
        if tar is None:
            return None
        for info in tar:
            place = posixpath.join(parent, info.name.strip("/"))
            if not among(place):
                continue
            first = found.get(posixpath.join(parent, info.linkname.strip("/"))) if info.islnk() else None
            # Each name of a file will be packed with its content.
            budget.take(len(place) + (len(first.data) if first else info.size))
            if info.islnk() and not first:  # another name of what is not wanted
                alone.append(place)
            elif not left_out(place) and (member := _member(tar, info, place, first)):
                found[place] = member
            if not whole:
                break
    for place in alone:
        found |= read_tree(daemon, container, place, budget, whole=False) or {}
    return found


def _member(tar: tarfile.TarFile, info: tarfile.TarInfo, place: str, first: Member | None) -> Member | None:
    """``first``: what has the first name of a file, where this is another."""
    mode, owner = info.mode & 0o7777, (info.uid, info.gid)
    if info.isdir():
        return Member(place, "folder", mode, owner=owner)
    if info.issym():
        return Member(place, "link", 0o777, target=info.linkname, owner=owner)
    if info.islnk():
        return Member(place, "file", mode, data=first.data, owner=owner) if first else None
    if not info.isfile():
        return None
    content = tar.extractfile(info)
    return Member(place, "file", mode, data=content.read() if content else b"", owner=owner)


class Baseline:
    """The task's image as it was, read through a container that never starts. Shared by all sandboxes of the image."""

    def __init__(self, daemon: Daemon, container: str) -> None:
        self._daemon = daemon
        self.container = container
        self._lock = threading.Lock()
        self._known: dict[str, PathFacts | None] = {}

    def stat(self, path: str) -> PathFacts | None:
        with self._lock:
            if path in self._known:
                return self._known[path]
        facts = self._daemon.stat(self.container, path)
        with self._lock:
            self._known[path] = facts
        return facts

    def tree(self, path: str, budget: Budget, *, whole: bool) -> dict[str, Member]:
        return read_tree(self._daemon, self.container, path, budget, whole=whole) or {}


def _holds_mounts(path: str) -> bool:
    """Whether what is mounted lies below: a folder that the image lacked was then made for it."""
    return any(own.startswith(f"{path}/") for own in (RUNNER_ROOT, *DOCKERS_OWN))


def difference(daemon: Daemon, container: str, baseline: Baseline, lineage: Lineage, *, limit: int) -> Difference:
    """Raises ``ValueError`` beyond ``limit`` bytes, ``DaemonRefusal`` for what a program left so that the daemon cannot
    read it."""
    budget, budget_before, budget_around = Budget(limit), Budget(limit), Budget(limit)
    changed: dict[str, Member] = {}
    deleted, missing = set[str](), False
    touched = lineage.touched()
    left = {path: touch for path, touch in touched.items() if touch != "added" or not _holds_mounts(path)}
    covered = {path for path, touch in left.items() if touch != "modified"}
    crowds = Counter(map(posixpath.dirname, left))
    folders: dict[str, dict[str, dict[str, Member]]] = {}

    def beside(path: str, counted: Budget) -> dict[str, Member]:
        """What lies at and below a touched path, seen in its folder."""
        folder = posixpath.dirname(path)
        if folder not in folders:
            near = {one for one in left if posixpath.dirname(one) == folder}
            below = near & covered

            def among(place: str) -> bool:
                return place in near or any(above in below for above in ancestors(place))

            folders[folder] = {}
            for place, member in (read_tree(daemon, container, folder, counted, whole=True, among=among) or {}).items():
                child = next(one for one in (place, *ancestors(place)) if one in near)
                folders[folder].setdefault(child, {})[place] = member
        return folders[folder].get(path, {})

    for path, touch in sorted(left.items()):
        if any(above in covered for above in ancestors(path)):
            continue
        whole, before = touch != "modified", dict[str, Member]()
        crowded = crowds[posixpath.dirname(path)] > CROWD
        try:
            if touch != "added":
                facts = daemon.stat(container, path)
                if facts is None:
                    missing = True
                    if baseline.stat(path) is not None:
                        deleted.add(path)
                    continue
                # A folder's time changes with what is in it, and says nothing; another file need not be compared.
                if whole or facts.kind == "folder" or facts == baseline.stat(path):
                    before = baseline.tree(path, budget_before, whole=whole)
            found = beside(path, budget) if crowded else read_tree(daemon, container, path, budget, whole=whole) or {}
        except DaemonRefusal:
            # The daemon follows a link that it is asked for; one that leads back to itself is seen in its folder alone.
            found = beside(path, budget if crowded else budget_around)
            if path not in found or found[path].kind != "link":
                raise
            before = baseline.tree(path, budget_before, whole=True) if touch == "whole" else {}
        changed |= {place: member for place, member in found.items() if before.get(place) != member}
        if whole:
            deleted |= before.keys() - found.keys()
    if missing:
        daemon.ended(container)  # raises where the container itself is gone, and not those paths
    return pack(changed.values(), deleted)
