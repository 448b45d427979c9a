"""One command of a sandbox: a process of its own between who asks for it (``init`` in bubblewrap, ``exec`` in Docker)
and the command, and the reaper of all that the command starts, whatever sessions and double forks it hides behind. What
still hangs on it after the deadline was started by the command."""
# Starts with every command: no pathlib, no subprocess, no typing.

from __future__ import annotations

import marshal
import os
import select
import time
import warnings  # noqa: F401 (``os.execvpe`` imports it: here once, else in every command)

from hc_ray.sandboxes.inside import frames, processes

MYPY = False
if MYPY:
    import signal
    from collections.abc import Callable
    from typing import Any
else:
    import _signal as signal

QUIET_SECONDS = 0.05
"""How long a command's streams may be silent after its end while something that it left behind holds them."""
DRAIN_SECONDS = 1.0
"""How long output is still taken after a command's end from something that it left behind and that never stops."""


def take_request(buffer: bytearray) -> tuple[dict[str, Any], bytes] | None:
    """As ``frames.take_frame``, the header read. It is nowhere near the host's side: ``marshal`` would be unsafe
    there."""
    taken = frames.take_frame(buffer)
    return None if taken is None else (marshal.loads(taken[0]), taken[1])


class Watch:
    """Calls what was registered for a descriptor when there is something to read, or room to write; what ``selectors``
    does, without its imports. (Not by ``poll``: it fails where a limit of open files was lowered from inside.)"""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._uses: dict[int, Callable[[int], object]] = {}

    def __contains__(self, file: int) -> bool:
        return file in self._uses

    def register(self, file: int, use: Callable[[int], object], *, write: bool = False) -> None:
        self._uses[file] = use
        self._poll.register(file, select.EPOLLOUT if write else select.EPOLLIN)

    def unregister(self, file: int) -> None:
        self._poll.unregister(file)
        del self._uses[file]

    def turn(self, timeout: float | None) -> list[object]:
        """What the calls answered; none where nothing was ready within ``timeout`` seconds (None: for ever)."""
        return [self._uses[file](file) for file, _ in self._poll.poll(timeout)]

    def close(self) -> None:
        self._poll.close()


class Leader:
    """One command and all that it starts. What the backends do each in its way is said below by ``settle`` and
    ``take``."""

    kill_seconds = 0.5
    """How long killing may take before what is left counts as survivors."""

    def __init__(self, request: dict[str, Any], stdin: bytes) -> None:
        self.request, self.stdin = request, memoryview(stdin)  # cut at every write: of bytes each would be a copy
        self.limit: int = request["limit"]
        self.passed: tuple[int, ...] = ()
        """Descriptors that the command gets beside its streams, under the numbers from 3 on."""
        self.outputs: tuple[int, ...] = ()
        self.room: dict[int, int] = {}
        """End of a stream → bytes that may still come of it."""
        self.truncated = False
        self.main = -1
        self.status: int | None = None
        self.watch = Watch()

    def settle(self) -> dict[str, str]:
        """In the process that becomes the command: its limits and rights. Answers its environment."""
        raise NotImplementedError

    def take(self, end: int, data: bytes) -> None:
        """Output, within the limit."""
        raise NotImplementedError

    def started(self) -> None:
        """The process of the command is there; it becomes the command when this has been told, since it may then end
        who tells it."""

    def lead(self) -> tuple[int | None, bool, int]:
        """Run the command: its exit code (None past its deadline), whether its time was up, and how many processes
        survived that."""
        processes.adopt_orphans()
        waker, signalled = os.pipe()
        os.set_blocking(waker, False)
        os.set_blocking(signalled, False)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, place: None)
        self.watch.register(waker, self._wake)
        deadline = time.monotonic() + self.request["timeout"]
        held, go = os.pipe()
        self.main = self._start(held, go)
        os.close(held)
        self.started()
        try:  # noqa: SIM105 (contextlib takes milliseconds to import)
            os.write(go, b"!")
        except BrokenPipeError:  # it was killed meanwhile
            pass
        os.close(go)
        survivors = 0
        if timed_out := self._wait(deadline):
            survivors = processes.kill_below(self.kill_seconds, self.reap, alone=True)
            self.turn(0)
        code = None if timed_out or self.status is None else os.waitstatus_to_exitcode(self.status)
        return code if code is None or code >= 0 else 128 - code, timed_out, survivors

    def _start(self, held: int, go: int) -> int:
        given = os.pipe() if self.stdin else (os.open("/dev/null", os.O_RDONLY), -1)
        ends = (given, *(os.pipe()[::-1] for _ in range(2)))
        theirs = [*(end[0] for end in ends), *self.passed]
        pid = os.fork()
        if pid == 0:
            os.close(go)
            self._become(theirs, held)
        for used in theirs:
            os.close(used)
        feed, *outputs = (end[1] for end in ends)
        self.outputs = tuple(outputs)
        for end in self.outputs:
            self.room[end] = self.limit
            os.set_blocking(end, False)
            self.watch.register(end, self._read)
        if self.stdin:
            os.set_blocking(feed, False)
            self.watch.register(feed, self._write, write=True)
        return pid

    def _become(self, ends: list[int], held: int) -> None:
        """In the child: turn into the command at the word on ``held``; without one, nobody leads it. Never returns."""
        code, sought = 126, self.request["cwd"]
        try:
            processes.hear_signals()
            os.setsid()
            os.umask(0o022)
            if not os.read(held, 1):
                return
            for target, end in enumerate(ends):
                os.dup2(end, target)
            os.closerange(len(ends), 256)
            environment = self.settle()
            os.chdir(sought)
            sought = self.request["argv"][0]
            os.execvpe(sought, self.request["argv"], environment)
        except FileNotFoundError as error:
            code = 127
            os.write(2, f"hc: {error.strerror}: {sought}\n".encode(errors="replace"))
        except BaseException as error:  # whatever it is, the command did not start
            os.write(2, f"hc: {error}\n".encode(errors="replace"))
        finally:
            os._exit(code)

    def _wait(self, deadline: float) -> bool:
        """Until the command ended and its output is read; True when the deadline came first."""
        drained = quiet = 0.0
        while True:
            self.reap()
            now = time.monotonic()
            if self.status is not None:
                drained = drained or min(deadline, now + DRAIN_SECONDS)
                quiet = min(quiet or now + QUIET_SECONDS, drained)
                if not self.is_open or now >= quiet:
                    return False
                if self.turn(quiet - now):  # what else woke it, such as the end of an orphan, is no output
                    quiet = time.monotonic() + QUIET_SECONDS
            elif now >= deadline:
                return True
            else:
                self.turn(deadline - now)

    @property
    def is_open(self) -> bool:
        """Whether somebody can still write into the command's streams."""
        return any(end in self.watch for end in self.outputs)

    def turn(self, timeout: float | None) -> bool:
        """Move what can be moved, by what each descriptor was registered with; True if output came."""
        return any(self.watch.turn(timeout))

    def _wake(self, end: int) -> None:
        os.read(end, processes.CHUNK)

    def _read(self, end: int) -> bool:
        try:
            data = os.read(end, processes.CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.watch.unregister(end)
            os.close(end)
            return False
        self.truncated |= len(data) > self.room[end]
        if kept := data[: self.room[end]]:
            self.room[end] -= len(kept)
            self.take(end, kept)
        return True

    def _write(self, feed: int) -> None:
        try:
            self.stdin = self.stdin[os.write(feed, self.stdin[: processes.CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.stdin = self.stdin[:0]
        if not self.stdin:
            self.watch.unregister(feed)
            os.close(feed)

    def reap(self) -> bool:
        """Collect the dead; True while anything lives."""
        dead, alive = processes.reap()
        self.status = dead.get(self.main, self.status)
        return alive
