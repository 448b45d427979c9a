"""First process of a bwrap sandbox: runs commands for the host, a frame (``frames``) in on descriptor 0, one out on 1.

It is process 1 of its PID namespace: nothing inside can kill it, and when it ends the kernel kills everything inside.
Each command gets a *leader* (``leader``), a fork of this process. A leader that dies without a reply was killed from
inside: then this process ends, and the sandbox with it.

Runs under the runner's own interpreter only."""
# Starts with every sandbox: no pathlib, no subprocess, no typing.

from __future__ import annotations

import os
import resource
import sys
import time

from hc_ray.sandboxes.inside import filter, processes
from hc_ray.sandboxes.inside.frames import is_frame, reply
from hc_ray.sandboxes.inside.leader import Leader, Watch, take_request

MYPY = False
if MYPY:
    import signal
    from typing import Any
else:
    import _signal as signal

STDOUT, STDERR = 0, 1
_OOM_SCORE = 1000
_FILTER = filter.program(counted=False)
_ASKING = filter.program(counted=False, asking=True)
LATE_SECONDS = 1.2
"""How long past a deadline a leader may be silent before the sandbox is given up."""


class BwrapLeader(Leader):
    """Replies once, when the command has ended."""

    kill_seconds = 0.6

    def __init__(self, request: dict[str, Any], stdin: bytes, limits: dict[str, int]) -> None:
        super().__init__(request, stdin)
        self.limits, self.streams = limits, {STDOUT: bytearray(), STDERR: bytearray()}

    def take(self, end: int, data: bytes) -> None:
        self.streams[self.outputs.index(end)] += data

    def settle(self) -> dict[str, str]:
        resource.setrlimit(resource.RLIMIT_DATA, (self.limits["data"], self.limits["data"]))
        if self.listener < 0:
            filter.install(_FILTER)
        processes.step_back(_OOM_SCORE)
        environment: dict[str, str] = self.request["env"]
        return environment

    def run(self, answer: int) -> None:
        """Run the command, write whether anything survived it and the reply, then stay as the reaper of what it left
        behind."""
        began = time.monotonic()
        # On this process, not in the command's own, which could not pass the descriptor on.
        self.listener = filter.install_asking(_ASKING)
        if self.listener >= 0:
            self.watch.register(self.listener, self._decide)
        code, timed_out, survivors = self.lead()
        header = {
            "id": self.request["id"],
            "exit_code": code,
            "timed_out": timed_out,
            "truncated": self.truncated,
            "seconds": time.monotonic() - began,
            "survived": survivors > 0,
            "stdout": len(self.streams[STDOUT]),
        }
        with os.fdopen(answer, "wb") as file:
            file.write(bytes([survivors > 0]) + reply(header, b"".join(self.streams.values())))
        self.room, self.streams = dict.fromkeys(self.outputs, 0), {}
        while self.reap():  # keeps draining: a process left behind must not die of a closed pipe
            self.turn(None)

    def _decide(self, listener: int) -> None:
        # The command itself always: else a crowd would keep every later one from starting.
        filter.decide(listener, lambda process: process == self.main or processes.may_have_session())


class Init:
    """The loop of process 1: requests in, leaders out, replies relayed."""

    def __init__(self, requests: int, replies: int, limits: dict[str, int]) -> None:
        self.requests, self.replies, self.limits = requests, replies, limits
        self.watch = Watch()
        self.watch.register(requests, self._receive)
        self.incoming = bytearray()
        self.leaders: dict[int, tuple[int, float, bytearray]] = {}
        """End of the leader's reply pipe → (request, last moment, what was read)."""

    def run(self) -> None:
        self._send(ready=True)
        while True:
            last = min((moment for _, moment, _ in self.leaders.values()), default=None)
            wait = 1.0 if last is None else max(0.0, min(1.0, last - time.monotonic()))
            self.watch.turn(wait)
            for number, moment, _ in self.leaders.values():
                if time.monotonic() > moment:
                    self._give_up(number)
            processes.reap()

    def _receive(self, requests: int) -> None:
        data = os.read(requests, 1 << 20)
        if not data:
            os._exit(0)  # the host is gone: so is the sandbox
        self.incoming += data
        while (taken := take_request(self.incoming)) is not None:
            self._lead(*taken)

    def _lead(self, header: dict[str, Any], payload: bytes) -> None:
        end, answer = os.pipe()
        try:
            pid = os.fork()
        except OSError:  # no process left under the limit: whoever runs inside took them all
            os.close(end)
            os.close(answer)
            self._send(id=header["id"], lost=True)
            os._exit(1)
        if pid == 0:
            try:
                for other in (self.requests, self.replies, end, *self.leaders):
                    os.close(other)
                self.watch.close()
                BwrapLeader(header, payload, self.limits).run(answer)
            finally:
                os._exit(0)
        os.close(answer)
        moment = time.monotonic() + header["timeout"] + LATE_SECONDS
        self.leaders[end] = (header["id"], moment, bytearray())
        self.watch.register(end, self._relay)

    def _relay(self, end: int) -> None:
        number, _, buffer = self.leaders[end]
        data = os.read(end, 1 << 20)
        buffer += data
        if data:
            return
        survived, whole = buffer[:1] != b"\0", buffer[1:]
        if not is_frame(whole):
            self._give_up(number)
        processes.write_all(self.replies, whole)
        if survived:
            os._exit(1)
        self.watch.unregister(end)
        os.close(end)
        del self.leaders[end]

    def _give_up(self, number: int) -> None:
        """A leader died or is silent: end, and with this process everything inside."""
        self._send(id=number, lost=True)
        os._exit(1)

    def _send(self, **header: float | bool | None) -> None:
        processes.write_all(self.replies, reply(header))


def main() -> None:
    """Start as process 1. The arguments are limits: ``data=BYTES fsize=BYTES nproc=NUMBER nofile=NUMBER``."""
    limits = {name: int(number) for name, number in (limit.split("=") for limit in sys.argv[1:])}
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    names = {"fsize": resource.RLIMIT_FSIZE, "nproc": resource.RLIMIT_NPROC, "nofile": resource.RLIMIT_NOFILE}
    for name, number in names.items():
        hard = resource.getrlimit(number)[1]
        value = limits[name] if hard == resource.RLIM_INFINITY else min(limits[name], hard)
        resource.setrlimit(number, (value, value))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, replies = os.dup2(0, 3, inheritable=False), os.dup2(1, 4, inheritable=False)
    os.closerange(5, 256)
    null = os.open("/dev/null", os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.hide()
    Init(requests, replies, limits).run()
