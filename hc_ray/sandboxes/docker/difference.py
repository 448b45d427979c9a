"""What changed in a container against the task's image, whatever lies between them (forks are commits, and Docker's own
diff knows the last one only): that diff says which paths were touched, and each is looked at now and in the image."""

import posixpath
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeVar

from hc_ray.domain.filetree import Member, member_of, pack
from hc_ray.domain.ports import Difference
from hc_ray.sandboxes.docker.client import Daemon
from hc_ray.sandboxes.docker.lineage import DOCKERS_OWN, Lineage, ancestors, left_out
from hc_ray.sandboxes.docker.values import Absent, DaemonRefusal, PathFacts

AHEAD, NAME = 1 << 20, 1 << 14
"""Bytes that are read on in a folder for each touched path below it, and those that a name counts for: a read of its
own costs the daemon a process, which takes as long."""
MEMBER_LIMIT = 100_000
"""Paths that a difference may hold."""

T = TypeVar("T")


class _TooFar(Exception):
    """A folder holds more than is worth reading on."""


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
    among: Callable[[str], object] = lambda place: True, named: Collection[str] = (), room: int | None = None,
) -> dict[str, Member] | None:  # fmt: skip
    """The members at ``path`` (with ``whole``, and below it) by absolute path, as far as they are ``among`` those that
    are wanted; None where there is nothing. Devices, pipes and sockets are passed over. Raises ``_TooFar`` where all
    that lies there, wanted or not, is more than ``room`` bytes."""
    found: dict[str, Member] = {}
    alone: list[str] = []
    parent = posixpath.dirname(path)
    with daemon.archive(container, path) as tar:
        if tar is None:
            return None
        for info in tar:
            place = posixpath.join(parent, info.name.strip("/"))
            if room is not None and (room := room - info.size - NAME) < 0:
                raise _TooFar
            if not among(place):
                continue
            first = found.get(posixpath.join(parent, info.linkname.strip("/"))) if info.islnk() else None
            # Each name of a file will be packed with its content.
            budget.take(len(place) + len(info.linkname) + (len(first.data) if first else info.size))
            if info.islnk() and not first:  # another name of what is not wanted
                alone.append(place)
            elif not left_out(place, named):
                member = replace(first, path=place) if first else member_of(tar, info, place)
                found |= {place: member} if member else {}
            if not whole:
                break
    for place in alone:
        found |= read_tree(daemon, container, place, budget, whole=False, named=named) or {}
    return found


class Baseline:
    """The task's image as it was, read through a container that never starts: who removes what does not run (``docker
    container prune``) has another made. Shared by all sandboxes of the image."""

    def __init__(self, daemon: Daemon, make: Callable[[], str]) -> None:
        """``make`` creates the container."""
        self._daemon, self._make = daemon, make
        self._container = make()
        self._lock = threading.Lock()
        self._known: dict[str, PathFacts | None] = {}
        self._folders: dict[str, dict[str, Member]] = {}

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
        with self._lock:
            if not whole and path in self._folders:
                return self._folders[path]
        found = self._asked(lambda one: read_tree(self._daemon, one, path, budget, whole=whole, named=named)) or {}
        if not whole and path in found and found[path].kind == "folder":
            with self._lock:
                self._folders[path] = found
        return found

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
    """Whether Docker mounts below: a folder that the image lacked was then made for it."""
    return any(own.startswith(f"{path}/") for own in DOCKERS_OWN)


def difference(daemon: Daemon, container: str, baseline: Baseline, lineage: Lineage, *, limit: int) -> Difference:
    """Raises ``ValueError`` beyond ``limit`` bytes, ``DaemonRefusal`` for what a program left so that the daemon cannot
    read it."""
    budget, budget_before, budget_around = Budget(limit), Budget(limit), Budget(limit)
    changed: dict[str, Member] = {}
    deleted, missing = set[str](), False
    touched, named = lineage.touched(), lineage.named
    left = {path: touch for path, touch in touched.items() if touch != "added" or not _holds_mounts(path)}
    covered = {path for path, touch in left.items() if touch != "modified"}
    asked = sorted(path for path in left if not any(above in covered for above in ancestors(path)))
    seen: dict[str, dict[str, Member]] = {}
    """Of those, what was read with a folder above."""

    def asked_below(folder: str) -> list[str]:
        start = bisect_left(asked, f"{folder.rstrip('/')}/")
        return asked[start : bisect_left(asked, f"{folder.rstrip('/')}0", start)]

    def within(folder: str, counted: Budget, room: int | None = None) -> None:
        """See what lies at and below each path that is asked for in a folder, itself among them."""
        near = {folder, *asked_below(folder)}
        below = near & covered

        def child(place: str) -> str | None:
            return place if place in near else next((one for one in ancestors(place) if one in below), None)

        held = read_tree(daemon, container, folder, counted, whole=True, among=child, named=named, room=room) or {}
        seen.update({one: {} for one in near})
        for place, member in held.items():
            seen[child(place) or folder][place] = member

    def ahead(folder: str) -> None:
        """Where it is worth it, see at once what is asked for below a folder."""
        below, spent = len(asked_below(folder)), (budget.bytes, budget.members)
        if below and folder not in seen:
            try:
                within(folder, budget, room=AHEAD * below)
            except (_TooFar, DaemonRefusal):
                budget.bytes, budget.members = spent

    def alone(path: str) -> dict[str, Member]:
        """What lies at and below a path that the daemon cannot be asked for."""
        if path not in seen:
            within(posixpath.dirname(path), budget_around)
        return seen[path]

    for path in asked:
        touch = left[path]
        whole, before = touch != "modified", dict[str, Member]()
        try:
            if touch != "added":
                facts = daemon.stat(container, path)
                if facts is None:
                    missing = True
                    if baseline.stat(path) is not None:
                        deleted.add(path)
                    continue
                if not whole and _holds_mounts(path) and not asked_below(path):
                    was = baseline.stat(path)
                    if was is not None and (was.kind, was.mode) == (facts.kind, facts.mode):
                        continue  # what Docker mounts there touched it; to ask who owns it costs a read
                # A folder's time changes with what is in it, and says nothing; another file need not be compared.
                if whole or facts.kind == "folder" or facts == baseline.stat(path):
                    before = baseline.tree(path, budget_before, whole=whole, named=named)
                if facts.kind == "folder" and not whole:
                    ahead(path)
            if path in seen:
                found = seen[path]
            else:
                found = read_tree(daemon, container, path, budget, whole=whole, named=named) or {}
        except DaemonRefusal:
            # The daemon follows a link that it is asked for; one that leads back to itself is seen in its folder alone.
            found = alone(path)
            if path not in found or found[path].kind != "link":
                raise
            before = baseline.tree(path, budget_before, whole=True, named=named) if touch == "whole" else {}
        changed |= {place: member for place, member in found.items() if before.get(place) != member}
        if whole:
            deleted |= before.keys() - found.keys()
    if missing:
        daemon.ended(container)  # raises where the container itself is gone, and not those paths
    return pack(changed.values(), deleted)
