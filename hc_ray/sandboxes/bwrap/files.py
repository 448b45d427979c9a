"""The files of one bwrap sandbox, seen from the host while hostile code may be changing them.

Every step is taken from an open folder, one name at a time, never following a link that the kernel would resolve on
the host: links are read and resolved here, inside the root. So root on the host can read and write a sandbox's files
without being led out of it."""

import errno
import os
import secrets
import stat
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from hc_ray.domain.filetree import Change, Member, absolute, is_outside
from hc_ray.sandboxes.bwrap.command import CLOSED, Layout
from hc_ray.sandboxes.bwrap.copy import copy_root
from hc_ray.sandboxes.bwrap.entries import Entry, Manifest, entry_of, is_same, kind_of, member_of, stamp_of
from hc_ray.sandboxes.descriptors import (  # fmt: skip
    FILE,
    FOLDER,
    MAX_DEPTH,
    NEW_FILE,
    NO_FILE,
    PATH_ONLY,
    empty,
    let_in,
    link_target,
    make_link,
    open_at,
    opened,
    own,
    own_open,
    read_all,
    unless_changed,
    unlock_folder,
    unlocked,
)
from hc_ray.sandboxes.inside.processes import write_all

_LINKS = 40
"""Links that one path may lead through, as in Linux."""


class RootTree:
    """A folder that is the root of a sandbox."""

    def __init__(self, root: Path, placed: Layout, user: int | None, named: Collection[str] = ()) -> None:
        """``user``: who owns what is written (None: this process's user); ``named``: as of ``is_outside``. What
        ``placed`` mounts is only read, and what it hides there is not seen; into ``CLOSED`` the host does not look."""
        self.root, self.mounts, self.hidden, self.user = root, placed.mounts, placed.hidden, user
        self.named = named

    # One path

    def read(self, path: str, limit: int) -> bytes | None:
        """The first ``limit`` bytes of a regular file; None where there is none."""
        try:
            with self._at(path) as (folder, name, _), opened(name or ".", FILE, folder) as file:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    return None
                return read_all(file, limit)
        except OSError as error:
            if error.errno in NO_FILE:
                return None
            raise

    def write(self, member: Member) -> None:
        """Put one path there, in the place of what was there; folders on the way are made. Raises ``OSError``."""
        with self._at(member.path, create=True, follow=False) as (folder, name, writable):
            if not name:
                return
            if not writable:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), member.path)
            self._clear(folder, name, keep_folder=member.kind == "folder")
            if member.kind == "link":
                make_link(os.symlink, member.target, name, dir_fd=folder)
                own(name, folder, self.user)
            elif member.kind == "folder":
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                with opened(name, FOLDER, folder) as made:
                    own_open(made, self.user, member.mode)
            else:
                with opened(name, NEW_FILE, folder) as made:
                    write_all(made, member.data)
                    own_open(made, self.user, member.mode)

    def remove(self, path: str) -> None:
        """Remove a path with all below it; one that is not there is fine."""
        with suppress(FileNotFoundError, NotADirectoryError), self._at(path, follow=False) as (folder, name, writable):
            if name and writable:
                self._clear(folder, name)

    def apply(self, change: Change) -> None:
        """Do what a difference says: first remove, then write."""
        for path in change.deleted:
            self.remove(path)
        for member in change.members:
            self.write(member)

    def clear_way(self) -> None:
        """Make each place of a mount what bwrap expects there, below folders of the sandbox's own; what was made of it
        meanwhile goes beside the root. As it starts, bwrap follows links and makes what it misses, on the host where
        they lead out of the root. Nothing may run in the sandbox yet."""
        with opened(str(self.root), PATH_ONLY | os.O_DIRECTORY) as root:
            let_in(root)
            for place in sorted({*self.mounts, *CLOSED}):
                self._clear_place(root, place)

    def _clear_place(self, root: int, place: str) -> None:
        source = self.mounts.get(place)
        *above, last = place.strip("/").split("/")
        with ExitStack() as way:
            folder = root
            for name in above:
                self._make_kind(folder, name, stat.S_IFDIR)
                folder = way.enter_context(opened(name, PATH_ONLY | os.O_DIRECTORY, folder))
                let_in(folder)
            self._make_kind(folder, last, stat.S_IFDIR if source is None or source.is_dir() else stat.S_IFREG)

    def _make_kind(self, folder: int, name: str, kind: int) -> None:
        """Have a folder, or a file, under a name."""
        with suppress(FileNotFoundError):
            found = stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            if found == kind:
                return
            if found == stat.S_IFDIR:
                with opened(name, PATH_ONLY | os.O_DIRECTORY, folder) as below:
                    let_in(below)
            os.rename(name, self.root.with_name(f"displaced-{secrets.token_hex(4)}"), src_dir_fd=folder)
        if kind == stat.S_IFDIR:
            os.mkdir(name, 0o755, dir_fd=folder)
        else:
            os.close(open_at(name, NEW_FILE, folder, 0o644))
        own(name, folder, self.user)

    def _clear(self, folder: int, name: str, *, keep_folder: bool = False) -> None:
        try:
            state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(state.st_mode):
            os.unlink(name, dir_fd=folder)
        elif not keep_folder:
            with unlocked(name, folder, state) as below:
                empty(below)
            os.rmdir(name, dir_fd=folder)

    @contextmanager
    def _at(self, path: str, *, create: bool = False, follow: bool = True) -> Iterator[tuple[int, str, bool]]:
        """The open folder that holds a path's last name, that name (empty for the root itself) and whether it may be
        written. Links are resolved inside the root; the last name's own only where ``follow``."""
        pending = list(reversed(absolute(path).split("/")))
        folders = [os.open(self.root, PATH_ONLY | os.O_DIRECTORY)]
        locked: dict[int, int] = {}
        names: list[str] = []
        links = 0

        def leave() -> None:
            folder = folders.pop()
            if (mode := locked.pop(folder, None)) is not None:
                os.chmod(f"/proc/self/fd/{folder}", mode)  # noqa: PTH101 (the open folder itself, never a name)
            os.close(folder)

        try:
            while pending:
                name = pending.pop()
                if name in ("", "."):
                    continue
                if name == "..":
                    if len(folders) > 1:
                        leave()
                        names.pop()
                    continue
                last = not any(part not in ("", ".") for part in pending)
                if (mode := unlock_folder(folders[-1])) is not None:
                    locked[folders[-1]] = mode
                target = link_target(name, folders[-1])
                if target is not None and (follow or not last):
                    links += 1
                    if links > _LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                    if target.startswith("/"):
                        while len(folders) > 1:
                            leave()
                        names = []
                    pending += reversed(target.split("/"))
                    continue
                inside = "/" + "/".join([*names, name])
                if inside in self.hidden:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), inside)
                mount = self.mounts.get(inside)
                if last:
                    if mount is not None and not mount.is_dir():
                        parent = os.open(mount.parent, PATH_ONLY | os.O_DIRECTORY)
                        folders.append(parent)
                        yield parent, mount.name, False
                    else:
                        yield folders[-1], name, self._writable(inside)
                    return
                if len(folders) > MAX_DEPTH:
                    raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path[:60])
                folders.append(self._step(folders[-1], name, inside, mount, create))
                names.append(name)
            yield folders[0], "", False
        finally:
            while folders:
                leave()

    def _step(self, folder: int, name: str, inside: str, mount: Path | None, create: bool) -> int:
        if mount is not None:
            return os.open(mount, PATH_ONLY & ~os.O_NOFOLLOW | os.O_DIRECTORY)
        try:
            return open_at(name, PATH_ONLY | os.O_DIRECTORY, folder)
        except FileNotFoundError:
            if not create:
                raise
        if not self._writable(inside):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), inside)
        os.mkdir(name, 0o755, dir_fd=folder)
        own(name, folder, self.user)
        return open_at(name, PATH_ONLY | os.O_DIRECTORY, folder)

    def _writable(self, inside: str) -> bool:
        return not any(inside == place or inside.startswith(f"{place}/") for place in (*self.mounts, *CLOSED))

    # The whole tree

    @contextmanager
    def _opened(self) -> Iterator[int]:
        with opened(str(self.root), PATH_ONLY | os.O_DIRECTORY) as place:
            let_in(place)
        with opened(str(self.root), FOLDER) as folder:
            yield folder

    def scan(self) -> Iterator[tuple[str, os.stat_result, int, str]]:
        """Every path that a difference may hold, with its state, its open folder and its name; folders come before
        what they hold. Raises ``ValueError`` for a tree deeper than ``MAX_DEPTH``."""
        with self._opened() as folder:
            yield from self._scan(folder, "", 0)

    def _scan(self, folder: int, prefix: str, depth: int) -> Iterator[tuple[str, os.stat_result, int, str]]:
        if depth > MAX_DEPTH:
            raise ValueError(f"folders nest deeper than {MAX_DEPTH}")
        for name in sorted(os.listdir(folder)):
            path = f"{prefix}/{name}"
            scratch = is_outside(path, self.named)
            way = scratch and any(one.startswith(f"{path}/") for one in self.named)
            if (scratch and not way) or path in self.mounts or path in CLOSED:
                continue
            try:
                state = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not way:
                yield path, state, folder, name
            if stat.S_ISDIR(state.st_mode):
                with unless_changed(), unlocked(name, folder, state) as below:
                    yield from self._scan(below, path, depth + 1)

    def manifest(self) -> dict[str, Entry]:
        """The tree as it is now, with a digest of every file."""
        return {path: entry_of(state, folder, name) for path, state, folder, name in self.scan()}

    def changes(self, before: Manifest, limit: int) -> tuple[list[Member], list[str]]:
        """What differs from a manifest: members that are new or changed, paths that are gone. Pipes, sockets and
        devices are left out. Raises ``ValueError`` where the changes hold more than ``limit`` bytes, holes and names
        counted."""
        members: list[Member] = []
        seen: set[str] = set()
        total = 0
        for path, state, folder, name in self.scan():
            kind = kind_of(state)
            if kind == "other":
                continue
            seen.add(path)
            old = before.get(path)
            if old is not None and (old.mode, old.stamp) == (stat.S_IMODE(state.st_mode), stamp_of(state)):
                continue
            # A file that is new is not read to find that it is too large.
            size = state.st_size if kind == "file" and (old is None or old.kind != "file") else 0
            member = member_of(path, kind, state, folder, name, limit) if total + size <= limit else None
            if member is not None and old is not None and is_same(old, member):
                continue
            total += 512 + len(path) + (len(member.data) + len(member.target) if member else size)
            if total > limit:
                raise ValueError(f"the changes hold more than {limit} bytes")
            if member is not None:
                members.append(member)
        return members, [path for path in before if path not in seen]

    def copy_to(self, target: "RootTree") -> None:
        """Copy every file, folder and link into another root that nobody uses yet, under its own user; the places of
        mounts, where nothing of the sandbox's own is seen, are made again as its process starts (``clear_way``)."""
        with self._opened() as source, target._opened() as made:
            copy_root(source, made, target.user, {*self.mounts, *CLOSED}, beside=target.root.parent)
