"""What ``init`` (bwrap), ``exec`` (Docker) and the grader do alike inside a sandbox: become a candidate's command, find
all that it started, and end it."""
# Starts with every command: no pathlib, no subprocess.

from __future__ import annotations

import ctypes
import os
import time

MYPY = False
if MYPY:
    import signal
    from collections.abc import Callable, Iterator
else:
    import _signal as signal  # ``signal`` makes enumerations of its numbers: as slow to import as all else here

CHUNK = 1 << 16
"""Bytes that are moved at once."""
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
NICE = 5
"""Added to what a command starts with (in bubblewrap its actor's, in Docker 0): a third of the share of a processor,
where the kernel weighs single processes. A smaller share would not help: an engine that takes everything waits for the
tests that it holds up, and beside other programs nothing here would come to an end (docs/results.md)."""
SESSIONS = 16
"""Of one bubblewrap sandbox. Where the kernel shares the processors out by sessions, each gets as much as all of hc-ray
with its engine; the first is the sandbox's own, and each command has one."""
_CROWD = 40
"""Processes of a sandbox beyond which those of a command are not stopped one by one. (Two commands that both end in a
crowd could stop each other: the host then ends the sandbox.)"""


def prctl(option: int, value: int | bytes) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def kernel_release() -> tuple[int, int]:
    """The first two numbers of this machine's kernel."""
    first, second, *_ = *os.uname().release.split("-")[0].split("."), "0"
    return int(first), int(second) if second.isdigit() else 0


def adopt_orphans() -> None:
    """From now on whatever is started below this process hangs on it, whatever double forks it hides behind."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide() -> None:
    """Nothing inside may read or trace this process, whose user it may share."""
    prctl(_PR_SET_DUMPABLE, 0)


def hear_signals() -> None:
    """Ignore and block no signal, whatever this process was started to: below ``nohup`` and behind an ampersand shells
    ignore some, Ray's workers block others, and a shell can never trap what it was started to ignore."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def step_back(oom_score: int) -> None:
    """Yield to everybody else: a lower priority, and the first to go (of 1000) where memory runs out."""
    prctl(_PR_SET_DUMPABLE, 1)  # a hidden process may not write the file below
    os.nice(NICE)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(oom_score))
    except OSError:  # it is worse already
        return


def descendants(root: int) -> list[int]:
    """Living processes below ``root``, by their parents' numbers. One whose first thread has ended looks dead (Z), but
    lives as long as another of its threads does."""
    children: dict[int, list[int]] = {}
    dead = set()
    for number, fields in everyone():
        state, parent, threads = fields[0], int(fields[1]), int(fields[17])
        children.setdefault(parent, []).append(number)
        if state == b"X" or (state == b"Z" and threads <= 1):
            dead.add(number)
    found: list[int] = []
    front = [root]
    while front:
        below = children.get(front.pop(), [])
        found += below
        front += below
    return [process for process in found if process not in dead]


def may_have_session() -> bool:
    """Whether this sandbox has room for one session more."""
    return len({fields[3] for _, fields in everyone()}) < SESSIONS


def everyone(folder: str = "/proc") -> Iterator[tuple[int, list[bytes]]]:
    """Every process that is seen from here, or thread of a process's ``task`` folder: its number, and what its ``stat``
    says from its state on."""
    for name in os.listdir(folder):
        if name.isdigit():
            try:
                with open(f"{folder}/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            yield int(name), fields


def reap() -> tuple[dict[int, int], bool]:
    """Collect the children that have died: their wait statuses, and whether any lives."""
    dead: dict[int, int] = {}
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return dead, False
        if process == 0:
            return dead, True
        dead[process] = status


def write_all(file: int, data: bytes | bytearray) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def kill_below(seconds: float, reap: Callable[[], object], *, alone: bool) -> int:
    """End everything below this process; how many are left after ``seconds``. ``reap`` collects the dead. ``alone``:
    all that can be seen belongs to this sandbox. It may then be stopped as a whole, which outside of one would be
    the whole machine."""
    until = time.monotonic() + seconds
    while True:
        below, crowd = _stop_below(until, alone)
        for process in below:
            _signal(process, signal.SIGKILL)
        time.sleep(0.002)
        if crowd:  # not at once: a child that is being forked would keep the stop that its parent is rid of
            _signal(-1, signal.SIGCONT)
        reap()
        left = len(descendants(os.getpid()))
        if left == 0 or time.monotonic() >= until:
            return left


def _stop_below(until: float, alone: bool) -> tuple[list[int], bool]:
    """Stop everything below this process before any is killed, since what is stopped forks no more. A crowd is stopped
    with the whole namespace, in one call that no fork outruns: the second answer says so, and whoever does not hang on
    this process is to go on afterwards. A crowd is seen by its names alone, since it leaves so little of a core that to
    read of each whose it is takes seconds. Never where others can be seen, who may be the whole machine."""
    stopped: set[int] = set()
    while True:
        crowd = alone and sum(map(str.isdigit, os.listdir("/proc"))) > _CROWD
        found = [] if crowd else descendants(os.getpid())
        if crowd or (alone and len(found) > _CROWD):
            _signal(-1, signal.SIGSTOP)
            return descendants(os.getpid()), True
        if stopped.issuperset(found) or time.monotonic() >= until:
            return found, False
        for process in found:
            _signal(process, signal.SIGSTOP)
        stopped.update(found)


def _signal(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except OSError:  # it is gone, or there was nobody to take it
        return
