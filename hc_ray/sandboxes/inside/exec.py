"""Runs one command inside a container: started afresh by Docker's exec, as ``hc_exec`` under the runner's Python.

Standard input: one request (``frames``). Standard output: frames of one channel byte (0 report, 1 stdout, 2 stderr),
three of zeros, four of length (big endian) and data; the report (JSON) is last. What still runs when the command ends
in time goes to the container's init and lives on."""

# pathlib and typing would double the time to start.

from __future__ import annotations

import os
import struct
import time

from hc_ray.sandboxes.inside import filter, frames, keep, processes
from hc_ray.sandboxes.inside.leader import Leader, take_request

MYPY = False
if MYPY:
    import signal
    from typing import Any
else:
    import _signal as signal

REPORT, STDOUT, STDERR = 0, 1, 2
OOM_SCORE = 500
"""The candidate goes before those who watch it."""
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT)


def frame(channel: int, data: bytes) -> None:
    processes.write_all(1, struct.pack(">B3xI", channel, len(data)) + data)


def report(**facts: float | bool | None) -> None:
    frame(REPORT, frames.plain_json(facts))


def read_request() -> tuple[dict[str, Any], bytes]:
    """The request and the command's input, read whole before anything starts."""
    given = bytearray()
    while (taken := take_request(given)) is None:
        if not (data := os.read(0, processes.CHUNK)):
            os._exit(1)  # who asked is gone
        given += data
    return taken


class DockerLeader(Leader):
    """Passes output on as it comes: the host has what came before a deadline, whatever becomes of the container."""

    def started(self) -> None:
        report(started=True)

    def take(self, end: int, data: bytes) -> None:
        frame(STDOUT + self.outputs.index(end), data)

    def settle(self) -> dict[str, str]:
        usual = self.request.get("usual")
        if usual:
            # The capabilities that a container usually has, and none of those that guard shared grading.
            from hc_ray.sandboxes.inside import rights

            rights.keep(rights.USUAL)
        filter.install(filter.program(counted=True))
        processes.step_back(OOM_SCORE)
        if self.request.get("account"):
            from hc_ray.sandboxes.inside.account import Account

            Account(*self.request["account"]).become()
        # In a sandbox for shared grading this process was started with an environment that names no file.
        return {**({} if usual else os.environ), **self.request.get("env", {})}

    def run(self) -> None:
        began = time.monotonic()
        code, timed_out, survivors = self.lead()
        seconds = time.monotonic() - began
        if not timed_out:
            self.leave_reader()
        report(exit=code, survivors=survivors, truncated=self.truncated, seconds=seconds)

    def leave_reader(self) -> None:
        """Where a process that lives on holds a pipe, leave somebody who reads it: it must not die of SIGPIPE."""
        if not self.is_open or os.fork():
            return
        os.setsid()
        signal.set_wakeup_fd(-1)
        empty = os.open("/dev/null", os.O_RDWR)
        for target in (0, 1, 2):
            os.dup2(empty, target)
        self.room = dict.fromkeys(self.outputs, 0)
        while self.is_open:
            self.turn(None)
        os._exit(0)


def remove(paths: list[str]) -> None:
    """Delete paths, whatever they are; a link is removed, not followed."""
    import json  # slow to import, and seldom needed
    import shutil

    report(started=True)
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
    frame(REPORT, json.dumps({"exit": 0, "survivors": 0, "failed": failed}).encode())


def main() -> None:
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    processes.hide()
    keep.wait_until_ready()
    request, given = read_request()
    if "remove" in request:
        remove(request["remove"])
    else:
        DockerLeader(request, given).run()
