"""One command of a bwrap sandbox: a process of its own between ``init`` and the command, and the reaper of all that the
command starts, whatever sessions and double forks it hides behind. What still hangs on it after the deadline was
started by the command."""
# Starts with every sandbox: no pathlib, no subprocess, no typing.

from __future__ import annotations

import os
import resource
import selectors
import signal
import time
import warnings  # noqa: F401 (``os.execvpe`` imports it: here once, else in every command)

from hc_ray.sandboxes.inside import filter, processes
from hc_ray.sandboxes.inside.frames import frame

MYPY = False
if MYPY:
    from typing import Any

KILL_SECONDS = 0.6
"""How long a leader tries to kill what its command started."""
QUIET_SECONDS = 0.05
"""How long a command's streams may be silent after its end while something that it left behind holds them."""
DRAIN_SECONDS = 1.0
"""How long output is still taken after a command's end from something that it left behind and that never stops."""
_OOM_SCORE = 1000
_FILTER = filter.program(counted=False)


class Leader:
    """One command and all that it starts; runs in a process of its own."""

    def __init__(self, request: dict[str, Any], stdin: bytes, limits: dict[str, int]) -> None:
        self.request, self.stdin, self.limits = request, stdin, limits
        self.limit: int = request["limit"]
        self.streams: dict[int, bytearray] = {}
        self.outputs: tuple[int, ...] = ()
        self.truncated = False
        self.cancelled = False
        self.status: int | None = None
        self.selector = selectors.DefaultSelector()

    def run(self, reply: int) -> None:
        """Run the command, write the reply, then stay as the reaper of what it left behind."""
        processes.adopt_orphans()
        waker, signalled = os.pipe()
        os.set_blocking(waker, False)
        os.set_blocking(signalled, False)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, place: None)
        signal.signal(signal.SIGTERM, self._cancel)
        self.selector.register(waker, selectors.EVENT_READ)
        started = time.monotonic()
        self.main = self._start()
        timed_out = self._wait(started + self.request["timeout"], waker)
        left = 0
        if timed_out:
            left = processes.kill_below(KILL_SECONDS, self._reap)
            self._turn(0, waker)
        code = None if timed_out or self.status is None else os.waitstatus_to_exitcode(self.status)
        header = {
            "id": self.request["id"],
            "exit_code": code if code is None or code >= 0 else 128 - code,
            "timed_out": timed_out and not self.cancelled,
            "truncated": self.truncated,
            "seconds": time.monotonic() - started,
            "survived": left > 0,
            "stdout": len(self.streams[self.outputs[0]]),
        }
        payload = b"".join(self.streams[end] for end in self.outputs)
        with os.fdopen(reply, "wb") as file:
            file.write(frame(header, payload))
        self.limit = 0
        del payload
        self.streams = {end: bytearray() for end in self.outputs}
        while self._reap():  # keeps draining: a process left behind must not die of a closed pipe
            self._turn(None, waker)

    def _cancel(self, number: int, place: object) -> None:
        self.cancelled = True

    def _start(self) -> int:
        ends = [os.pipe() for _ in range(3)]
        pid = os.fork()
        if pid == 0:
            _become(self.request, self.limits, (ends[0][0], ends[1][1], ends[2][1]))
        for used in (ends[0][0], ends[1][1], ends[2][1]):
            os.close(used)
        self.outputs = (ends[1][0], ends[2][0])
        for end in self.outputs:
            self.streams[end] = bytearray()
            os.set_blocking(end, False)
            self.selector.register(end, selectors.EVENT_READ)
        self.feed = ends[0][1]
        if self.stdin:
            os.set_blocking(self.feed, False)
            self.selector.register(self.feed, selectors.EVENT_WRITE)
        else:
            os.close(self.feed)
        return pid

    def _wait(self, deadline: float, waker: int) -> bool:
        """Until the command ended and its output is read; True when the deadline came first."""
        drained = deadline
        while True:
            self._reap()
            left = deadline - time.monotonic()
            if self.status is not None:
                drained = min(drained, time.monotonic() + DRAIN_SECONDS)
                open_ends = [key.fd for key in self.selector.get_map().values() if key.fd in self.outputs]
                if not open_ends or not self._turn(QUIET_SECONDS, waker) or time.monotonic() > drained:
                    return False
            elif left <= 0 or self.cancelled:
                return True
            else:
                self._turn(left, waker)

    def _turn(self, timeout: float | None, waker: int) -> bool:
        """Move what can be moved; True if output came."""
        moved = False
        for key, _ in self.selector.select(timeout):
            if key.fd == waker:
                os.read(waker, processes.CHUNK)
            elif key.fd in self.streams:
                moved |= self._read(key.fd)
            else:
                self._write()
        return moved

    def _read(self, end: int) -> bool:
        try:
            data = os.read(end, processes.CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.selector.unregister(end)
            os.close(end)
            return False
        room = max(0, self.limit - len(self.streams[end]))
        self.streams[end] += data[:room]
        self.truncated |= len(data) > room
        return True

    def _write(self) -> None:
        try:
            self.stdin = self.stdin[os.write(self.feed, self.stdin[: processes.CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.stdin = b""
        if not self.stdin:
            self.selector.unregister(self.feed)
            os.close(self.feed)

    def _reap(self) -> bool:
        """Collect the dead; True while anything lives."""
        dead, alive = processes.reap()
        self.status = dead.get(self.main, self.status)
        return alive


def _become(request: dict[str, Any], limits: dict[str, int], ends: tuple[int, int, int]) -> None:
    """In the child: turn into the command. Never returns."""
    code = 127
    try:
        processes.hear_signals()
        os.setsid()
        os.umask(0o022)
        for target, end in enumerate(ends):
            os.dup2(end, target)
        os.closerange(3, 256)
        resource.setrlimit(resource.RLIMIT_DATA, (limits["data"], limits["data"]))
        filter.install(_FILTER)
        processes.step_back(_OOM_SCORE)
        os.chdir(request["cwd"])
        os.execvpe(request["argv"][0], request["argv"], request["env"])
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        os.write(2, f"{request['argv'][0]}: {error.strerror}: {error.filename}\n".encode())
    except BaseException as error:
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(code)
