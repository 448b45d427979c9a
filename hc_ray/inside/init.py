"""First process of a bwrap sandbox: runs commands for the host, one frame in on descriptor 0, one frame out on 1.

A frame is four bytes of length, a JSON header of that length, then ``header["bytes"]`` bytes (a request's standard
input; a reply's standard output and error, ``header["stdout"]`` bytes of them the output).

It is process 1 of its PID namespace: nothing inside can kill it, and when it ends the kernel kills everything inside.
Each command gets a *leader*, a fork of this process that is the reaper of all that the command starts, whatever
sessions and double forks it hides behind: what still hangs on the leader after the deadline was started by the
command. A leader that dies without a reply was killed from inside: then this process ends, and the sandbox with it.

Runs under the runner's own interpreter only."""
# Starts with every sandbox: no pathlib, no subprocess.
# ruff: noqa: PTH123, PTH208

import ctypes
import json
import os
import resource
import selectors
import signal
import struct
import sys
import time
from typing import Any

_LENGTH = struct.Struct(">I")
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_CHUNK = 1 << 16
KILL_SECONDS = 0.6
"""How long a leader tries to kill what its command started."""
LATE_SECONDS = 1.2
"""How long past a deadline a leader may be silent before the sandbox is given up."""
QUIET_SECONDS = 0.05
"""How long a command's streams may be silent after its end while something that it left behind holds them."""
DRAIN_SECONDS = 1.0
"""How long output is still taken after a command's end from something that it left behind and that never stops."""


def frame(header: dict[str, Any], payload: bytes = b"") -> bytes:
    text = json.dumps({**header, "bytes": len(payload)}).encode()
    return _LENGTH.pack(len(text)) + text + payload


def take_frame(buffer: bytearray) -> tuple[dict[str, Any], bytes] | None:
    """The first whole frame, taken out of the buffer; None while it is not whole."""
    if len(buffer) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(buffer)
    start = _LENGTH.size + length
    if len(buffer) < start:
        return None
    header = json.loads(buffer[_LENGTH.size : start])
    end = start + header["bytes"]
    if len(buffer) < end:
        return None
    payload = bytes(buffer[start:end])
    del buffer[:end]
    return header, payload


def descendants(root: int) -> list[int]:
    """Living processes below ``root``, by their parents' numbers."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


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
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
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
        gone = True
        if timed_out:
            gone = self._kill()
            self._turn(0, waker)
        code = None if timed_out or self.status is None else os.waitstatus_to_exitcode(self.status)
        header = {
            "id": self.request["id"],
            "exit_code": code if code is None or code >= 0 else 128 - code,
            "timed_out": timed_out and not self.cancelled,
            "truncated": self.truncated,
            "seconds": time.monotonic() - started,
            "survived": not gone,
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
                os.read(waker, _CHUNK)
            elif key.fd in self.streams:
                moved |= self._read(key.fd)
            else:
                self._write()
        return moved

    def _read(self, end: int) -> bool:
        try:
            data = os.read(end, _CHUNK)
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
            self.stdin = self.stdin[os.write(self.feed, self.stdin[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.stdin = b""
        if not self.stdin:
            self.selector.unregister(self.feed)
            os.close(self.feed)

    def _reap(self) -> bool:
        """Collect the dead; True while anything lives."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.main:
                self.status = status

    def _kill(self) -> bool:
        """SIGKILL everything below this process until nothing is left; False when something is."""
        end = time.monotonic() + KILL_SECONDS
        while self._reap():
            for pid in descendants(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    continue
            if time.monotonic() > end:
                return False
            time.sleep(0.002)
        return True


def _become(request: dict[str, Any], limits: dict[str, int], ends: tuple[int, int, int]) -> None:
    """In the child: turn into the command. Never returns."""
    code = 127
    try:
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.umask(0o022)
        for target, end in enumerate(ends):
            os.dup2(end, target)
        os.closerange(3, 256)
        resource.setrlimit(resource.RLIMIT_DATA, (limits["data"], limits["data"]))
        os.nice(19)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        argv = request["argv"]
        os.execvpe(argv[0], argv, request["env"])
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        os.write(2, f"{request['argv'][0]}: {error.strerror}: {error.filename}\n".encode())
    except BaseException as error:
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(code)


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


class Init:
    """The loop of process 1: requests in, leaders out, replies relayed."""

    def __init__(self, requests: int, replies: int, limits: dict[str, int]) -> None:
        self.requests, self.replies, self.limits = requests, replies, limits
        self.selector = selectors.DefaultSelector()
        self.selector.register(requests, selectors.EVENT_READ)
        self.incoming = bytearray()
        self.leaders: dict[int, tuple[int, int, float, bytearray]] = {}
        """End of the leader's reply pipe → (request, process, last moment, what was read)."""

    def run(self) -> None:
        self._send({"op": "ready", "pid": os.getpid()})
        while True:
            last = min((moment for _, _, moment, _ in self.leaders.values()), default=None)
            wait = 1.0 if last is None else max(0.0, min(1.0, last - time.monotonic()))
            for key, _ in self.selector.select(wait):
                if key.fd == self.requests:
                    self._receive()
                else:
                    self._relay(key.fd)
            for end, (number, _, moment, _) in list(self.leaders.items()):
                if time.monotonic() > moment:
                    self._give_up(end, number)
            self._reap()

    def _receive(self) -> None:
        data = os.read(self.requests, 1 << 20)
        if not data:
            os._exit(0)  # the host is gone: so is the sandbox
        self.incoming += data
        while (taken := take_frame(self.incoming)) is not None:
            header, payload = taken
            if header["op"] == "exec":
                self._lead(header, payload)
            else:
                self._cancel(header["id"])

    def _cancel(self, number: int) -> None:
        for request, pid, _, _ in self.leaders.values():
            if request == number:
                os.kill(pid, signal.SIGTERM)

    def _lead(self, header: dict[str, Any], payload: bytes) -> None:
        end, reply = os.pipe()
        try:
            pid = os.fork()
        except OSError:  # no process left under the limit: whoever runs inside took them all
            os.close(end)
            os.close(reply)
            self._send({"id": header["id"], "lost": True})
            os._exit(1)
        if pid == 0:
            try:
                for other in (self.requests, self.replies, end, *self.leaders):
                    os.close(other)
                self.selector.close()
                Leader(header, payload, self.limits).run(reply)
            finally:
                os._exit(0)
        os.close(reply)
        moment = time.monotonic() + header["timeout"] + LATE_SECONDS
        self.leaders[end] = (header["id"], pid, moment, bytearray())
        self.selector.register(end, selectors.EVENT_READ)

    def _relay(self, end: int) -> None:
        number, _, _, buffer = self.leaders[end]
        data = os.read(end, 1 << 20)
        buffer += data
        if data:
            return
        taken = take_frame(buffer)
        if taken is None:
            self._give_up(end, number)
            return
        header, payload = taken
        self._send(header, payload)
        if header["survived"]:
            os._exit(1)
        self.selector.unregister(end)
        os.close(end)
        del self.leaders[end]

    def _give_up(self, end: int, number: int) -> None:
        """A leader died or is silent: end, and with this process everything inside."""
        self._send({"id": number, "lost": True})
        os._exit(1)

    def _reap(self) -> None:
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    return
            except ChildProcessError:
                return

    def _send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        data = memoryview(frame(header, payload))
        while data:
            data = data[os.write(self.replies, data) :]


def main() -> None:
    """Start as process 1. The one argument is a JSON object of limits: ``data``, ``fsize``, ``nproc``, ``nofile``."""
    limits = json.loads(sys.argv[1])
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    names = {"fsize": resource.RLIMIT_FSIZE, "nproc": resource.RLIMIT_NPROC, "nofile": resource.RLIMIT_NOFILE}
    for name, number in names.items():
        hard = resource.getrlimit(number)[1]
        value = limits[name] if hard == resource.RLIM_INFINITY else min(limits[name], hard)
        resource.setrlimit(number, (value, value))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, replies = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    for other in range(3, 256):
        if other not in (requests, replies):
            try:
                os.close(other)
            except OSError:
                continue
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl(_PR_SET_DUMPABLE, 0)  # nothing inside may read or trace this process, whose user it shares
    Init(requests, replies, limits).run()


if __name__ == "__main__":
    main()
