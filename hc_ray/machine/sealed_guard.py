"""A guard against accidents: in every process but those that grade, opening anything under the sealed root raises.

It sees what Python itself opens, under whatever name: relative, by a symbolic or a hard link, by a descriptor of the
process or relative to one, by SQLite, as an argument of a program that is started. Against code that means harm it is
no wall (the sandbox is that): it does not see ``stat``, nor what C code opens by itself (ctypes, pyarrow's own files,
io_uring). It makes an honest mistake loud."""

import contextlib
import functools
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hc_ray.domain.errors import LeakError

_PATHS = {
    "open": 1,
    "os.listdir": 1,
    "os.scandir": 1,
    "os.chdir": 1,
    "os.truncate": 1,
    "os.rename": 2,
    "os.link": 2,
    "os.symlink": 2,
    "shutil.copyfile": 2,
    "shutil.copytree": 2,
    "shutil.move": 2,
    "sqlite3.connect": 1,
    "ctypes.dlopen": 1,
}
"""Audit events whose first arguments are paths, and how many."""
_NEW = os.O_CREAT | os.O_EXCL
_O_PATH: int = getattr(os, "O_PATH", 0)
"""Opens a name without what lies there: that neither waits nor needs a right to read. Linux only."""
_PROGRAMS = frozenset({"subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system"})
_OF_PROCESSES = re.compile(r"/proc/[0-9]+/(task/[0-9]+/)?(stat|smaps_rollup|children)").fullmatch
"""What the kernel writes of a process is no file of anybody's; watchdogs read it thousands of times a second."""
_SAYS = "a process that is no verifier tried to open sealed tests or solutions"


class _Here(threading.local):
    """What is said of this thread's next steps."""

    open = False
    """Sealed files may be opened."""
    folder: int | None = None
    """The open folder in which a name is opened."""


_here = _Here()
_looking = threading.Lock()
"""While the guard itself has folders under the sealed root open, nobody's relative path may be read from them."""


def _new_lock() -> None:
    """A child of a process whose other thread held the lock must not wait for it for ever."""
    global _looking
    _looking = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


@contextlib.contextmanager
def door() -> Iterator[None]:
    """In this thread, for a while, sealed files may be opened. Only ``hc_ray_actors.verifiers`` goes through it: a
    driver packs the sealed parts for its verifiers, and a climb's driver looks for canaries in what it tells MLflow,
    of which it learns yes or no; and, for an instant, ``make_link``."""
    before, _here.open = _here.open, True
    try:
        yield
    finally:
        _here.open = before


def open_at(name: str, flags: int, folder: int, mode: int = 0o600) -> int:
    """A descriptor of what an open folder holds under a name. The audit event does not say which folder is meant: told
    nothing, the guard has to read a relative path from every folder that the process has open, which costs an actor
    with hundreds of descriptors half a millisecond."""
    _here.folder = folder
    try:
        return os.open(name, flags, mode, dir_fd=folder)
    finally:
        _here.folder = None


def make_link(make: Callable[..., None], *names: str, **folders: int) -> None:
    """``os.symlink`` or ``os.link`` in a sandbox. The text of a link is what a program there wrote, or names a place
    there, and leads nobody here. And whether a file with a new name has a sealed one, too, would be looked up for
    each."""
    with door():
        make(*names, **folders)


@functools.cache  # each hook is asked for ever
def install(sealed_root: Path) -> None:
    """From now on, for the life of this process, raise ``LeakError`` when a path under ``sealed_root`` is opened,
    listed, copied, moved, linked or handed to a program. Cannot be undone (an audit hook never can)."""
    guarded = _Guarded(sealed_root)

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        count = _PATHS.get(event)
        if count is None and event not in _PROGRAMS:
            return
        if _here.open:
            return
        _here.open = True  # what the guard itself looks up must not come back here
        try:
            sealed = guarded.any_of(event, arguments) if count else guarded.named_in(arguments)
        finally:
            _here.open = False
        if sealed:
            raise LeakError(_SAYS)

    sys.addaudithook(refuse)


class _Guarded:
    """A sealed root, by name and by the files that lie in it."""

    def __init__(self, root: Path) -> None:
        named = {str(root.absolute()), os.path.realpath(root)}
        self._prefixes = tuple(name.rstrip("/") + "/" for name in sorted(named))
        self._root = root
        self._known: tuple[float, frozenset[tuple[int, int]]] = (0.0, frozenset())
        """When the files below the root were last looked up, and which they are."""

    def any_of(self, event: str, arguments: tuple[Any, ...]) -> bool:
        return any(self._holds(event, named) for named in _named(event, arguments))

    def named_in(self, arguments: tuple[Any, ...]) -> bool:
        """Whether a command line names the root."""
        words = [word for one in arguments for word in (one if isinstance(one, list | tuple) else (one,))]
        texts = [os.fsdecode(word) for word in words if isinstance(word, str | bytes | os.PathLike)]
        return any(prefix in f"{text}/" for text in texts for prefix in self._prefixes)

    def _holds(self, event: str, named: "_Named") -> bool:
        argument, folder = named.path, named.folder
        if isinstance(argument, int) and not isinstance(argument, bool):
            return argument >= 0 and self._below(_target(argument))
        if not isinstance(argument, str | bytes | os.PathLike):
            return False
        path = os.fsdecode(argument)
        if path.startswith("file:"):  # SQLite's way to name a file
            path = path.removeprefix("file:").partition("?")[0]
        if _OF_PROCESSES(path):
            return False
        if folder is not None and named.itself and "/" not in path:
            # One or two calls of the system instead of five: a thread that makes one gives way to others, and waits.
            return self._below(_text(path, folder)) or (not named.only and self._linked(_state(path, folder)))
        if self._leads_in(path, folder):
            return True
        if event != "open" or folder is not None or path.startswith("/"):
            return False
        return any(self._leads_in(place, None) for place in _relative_to_descriptors(path))

    def _leads_in(self, path: str, folder: int | None) -> bool:
        """Whether a path lies below the root, or leads there by links, or to a file that has another name there."""
        text = _text(path, folder)
        if self._below(text):
            return True
        real, found = "", None
        try:
            if _O_PATH:
                place = os.open(path, _O_PATH | os.O_CLOEXEC, dir_fd=folder)
                try:
                    real, found = _target(place), os.fstat(place)
                finally:
                    os.close(place)
        except (OSError, ValueError):
            real = ""
        if not real:  # nothing lies there yet, or the kernel does not say
            real = _by_parts(text)
            found = _state(real, None)
        return self._below(real) or self._linked(found)

    def _below(self, path: str) -> bool:
        return f"{path}/".startswith(self._prefixes)

    def _linked(self, found: os.stat_result | None) -> bool:
        """Whether a file with several names has one under the root."""
        if found is None or found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
            return False
        return (found.st_dev, found.st_ino) in self._inodes(found.st_ctime)

    def _inodes(self, changed: float) -> frozenset[tuple[int, int]]:
        """The files under the root, looked up again for a file that changed since: to get another name changes it."""
        looked, files = self._known
        if changed > looked - 1.0:
            now = time.time()
            with _looking:
                files = frozenset(_files_below(self._root))
            self._known = now, files  # both at once: another thread that sees the time must find the files
        return files


class _Named(NamedTuple):
    """A path of an event."""

    path: Any
    folder: int | None = None
    """The open folder that a relative path is relative to; None is where this process works."""
    itself: bool = False
    """What bears the name is meant, not what a link of that name leads to."""
    only: bool = False
    """It can be no other name of a file: a folder, or what is not there yet."""


def _named(event: str, arguments: tuple[Any, ...]) -> list[_Named]:
    """The paths of an event."""
    if event == "open":  # alone does not say which folder was given
        flags = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], int) else 0
        only = bool(flags & os.O_DIRECTORY) or flags & (_NEW | _O_PATH) == _NEW
        return [_Named(path, _here.folder, bool(flags & os.O_NOFOLLOW), only) for path in arguments[:1]]
    folders = [at if isinstance(at, int) and at >= 0 else None for at in arguments[2:4]] + [None, None]
    if event in ("os.rename", "os.link"):  # to move a link is not to follow it
        itself = event == "os.rename"
        return [_Named(path, folder, itself) for path, folder in zip(arguments[:2], folders, strict=False)]
    if event == "os.symlink":
        text, link = arguments[:2]
        if isinstance(text, str | bytes | os.PathLike) and isinstance(link, str | bytes | os.PathLike):
            text = os.path.join(os.path.dirname(os.fsdecode(link)), os.fsdecode(text))  # noqa: PTH118, PTH120
        return [_Named(text, folders[0]), _Named(link, folders[0], itself=True, only=True)]
    return [_Named(path) for path in arguments[: _PATHS[event]]]


def _text(path: str, folder: int | None) -> str:
    """A path as it reads from the root of the file system, no link followed."""
    if path.startswith("/"):
        return path
    if folder is not None:
        return f"{_target(folder).rstrip('/')}/{path}"
    try:
        return f"{os.getcwd().rstrip('/')}/{path}"  # noqa: PTH109
    except OSError:  # it was removed
        return path


def _by_parts(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # no path has a zero byte
        return ""


def _state(path: str, folder: int | None) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=folder, follow_symlinks=False)
    except (OSError, ValueError):
        return None


def _files_below(root: Path) -> Iterator[tuple[int, int]]:
    """Device and inode of each file below a folder."""
    folders = [str(root)]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # it may be removed meanwhile; those beside it count still
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        found = entry.stat(follow_symlinks=False)
                        yield found.st_dev, found.st_ino


def _target(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
    except OSError:
        return ""


def _relative_to_descriptors(path: str) -> list[str]:
    """A relative path as it reads from each open folder that has it: the event does not say which one is meant."""
    try:
        with _looking:
            targets = {_target(int(one)) for one in os.listdir("/proc/self/fd")}  # noqa: PTH208
    except OSError:
        return []
    places = (f"{target}/{path}" for target in targets if target.startswith("/"))
    # What a folder does not have is not read there: somebody who may (``door``) can have a sealed one open meanwhile.
    return [place for place in places if os.path.lexists(place)]
