"""Runs ``test.sh`` in the candidate's own living sandbox, out of reach of the processes that live in it.

Started from a mount that nothing in the sandbox can move, by the runner's own loader, with CAP_SYS_ADMIN
(``hc_ray.sandboxes.docker.shared``). Until ``give_up`` has run it reads nothing that a candidate can write: no
environment, no locale, no time zone, no users, no file of the image.

1. A mount namespace of its own, in which ``/tests`` and ``/logs`` are fresh file systems: the hidden tests and the
   reward do not exist for anybody else. Both are mount points for the candidate too: they cannot be moved away. So is
   ``/proc``, and from then on the candidate's shows whom it may trace alone.
2. It keeps the capabilities of every process of the container and one more, which none of them has: the kernel then
   refuses them ptrace, and with it the memory, the open files and the root of this process and of all that it starts.
   What is run from the candidate's files before they were compared has the mark too: none of it outlives its call.
3. The folders in which a program, library or module could be shadowed for a moment are sealed by one call and looked
   at again by the next, when the tests have run. What lies in them is compared with the image in between, from outside,
   and of all code it is then asked whether it was changed since, were it only for a moment.
   Those that the tests run in are the candidate's to write into: there, names of modules that a session loads may
   neither come nor go while the tests run.

The order is one line of JSON on the standard input, the answer one line on the standard output, as for ``hc_grade``,
which does the rest. Standard library only, and nothing of it that looks up users, hosts or locales."""

# Started once a grading, and pathlib would double the time that it takes to start.

import base64
import contextlib
import ctypes
import errno
import json
import os
import shutil
import stat
import sys
from typing import Any

from hc_ray.sandboxes.inside import processes, rights
from hc_ray.sandboxes.inside.grading import byte_code, grade, interpreters, newcomers, seals
from hc_ray.sandboxes.inside.grading.interpreters import BYTE_CODE

TESTS, LOGS = "/tests", "/logs"
CLONE_NEWNS, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 0x20000, 2, 4, 8, 32
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 0x1000, 0x2000, 0x4000, 1 << 18
PR_SET_KEEPCAPS, PR_SET_DUMPABLE = 8, 4
NAMES = "/var/run/nscd"
"""Where every C library first asks who is who. Whoever listens there could make anybody root."""


def hide(size: int) -> None:
    """Put file systems that nobody else sees over the tests and the logs."""
    libc = rights.libc()
    rights.must(libc.unshare(CLONE_NEWNS), "unshare")
    rights.must(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "making mounts private")
    hide_processes(libc)
    for folder, mode in ((TESTS, "0755"), (LOGS, "0777")):
        options = f"mode={mode},size={size}".encode()
        rights.must(libc.mount(b"tmpfs", folder.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, options), f"hiding {folder}")


def hide_processes(libc: Any) -> None:
    """Have those who live here see no process that they may not trace: none of the tests', whose command lines they
    could read else. The tests themselves see everybody, by a ``/proc`` of their own that is closed where the
    container's is. Nothing changes where the kernel does not have it: before Linux 5.8, and in a user namespace."""
    with open("/proc/self/mountinfo", "rb") as file:
        closed = [at for line in file if (at := line.split()[4]).startswith(b"/proc/")]
    own, flags = TESTS.encode(), MS_NOSUID | MS_NODEV | MS_NOEXEC
    if not _done(libc.mount(b"proc", own, b"proc", flags, None), "another /proc", unless=(errno.EPERM, errno.EACCES)):
        return
    for at in closed:
        rights.must(libc.mount(at, own + at.removeprefix(b"/proc"), None, MS_BIND, None), "closing /proc")
    hidden = libc.mount(None, b"/proc", None, MS_REMOUNT | flags, b"hidepid=ptraceable")
    if _done(hidden, "hiding processes", unless=(errno.EINVAL,)):
        rights.must(libc.mount(own, b"/proc", None, MS_MOVE, None), "a /proc of the tests' own")


def _done(result: int, what: str, *, unless: tuple[int, ...]) -> bool:
    """False where the kernel answers with one of the errors ``unless``."""
    if result != 0 and ctypes.get_errno() in unless:
        return False
    rights.must(result, what)
    return True


def give_up() -> None:
    """Keep a container's capabilities and the mark, for good and for all that is started here."""
    rights.keep((*rights.USUAL, rights.MARK), inherited=(rights.MARK,))
    if not rights.permitted() >> rights.MARK & 1:
        raise rights.Refused("this process was given no capability beyond those of a candidate")
    libc = rights.libc()
    rights.must(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "closing this process")
    # A test.sh that runs as another user is to bear the mark as well.
    rights.must(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "keeping the mark")


def write(path: str, content: str, mode: int) -> None:
    """A file, whose content comes in base64, in the place of what lies there."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
        file.write(base64.b64decode(content))
    os.chmod(path, mode)


def tidy(order: "dict[str, Any]") -> None:
    """Leave behind what isolated grading would not have carried: what the image lacks goes, what it has is put back
    (``restore``: path to content in base64 and mode)."""
    for path in (NAMES, *order.get("remove", ())):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)
    for path, (content, mode) in order.get("restore", {}).items():
        write(path, content, mode)


def settle() -> None:
    """Have overlayfs copy the top-level folders up now: to write into one for the first time would later count as a
    change of the root's."""
    for name in os.listdir("/"):
        path = f"/{name}"
        try:
            facts = os.lstat(path)
            if stat.S_ISDIR(facts.st_mode) and not os.path.ismount(path):
                os.chmod(path, stat.S_IMODE(facts.st_mode))
        except OSError:
            continue


def end_all() -> None:
    """End whatever was started here: it bears the mark, and who lives on with it could trace the tests."""
    if processes.kill_below(grade.GradingLeader.kill_seconds, processes.reap, alone=True):
        raise OSError(errno.EBUSY, "what was started here does not end")


def make_room(trees: "list[str]") -> "list[str]":
    """Where Python would make a folder for byte code, have one: a service that imports a module for the first time
    changes no folder of modules then. These folders."""
    rooms = sorted({f"{os.path.dirname(path)}/__pycache__" for path, _ in seals.walk(trees) if path.endswith(".py")})
    for room in rooms:
        with contextlib.suppress(OSError):
            if os.path.islink(room) or os.path.isfile(room):
                os.unlink(room)
            os.mkdir(room)
    return rooms


def cover(rooms: "list[str]") -> None:
    """Have Pythons find our byte code, and nobody else's, also before they read the way in. Whoever takes a folder away
    from under ours changes the one above, which is watched."""
    libc = rights.libc()
    for room in rooms:
        own = f"{BYTE_CODE}{os.path.dirname(room)}"
        os.makedirs(own, exist_ok=True)
        there = os.open(room, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        if libc.mount(own.encode(), f"/proc/self/fd/{there}".encode(), None, MS_BIND, None) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), room)
        os.close(there)


def run(order: "dict[str, Any]") -> "dict[str, Any]":
    """Everything after the order was read: ``do`` is ``prepare`` (put right what is not carried, seal, and with
    ``probe`` say what the tests resolve here: see ``hc_probe``) or ``run`` (the tests, in what was
    prepared unless ``sites`` say where the witness goes, and then whether the ``seals`` hold) or ``look`` (what lies at
    some ``paths``)."""
    hide(order.get("room", 1 << 20))
    os.makedirs(BYTE_CODE)
    for packed in order.get("byte_code", ()):
        byte_code.unpack(packed, BYTE_CODE)
    try:
        cover(order.get("rooms", ()))
    except OSError as error:
        return {"error": f"what is beside modules cannot be covered: {error}"}
    give_up()
    if order["do"] == "look":
        return {"looks": [seals.look(path) for path in order["paths"]]}
    os.environ.clear()
    # Byte code that lies beside a module could be anybody's, whatever the module's text says.
    os.environ.update({**order["environ"], "PYTHONPYCACHEPREFIX": BYTE_CODE})
    if order["do"] == "prepare":
        try:
            return prepare(order)
        except OSError as error:
            return {"error": f"what is not carried cannot be put right: {error}"}
    for name, (content, executable) in order["tests"].items():
        write(os.path.join(TESTS, name), content, 0o755 if executable else 0o644)
    _lend(order)
    try:
        come = newcomers.Newcomers(order["come"])
    except OSError as error:
        return {"error": f"what comes into folders cannot be watched: {error}"}
    if os.path.lexists(NAMES):
        come.seen.add(NAMES)
    before = order["seals"]
    if before:  # who came when all had been looked at, and was not heard yet
        come.seen.update(path for path in newcomers.present(order["come"]) if path not in before)
    report = grade.run(order, lambda: rights.bear(rights.MARK), (come.file, come.hear))
    come.hear()
    after = seals.seal(list(before))
    late = seals.changed_since(order["trees"], order["begun"]) if before else []
    unsealed = {path for path in before if before[path] != after[path]} | come.seen
    return {**report, "unsealed": sorted(unsealed), "late": late}


def prepare(order: "dict[str, Any]") -> "dict[str, Any]":
    """Make ready what the tests stand on, and seal it: from then on nothing of ours changes it either."""
    tidy(order)
    asked = order["probe"]
    if asked:  # by submissions that reach beyond the working directory
        from hc_ray.sandboxes.inside.grading import probe

        processes.adopt_orphans()
        if ldconfig := asked.pop("ldconfig"):
            probe.remember_libraries(ldconfig)
            end_all()
    _lend(order)
    rooms = make_room(order["whole"])
    settle()
    ways_in = [f"{folder}/{interpreters.WAY_IN}" for folder in order["sealed"]]
    there = newcomers.present(order["come"])
    found = seals.seal([*order["sealed"], *there, *ways_in, *seals.DEVICES, *seals.STREAMS, NAMES])
    begun = seals.moment()
    # Whatever size and time of its own a file has: when it was last changed, only the kernel says.
    touched = [path for path in seals.changed_since(order["trees"], order["began"]) if not path.endswith("/")]
    later = [path for path in order["sealed"] if found[path][1] >= order["began"]]
    touched += [path for path in later if os.path.islink(path) or not os.path.isdir(path)]
    # Looked at once they are sealed: the name is nobody else's, so no other look tells one that was written anew.
    if any(os.path.lexists(path) and not interpreters.leads_to(path, order["lib"], order["pure"]) for path in ways_in):
        return {"error": "the witness's way in was written anew"}
    odd = [path for path in (*seals.DEVICES, *seals.STREAMS) if not seals.is_device(path)]
    resolved = probe.probe({**asked, "lent": True}) if asked else None
    end_all()
    return {"seals": found, "begun": begun, "touched": touched, "odd": odd, "resolved": resolved, "rooms": rooms}


def _lend(order: "dict[str, Any]") -> None:
    """The witness to all Pythons, and pytest to the first, where that has none."""
    for number, sites in enumerate(order.get("sites", ())):
        interpreters.lend(sites, order["lib"], "" if number else order["pure"])


def main() -> None:
    order = json.loads(sys.stdin.readline())
    try:
        answer = run(order)
    except rights.Refused as error:
        answer = {"refused": str(error)}
    sys.stdout.write(f"{order['nonce']} {json.dumps(answer)}\n")
    sys.stdout.flush()
