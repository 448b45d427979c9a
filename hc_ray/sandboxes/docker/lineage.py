"""Which paths of a container were touched since the task's image, whatever lies between them: by ``docker diff``,
and by what it inherited."""

import posixpath
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal

from hc_ray.domain.filetree import Member, is_outside
from hc_ray.domain.value import Value, spelled
from hc_ray.sandboxes.docker.client import Daemon
from hc_ray.sandboxes.docker.values import Absent, DaemonRefusal, PathFacts

Touch = Literal["added", "modified", "whole"]
"""``added``: the image lacks it. ``modified``: look at the path itself. ``whole``: it was removed at some time, so that
what lies there now is compared with all that lay there."""

DOCKERS_OWN = frozenset({"/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/.dockerenv"})
UNSPELT = "\N{REPLACEMENT CHARACTER}"
"""What the daemon's list of changes has in the place of bytes of a name that are no UTF-8."""


def left_out(path: str, named: Collection[str] = ()) -> bool:
    """``named``: as of ``is_outside``."""
    return path == "/" or path in DOCKERS_OWN or is_outside(path, named)


def ancestors(path: str) -> Iterator[str]:
    while (path := posixpath.dirname(path)) != "/":
        yield path


def merge(inherited: Mapping[str, Touch], changes: Mapping[str, int], named: Collection[str] = ()) -> dict[str, Touch]:
    """The touched paths of a container whose image is a commit of one with ``inherited`` (none: the task's image).
    ``changes`` as of ``Daemon.changes``."""
    touched = dict(inherited)
    for path, kind in changes.items():
        if UNSPELT in path:  # its folder is compared with all that it holds
            folder = posixpath.dirname(path.partition(UNSPELT)[0] + "x")
            if not left_out(folder, named) and touched.get(folder) != "added":
                touched[folder] = "whole"
            continue
        if left_out(path, named) or touched.get(path) == "added":
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


class Ticket(Value):
    """What a verifier's place needs to take a container over."""

    container: str
    fork_image: str | None
    touched: dict[str, Touch]
    """What was touched before the container's own image was committed."""
    began: int


class Lineage:
    """Which paths a container and those that it was forked from touched. Asking the daemon is slow (it walks the whole
    image) and most forks are never asked: so it waits until it is needed, or until the container goes while its forks
    live on; and of an image's container in which nothing ran what was put there is known. What a parent touched after
    the fork is in it too: those paths are looked at in vain."""

    def __init__(
        self,
        daemon: Daemon,
        parent: "Lineage | None" = None,
        stat: Callable[[str], PathFacts | None] | None = None,
        named: Collection[str] = (),
    ) -> None:
        """``stat``: of the task's image, where nothing ran in the container yet; ``named``: as of ``is_outside``."""
        self._daemon = daemon
        self.named = named
        self.began: int = parent.began if parent is not None else 0
        """For shared grading: when the first of them was started (ns). What was changed earlier is the image's."""
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
    def of(
        cls, daemon: Daemon, container: str, touched: Mapping[str, Touch], began: int, named: Collection[str] = ()
    ) -> "Lineage":
        """Of a container that another place made, whose image is a commit of one with ``touched``."""
        found = cls(daemon, named=named)
        found.container, found._inherited, found.began = container, dict(touched), began
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
            changes = self._daemon.changes(self.container) if known is None else known
            return merge(self.inherited(), changes, self.named)

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
