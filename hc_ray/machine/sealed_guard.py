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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
_O_PATH: int = getattr(os, "O_PATH", 0)
"""Opens a name without what lies there: that neither waits nor needs a right to read. Linux only."""
_PROGRAMS = frozenset({"subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system"})
_OF_PROCESSES = re.compile(r"/proc/[0-9]+/(stat|smaps_rollup)").fullmatch
"""What the kernel writes of a process is no file of anybody's; watchdogs read it thousands of times a second."""
_SAYS = "a process that is no verifier tried to open sealed tests or solutions"
_here = threading.local()
_looking = threading.Lock()
"""While the guard itself has folders under the sealed root open, nobody's relative path may be read from them."""
os.register_at_fork(after_in_child=lambda: _new_lock())


def _new_lock() -> None:
    """A child of a process whose other thread held the lock must not wait for it for ever."""
    global _looking
    _looking = threading.Lock()


@contextlib.contextmanager
def door() -> Iterator[None]:
    """In this thread, for a while, sealed files may be opened. Only ``hc_ray_actors.verifiers`` goes through it: a
    driver packs the sealed parts for its verifiers, and a climb's driver looks for canaries in what it tells MLflow,
    of which it learns yes or no."""
    before = getattr(_here, "open", False)
    _here.open = True
    try:
        yield
    finally:
        _here.open = before


@contextlib.contextmanager
def relative_to(folder: int) -> Iterator[None]:
    """In this thread, for one call with ``dir_fd=folder``: relative paths are meant from this open folder. The audit
    event does not say so; without it the guard has to read a relative path from every folder that the process has
    open, which costs an actor with hundreds of descriptors half a millisecond."""
    _here.folder = folder
    try:
        yield
    finally:
        _here.folder = None


@functools.cache  # each hook is asked for ever
def install(sealed_root: Path) -> None:
    """From now on, for the life of this process, raise ``LeakError`` when a path under ``sealed_root`` is opened,
    listed, copied, moved, linked or handed to a program. Cannot be undone (an audit hook never can)."""
    guarded = _Guarded(sealed_root)

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        count = _PATHS.get(event)
        if count is None and event not in _PROGRAMS:
            return
        if getattr(_here, "open", False):
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
        self._looked = 0.0
        self._files: frozenset[tuple[int, int]] = frozenset()

    def any_of(self, event: str, arguments: tuple[Any, ...]) -> bool:
        flags = arguments[2] if event == "open" and len(arguments) > 2 else 0
        follows_no_link = bool((flags or 0) & os.O_NOFOLLOW)
        return any(self._holds(path, folder, follows_no_link) for path, folder in _named(event, arguments))

    def named_in(self, arguments: tuple[Any, ...]) -> bool:
        """Whether a command line names the root."""
        words = [word for one in arguments for word in (one if isinstance(one, list | tuple) else (one,))]
        texts = [os.fsdecode(word) for word in words if isinstance(word, str | bytes | os.PathLike)]
        return any(prefix in f"{text}/" for text in texts for prefix in self._prefixes)

    def _holds(self, argument: Any, folder: int | None, follows_no_link: bool) -> bool:
        if isinstance(argument, int) and not isinstance(argument, bool):
            return argument >= 0 and self._below(_target(argument))
        if not isinstance(argument, str | bytes | os.PathLike):
            return False
        path = os.fsdecode(argument)
        if path.startswith("file:"):  # SQLite's way to name a file
            path = path.removeprefix("file:").partition("?")[0]
        if _OF_PROCESSES(path):
            return False
        if folder is not None and follows_no_link and "/" not in path:
            # Two calls of the system instead of four: a thread that makes one gives way to others, and waits for them.
            return self._below(f"{_target(folder)}/{path}") or self._linked(_state(path, folder))
        if folder is not None or path.startswith("/"):
            return self._leads_in(path, folder)
        places = [os.path.abspath(path), *_relative_to_descriptors(path)]  # noqa: PTH100
        return any(self._leads_in(place, None) for place in places)

    def _leads_in(self, path: str, folder: int | None) -> bool:
        """Whether a path, all links followed, ends below the root, or at a file that has another name there."""
        if folder is None and self._below(path):
            return True
        try:
            place = os.open(path, _O_PATH | os.O_CLOEXEC, dir_fd=folder) if _O_PATH else -1
        except (OSError, ValueError):
            return self._below(_where_missing(path, folder))
        if not _O_PATH:
            real = os.path.realpath(path if folder is None else f"{_target(folder)}/{path}")
            return self._below(real) or self._linked(_state(real, None))
        try:
            return self._below(_target(place)) or self._linked(os.fstat(place))
        finally:
            os.close(place)

    def _below(self, path: str) -> bool:
        return f"{path}/".startswith(self._prefixes)

    def _linked(self, found: os.stat_result | None) -> bool:
        """Whether a file with several names has one under the root."""
        if found is None or found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
            return False
        return (found.st_dev, found.st_ino) in self._inodes(found.st_ctime)

    def _inodes(self, changed: float) -> frozenset[tuple[int, int]]:
        """The files under the root, looked up again for a file that changed since: to get another name changes it."""
        if changed > self._looked - 1.0:
            self._looked = time.time()
            with _looking:
                self._files = frozenset(_several_names(self._root))
        return self._files


def _named(event: str, arguments: tuple[Any, ...]) -> list[tuple[Any, int | None]]:
    """The paths of an event, each with the open folder that it is relative to, where that is known."""
    folder = getattr(_here, "folder", None)
    if event in ("os.rename", "os.link"):
        return [(path, at if at >= 0 else folder) for path, at in zip(arguments[:2], arguments[2:], strict=True)]
    if event == "os.symlink":
        text, link, at = arguments
        at = at if at >= 0 else folder
        return [(os.path.join(os.path.dirname(os.fsdecode(link)), os.fsdecode(text)), at), (link, at)]  # noqa: PTH118, PTH120
    return [(path, folder) for path in arguments[: _PATHS[event]]]


def _where_missing(path: str, folder: int | None) -> str:
    """Where a path leads at which nothing can be opened: where a file of that name would be made."""
    head, name = os.path.split(path)
    with contextlib.suppress(OSError, ValueError):
        try:
            os.stat(path, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            place = os.open(head or ".", _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
            try:
                return f"{_target(place)}/{name}"
            finally:
                os.close(place)
    with contextlib.suppress(ValueError):  # no path has a zero byte
        return os.path.realpath(path if folder is None else f"{_target(folder)}/{path}")
    return ""


def _state(path: str, folder: int | None) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=folder, follow_symlinks=False)
    except (OSError, ValueError):
        return None


def _several_names(root: Path) -> Iterator[tuple[int, int]]:
    """Device and inode of each file below a folder that has another name somewhere."""
    folders = [str(root)]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # it may be removed meanwhile; those beside it count still
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif (found := entry.stat(follow_symlinks=False)).st_nlink > 1:
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
