"""What changed in a container against the task's image, whatever lies between them (forks are commits, and Docker's own
diff knows the last one only): that diff says which paths were touched, and each is looked at now and in the image."""

import posixpath
import tarfile
import threading
from collections import Counter
from collections.abc import Callable, Collection
from typing import TypeVar

from hc_ray.domain.filetree import Member, pack
from hc_ray.domain.ports import Difference
from hc_ray.domain.runner_paths import RUNNER_ROOT
from hc_ray.sandboxes.docker.client import Daemon
from hc_ray.sandboxes.docker.lineage import DOCKERS_OWN, Lineage, ancestors, left_out
from hc_ray.sandboxes.docker.values import Absent, DaemonRefusal, PathFacts

CROWD = 50
"""Touched paths of one folder beyond which it is read as a whole: a read of its own costs the daemon a process."""
MEMBER_LIMIT = 100_000
"""Paths that a difference may hold."""

T = TypeVar("T")


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
    among: Callable[[str], bool] = lambda place: True, named: Collection[str] = (),
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
            budget.take(len(place) + len(info.linkname) + (len(first.data) if first else info.size))
            if info.islnk() and not first:  # another name of what is not wanted
                alone.append(place)
            elif not left_out(place, named) and (member := _member(tar, info, place, first)):
                found[place] = member
            if not whole:
                break
    for place in alone:
        found |= read_tree(daemon, container, place, budget, whole=False, named=named) or {}
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
    """The task's image as it was, read through a container that never starts: who removes what does not run (``docker
    container prune``) has another made. Shared by all sandboxes of the image."""

    def __init__(self, daemon: Daemon, make: Callable[[], str]) -> None:
        """``make`` creates the container."""
        self._daemon, self._make = daemon, make
        self._container = make()
        self._lock = threading.Lock()
        self._known: dict[str, PathFacts | None] = {}

    def stat(self, path: str) -> PathFacts | None:
        with self._lock:
            if path in self._known:
                return self._known[path]
        facts = self._asked(lambda container: self._stat(container, path))
        with self._lock:
            self._known[path] = facts
        return facts

    def _stat(self, container: str, path: str) -> PathFacts | None:
        if (facts := self._daemon.stat(container, path)) is None:
            self._daemon.ended(container)  # raises where the container itself is gone, and not that path
        return facts

    def tree(self, path: str, budget: Budget, *, whole: bool, named: Collection[str] = ()) -> dict[str, Member]:
        return self._asked(lambda one: read_tree(self._daemon, one, path, budget, whole=whole, named=named)) or {}

    def _asked(self, question: Callable[[str], T]) -> T:
        asked = self._container
        try:
            return question(asked)
        except Absent:
            with self._lock:
                if self._container == asked:
                    self._container = self._make()
            return question(self._container)


def _holds_mounts(path: str) -> bool:
    """Whether what is mounted lies below: a folder that the image lacked was then made for it."""
    return any(own.startswith(f"{path}/") for own in (RUNNER_ROOT, *DOCKERS_OWN))


def difference(daemon: Daemon, container: str, baseline: Baseline, lineage: Lineage, *, limit: int) -> Difference:
    """Raises ``ValueError`` beyond ``limit`` bytes, ``DaemonRefusal`` for what a program left so that the daemon cannot
    read it."""
    budget, budget_before, budget_around = Budget(limit), Budget(limit), Budget(limit)
    changed: dict[str, Member] = {}
    deleted, missing = set[str](), False
    touched, named = lineage.touched(), lineage.named
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
            held = read_tree(daemon, container, folder, counted, whole=True, among=among, named=named) or {}
            for place, member in held.items():
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
                    before = baseline.tree(path, budget_before, whole=whole, named=named)
            if crowded:
                found = beside(path, budget)
            else:
                found = read_tree(daemon, container, path, budget, whole=whole, named=named) or {}
        except DaemonRefusal:
            # The daemon follows a link that it is asked for; one that leads back to itself is seen in its folder alone.
            found = beside(path, budget if crowded else budget_around)
            if path not in found or found[path].kind != "link":
                raise
            before = baseline.tree(path, budget_before, whole=True, named=named) if touch == "whole" else {}
        changed |= {place: member for place, member in found.items() if before.get(place) != member}
        if whole:
            deleted |= before.keys() - found.keys()
    if missing:
        daemon.ended(container)  # raises where the container itself is gone, and not those paths
    return pack(changed.values(), deleted)
