"""What lies in a sandbox, and when it was changed: what shared grading seals, compares and asks again. Standard library
only."""

import os
import stat
import time
from collections.abc import Iterator

from hc_ray.sandboxes.inside import rights

CLOCK_REALTIME_COARSE = 5
"""By which the kernel stamps changes of files at the earliest: it lags some milliseconds behind."""
DEVICES = {"/dev/null": (1, 3), "/dev/zero": (1, 5), "/dev/full": (1, 7), "/dev/random": (1, 8),
           "/dev/urandom": (1, 9), "/dev/tty": (5, 0)}  # fmt: skip
STREAMS = {"/dev/fd": "", "/dev/stdin": "/0", "/dev/stdout": "/1", "/dev/stderr": "/2"}
"""Links, with where below a process's open files they lead."""
DOCKERS_OWN = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
"""Of each container, and no difference of any, mounted or not."""


def seal(paths: "list[str]") -> "dict[str, list[int]]":
    """Inode, time of change and size of what lies at each path, links not followed; of a folder the time of change is
    that of the last name that came, went or changed in it. No process can set that time back."""
    found = {}
    for path in paths:
        try:
            facts = os.lstat(path)
        except OSError:
            found[path] = [0, 0, 0]
            continue
        found[path] = [facts.st_ino, facts.st_ctime_ns, facts.st_size if stat.S_ISREG(facts.st_mode) else 0]
    return found


def look(path: str) -> str:
    """A digest of what lies at a path, its modes and owner among it, links not followed; empty where nothing does."""
    import hashlib

    try:
        facts = os.lstat(path)
        content = os.readlink(path) if stat.S_ISLNK(facts.st_mode) else ""
        if stat.S_ISREG(facts.st_mode):
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
    return hashlib.sha256(repr((facts.st_mode, facts.st_uid, facts.st_gid, content)).encode()).hexdigest()


def is_device(path: str) -> bool:
    """Whether what lies at one of the paths above is what its name says."""
    try:
        if path in STREAMS:
            return os.readlink(path) == f"/proc/self/fd{STREAMS[path]}"
        facts = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISCHR(facts.st_mode) and (os.major(facts.st_rdev), os.minor(facts.st_rdev)) == DEVICES[path]


def moment() -> int:
    """A time (ns) before which everything lies that was changed until now, and after which whatever is changed from now
    on: through memory too, since pages that were written to before, and would take more unseen, are written out."""
    now = time.time_ns()
    while time.clock_gettime_ns(CLOCK_REALTIME_COARSE) <= now:
        time.sleep(0.001)
    root = os.open("/", os.O_RDONLY)
    rights.libc().syncfs(root)
    os.close(root)
    return now


def changed_since(trees: "list[str]", begun: int) -> "list[str]":
    """What below some folders was changed since a moment, folders with a slash at their end; byte code is passed
    over."""
    found = []
    for path, entry in walk(trees):
        if os.path.basename(path) != "__pycache__" and entry.st_ctime_ns >= begun:
            found.append(path + "/" if stat.S_ISDIR(entry.st_mode) else path)
    return found


def walk(trees: "list[str]") -> Iterator[tuple[str, os.stat_result]]:
    """Everything below some folders, once, with its facts, by real paths; neither what is in folders for byte code nor
    what is mounted or Docker's own, which is not the image's."""
    with open("/proc/self/mountinfo") as file:
        mounted = {line.split()[4] for line in file} | DOCKERS_OWN
    pending, seen = sorted({os.path.realpath(tree) for tree in trees}), set()
    while pending:
        folder = pending.pop()
        if folder in seen:
            continue
        seen.add(folder)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.path in mounted:
                        continue
                    facts = entry.stat(follow_symlinks=False)
                    yield entry.path, facts
                    if stat.S_ISDIR(facts.st_mode) and entry.name != "__pycache__":
                        pending.append(entry.path)
        except OSError:
            continue
