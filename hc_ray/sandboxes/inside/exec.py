"""Runs one command inside a container: started afresh by Docker's exec, as ``hc_exec`` under the runner's Python.

Standard input: one line of JSON, then ``stdin`` bytes for the command. Standard output: frames of one channel byte
(0 report, 1 stdout, 2 stderr), four bytes of length (big endian) and data; the report (JSON) is last. Everything
that the command starts stays a descendant of this process while it lives (it is their subreaper), so nothing can fork
itself out of the deadline; what still runs when the command ends in time goes to the container's init and lives on."""

# pathlib and typing would double the time to start.
# ruff: noqa: PTH108, PTH112, PTH114

from __future__ import annotations

import json
import os
import select
import signal
import struct
import sys
import time

from hc_ray.sandboxes.inside import filter, keep, processes

MYPY = False
if MYPY:
    from typing import Any

REPORT, STDOUT, STDERR = 0, 1, 2
KILL_SECONDS = 0.5
"""How long killing may take before what is left is reported as survivors."""
DRAIN_SECONDS = 0.2
"""How long output is still taken from pipes that something left behind fills."""
OOM_SCORE = 500
"""The candidate goes before those who watch it."""
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT)


def frame(channel: int, data: bytes) -> None:
    processes.write_all(1, struct.pack(">BI", channel, len(data)) + data)


def report(**facts: Any) -> None:
    frame(REPORT, json.dumps(facts).encode())


def read_request() -> tuple[dict[str, Any], bytes]:
    """The JSON line and the command's input, read whole before anything starts."""
    stream = os.fdopen(0, "rb", closefd=False)
    request = json.loads(stream.readline())
    return request, stream.read(request.get("stdin", 0)) if request.get("stdin") else b""


def become(request: dict[str, Any], stdin: int, stdout: int, stderr: int) -> None:
    """The child's half of the fork: never returns."""
    status = 126
    try:
        os.setsid()
        processes.hear_signals()
        for target, fd in enumerate((stdin, stdout, stderr)):
            os.dup2(fd, target)
        os.closerange(3, 64)
        if request.get("usual"):
            # The capabilities that a container usually has, and none of those that guard shared grading.
            from hc_ray.sandboxes.inside import rights

            rights.keep(rights.USUAL)
        filter.install(filter.program(counted=True))
        processes.step_back(OOM_SCORE)
        if request.get("account"):
            uid, gid, groups = request["account"]
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        # In a sandbox for shared grading this process was started with an environment that names no file.
        environment = {**({} if request.get("usual") else os.environ), **request.get("env", {})}
        os.chdir(request["cwd"])
        status = 127
        os.execvpe(request["argv"][0], request["argv"], environment)
    except FileNotFoundError as error:
        missing = request["argv"][0] if status == 127 else request["cwd"]
        os.write(2, f"hc: {error.strerror}: {missing}\n".encode(errors="replace"))
    except Exception as error:  # whatever it is, the command did not start
        status = 126
        os.write(2, f"hc: {error}\n".encode(errors="replace"))
    os._exit(status)


class Streams:
    """The command's output pipes: what is read up to ``limit`` bytes each is passed on, the rest dropped."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.truncated = False
        self.sent = {STDOUT: 0, STDERR: 0}
        self.open: dict[int, int] = {}

    def take(self, fd: int) -> bool:
        """Read once; False when there was nothing to read now."""
        try:
            data = os.read(fd, processes.CHUNK)
        except BlockingIOError:
            return False
        channel = self.open[fd]
        if not data:
            del self.open[fd]
            os.close(fd)
            return False
        room = self.limit - self.sent[channel]
        self.truncated = self.truncated or len(data) > room
        if room > 0:
            frame(channel, data[:room])
            self.sent[channel] += min(len(data), room)
        return True

    def drain(self, seconds: float) -> None:
        """Take what is there, for at most ``seconds``."""
        until = time.monotonic() + seconds
        for fd in list(self.open):
            while time.monotonic() < until and self.take(fd):
                pass

    def leave_reader(self) -> None:
        """Where a process that lives on holds a pipe, leave somebody who reads it: it must not die of SIGPIPE."""
        if not self.open or os.fork():
            return
        os.setsid()
        signal.set_wakeup_fd(-1)
        empty = os.open("/dev/null", os.O_RDWR)
        for target in (0, 1, 2):
            os.dup2(empty, target)
        while self.open:
            for fd in select.select(list(self.open), [], [])[0]:
                if not os.read(fd, processes.CHUNK):
                    del self.open[fd]
        os._exit(0)


def run(request: dict[str, Any], given: bytes) -> None:
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    in_read, in_write = os.pipe() if given else (os.open("/dev/null", os.O_RDONLY), -1)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    started = time.monotonic()
    deadline = started + request["timeout"]
    child = os.fork()
    if child == 0:
        become(request, in_read, out_write, err_write)
    report(started=True)
    for fd in (in_read, out_write, err_write):
        os.close(fd)
    streams = Streams(request["limit"])
    streams.open = {out_read: STDOUT, err_read: STDERR}
    for fd in (out_read, err_read, *([in_write] if given else [])):
        os.set_blocking(fd, False)
    rest = memoryview(given)
    status = None
    while status is None and time.monotonic() < deadline:
        wanted = [in_write] if in_write >= 0 else []
        left = max(0.0, deadline - time.monotonic())
        readable, writable, _ = select.select([wake_read, *streams.open], wanted, [], left)
        if writable:
            try:
                rest = rest[os.write(in_write, rest[: processes.CHUNK]) :]
            except BrokenPipeError:
                rest = rest[:0]
            if not rest:
                os.close(in_write)
                in_write = -1
        for fd in readable:
            if fd in streams.open:
                streams.take(fd)
            elif fd == wake_read:
                os.read(wake_read, processes.CHUNK)
        dead, _ = processes.reap()
        status = dead.get(child)
    seconds = time.monotonic() - started
    survivors = processes.kill_below(KILL_SECONDS, processes.reap) if status is None else 0
    streams.drain(DRAIN_SECONDS)
    code = None
    if status is not None:
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        streams.leave_reader()
    report(exit=code, survivors=survivors, truncated=streams.truncated, seconds=seconds)


def remove(paths: list[str]) -> None:
    """Delete paths, whatever they are; a link is removed, not followed."""
    import shutil  # slow to import, and seldom needed

    failed = []
    for path in paths:
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failed.append(f"{path}: {error.strerror}")
    report(exit=0, survivors=0, truncated=False, seconds=0.0, failed=failed)


def main() -> None:
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    processes.adopt_orphans()
    processes.hide()
    keep.wait_until_ready()
    request, given = read_request()
    if "remove" in request:
        remove(request["remove"])
    else:
        run(request, given)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
