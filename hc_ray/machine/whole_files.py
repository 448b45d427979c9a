"""Files and folders on a file system: whole, lasting, and locked among the processes that see them. The kernel lets a
lock go with its holder. In some of them this machine remembers figures from one command to the next."""

import contextlib
import errno
import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from hc_ray.machine.paths import data_root


@contextlib.contextmanager
def beside(path: Path, data: bytes, *, lasting: bool, mode: int = 0o666) -> Iterator[Path]:
    """The data in a file of another name, which goes if the block fails. ``mode`` as of ``open``."""
    # Not of this process's number: machines that share a disk may have equal ones.
    whole = path.with_name(f"{path.name}.{secrets.randbits(48)}.tmp")
    try:
        try:
            _put(whole, data, lasting=lasting, mode=mode)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            _put(whole, data, lasting=lasting, mode=mode)
        yield whole
    except BaseException:
        with contextlib.suppress(OSError):
            whole.unlink(missing_ok=True)
        raise


def _put(path: Path, data: bytes, *, lasting: bool, mode: int = 0o666) -> None:
    """In few system calls: a thread that writes waits for the interpreter after each."""
    with open(path, "xb", buffering=0, opener=partial(os.open, mode=mode)) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        if lasting:
            os.fsync(file.fileno())


def link(whole: Path, path: Path) -> None:
    """A second name for a whole file. Raises ``FileExistsError`` where the name is taken."""
    try:
        path.hardlink_to(whole)
    except FileExistsError:
        if whole.stat().st_nlink < 2:  # else NFS answered so to the repeated request for what it had done already
            raise
    except OSError:  # there are no second names
        _put(path, whole.read_bytes(), lasting=True)


def lay(folder: Path, place: Path, *, anew: bool = True) -> None:
    """Put a finished folder in its place. What is there steps aside, to beside the folder, or stays without ``anew``:
    then it is equal, as is what another process lays there meanwhile."""
    if anew:
        with contextlib.suppress(FileNotFoundError):
            place.rename(folder.with_name("before"))
    try:
        folder.rename(place)
    except OSError:
        if not place.is_dir():
            raise


def sync_folder(folder: Path) -> None:
    """The names in a folder are on the disk. One that cannot be synced, by its file system or since this user may not
    open it, is no reason to stop."""
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as fault:
        if fault.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
            raise


def lock(file: IO[Any], seconds: float) -> None:
    """``flock`` with a deadline. A file system that has no locks is no reason to stop."""
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError from None
            time.sleep(0.02)
        except OSError:
            return


def hold(descriptor: int, path: Path, *, wait: bool = True) -> None:
    """Lock an open file until it is closed. Raises ``BlockingIOError`` where another process holds it and this one is
    not to wait, ``OSError`` where its file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:
        raise OSError(errno.ENOLCK, "its file system has no locks", str(path)) from None


@contextlib.contextmanager
def one_process_at_a_time(path: Path) -> Iterator[None]:
    """Of all that see this file; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        hold(file.fileno(), path)
        yield


def recall(kind: str, key: str) -> Any:
    """What was remembered last; None where there is nothing, or nothing that can be read."""
    try:
        return json.loads((data_root() / f"{kind}.json").read_text())[key]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(kind: str, key: str, figure: Any) -> None:
    """Keep a figure in the place of an earlier one."""
    path = data_root() / f"{kind}.json"
    try:
        known = dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        known = {}
    known[key] = figure
    with beside(path, json.dumps(known, indent=1).encode(), lasting=False) as new:
        new.replace(path)
