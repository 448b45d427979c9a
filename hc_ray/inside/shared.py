"""Runs ``test.sh`` in the candidate's own living sandbox, out of reach of the processes that live in it.

Started by a privileged exec, from a mount that nothing in the sandbox can move, by the runner's own loader
(``hc_ray.adapters.docker_shared``). Until ``_give_up`` has run this process is the host's root but for its name spaces:
it reads nothing that a candidate can write (no environment, no locale, no time zone, no users, no file of the image).

1. A mount namespace of its own, in which ``/tests`` and ``/logs`` are fresh file systems: the hidden tests and the
   reward do not exist for anybody else. Both are mount points for the candidate too: they cannot be moved away.
2. It keeps the capabilities of every process of the container and one more, which none of them has: the kernel then
   refuses them ptrace, and with it the memory, the open files and the root of this process and of all that it starts.
3. The folders in which a program, library or module could be shadowed for a moment are looked at before and after.

The order is one line of JSON on the standard input, the answer one line on the standard output, as for ``hc_grade``,
which does the rest. Standard library only, and nothing of it that looks up users, hosts or locales."""

# Started once a grading, and pathlib would double the time that it takes to start.
# ruff: noqa: PTH101, PTH103, PTH108, PTH112, PTH114, PTH118, PTH120, PTH123

import base64
import ctypes
import importlib
import json
import os
import stat
import sys
from typing import Any

TESTS, LOGS = "/tests", "/logs"
CLONE_NEWNS, MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 0x20000, 2, 4, 0x4000, 1 << 18
PR_CAPBSET_DROP, PR_SET_KEEPCAPS, PR_SET_DUMPABLE = 24, 8, 4
CAPABILITY_VERSION = 0x20080522
KEPT = (0, 1, 3, 4, 5, 6, 7, 10, 31)
"""What containers of ours have: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE, SETFCAP."""
MARK = 36
"""BLOCK_SUSPEND: harmless (it keeps a laptop awake), and no container has it."""
LAST = 63


class Failed(Exception):
    """The kernel refused what the locks need."""


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _must(result: int, what: str) -> None:
    if result != 0:
        raise Failed(f"{what}: {os.strerror(ctypes.get_errno())}")


def hide(size: int) -> None:
    """Put file systems that nobody else sees over the tests and the logs."""
    libc = _libc()
    _must(libc.unshare(CLONE_NEWNS), "unshare")
    _must(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "making mounts private")
    for folder, mode in ((TESTS, "0755"), (LOGS, "0777")):
        options = f"mode={mode},size={size}".encode()
        _must(libc.mount(b"tmpfs", folder.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, options), f"hiding {folder}")


def capabilities(path: str = "/proc/self/status") -> int:
    """The permitted set of a process."""
    with open(path) as file:
        return next(int(line.split()[1], 16) for line in file if line.startswith("CapPrm:"))


def give_up() -> None:
    """Keep a container's capabilities and the mark, for good and for all that is started here."""
    libc = _libc()
    kept = {*KEPT, MARK}
    for number in range(LAST + 1):
        if number not in kept and libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            if ctypes.get_errno() == 22:  # the kernel's last capability
                break
            raise Failed(f"dropping capability {number}: {os.strerror(ctypes.get_errno())}")
    mask = sum(1 << number for number in kept) & capabilities()
    if not mask >> MARK & 1:
        raise Failed("this exec was given no capability beyond those of its container")
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    mark = 1 << (MARK - 32)
    # Effective, permitted, inheritable, twice: the lower and the upper 32. The mark alone is inherited by other users.
    _must(libc.capset(header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, mark)), "capset")
    _must(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "closing this process")
    # A test.sh that runs as another user is to bear the mark as well.
    _must(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "keeping the mark")


def write_tests(files: "dict[str, Any]") -> None:
    """The sealed files, by their paths below ``/tests``: ``[content in base64, whether it is executable]``."""
    for name, (content, executable) in files.items():
        path = os.path.join(TESTS, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(content))
        os.chmod(path, 0o755 if executable else 0o644)


def lend(folder: "str | None", lib: str) -> None:
    """Make the witness importable by scripts that set the search path anew; where it cannot be, it turns up missing."""
    if folder is None:
        return
    path = os.path.join(folder, "hc_witness.pth")
    try:
        os.makedirs(folder, exist_ok=True)
        if os.path.lexists(path):
            os.unlink(path)
        with open(path, "w") as file:
            file.write(lib + "\n")
    except OSError:
        return


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


def run(order: "dict[str, Any]") -> "dict[str, Any]":
    """Everything after the order was read."""
    hide(order["room"])
    give_up()
    os.environ.clear()
    os.environ.update(order["environ"])
    write_tests(order["tests"])
    lend(order.get("site"), order["lib"])
    for path in order.get("remove", ()):
        _remove(path)
    grade = importlib.import_module("hc_grade")
    grade.guard()
    before = seal(order["sealed"])
    report = grade.run({**order, "mark": MARK})
    after = seal(order["sealed"])
    return {**report, "unsealed": sorted(path for path in before if before[path] != after[path])}


def _remove(path: str) -> None:
    import shutil

    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


def main() -> None:
    order = json.loads(sys.stdin.readline())
    try:
        answer = run(order)
    except Failed as error:
        answer = {"refused": str(error)}
    sys.stdout.write(f"{order['nonce']} {json.dumps(answer)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
