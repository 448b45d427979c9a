"""Locks on files among the processes that see them: the kernel lets each go with its holder."""

import errno
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def hold(descriptor: int, path: Path, *, wait: bool = True) -> None:
    """Lock an open file until it is closed. Raises ``BlockingIOError`` where another process holds it and this one is
    not to wait, ``OSError`` where its file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:
        raise OSError(errno.ENOLCK, "its file system has no locks", str(path)) from None


@contextmanager
def one_process_at_a_time(lock: Path) -> Iterator[None]:
    """Of all that see this file; its folder is made."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        hold(file.fileno(), lock)
        yield
