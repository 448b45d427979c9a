"""One command in a running container, from the host's side: sends the request to ``inside/exec.py`` there, reads
the frames that come back through Docker's own, and never waits longer than the deadline and a little more."""

import contextlib
import json
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hc_ray.sandboxes.docker.account import Account
from hc_ray.sandboxes.docker.stream import take_payloads
from hc_ray.sandboxes.inside import frames

START_SECONDS = 30.0
"""How long the helper may take to start the command, on a machine that is busy."""
OVERTIME_SECONDS = 0.8
"""How long after the deadline the helper may still kill and report, before the container is killed."""

_REPORT, _STDOUT, _STDERR = 0, 1, 2


class Conversation:
    """What one exec has said so far. Whatever arrives, nothing raises and nothing is kept beyond the limits."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._outer = bytearray()
        self._inner = bytearray()
        self.streams = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self.started = False
        self.report: dict[str, Any] | None = None
        self.garbled = False
        self.complaint = bytearray()
        """What the helper, or Docker in its place, wrote to standard error."""

    def feed(self, data: bytes) -> None:
        """Take bytes of Docker's multiplexed stream."""
        self._outer += data
        try:
            for kind, payload in take_payloads(self._outer):
                if kind == 1:
                    self._inner += payload
                    self._take_frames()
                elif len(self.complaint) < 2000:
                    self.complaint += payload[:2000]
        except ValueError:
            self.complaint += (self._inner + self._outer)[:2000]
            self._inner.clear()
            self._outer.clear()
            self.garbled = True

    def _take_frames(self) -> None:
        for channel, data in take_payloads(self._inner, (_REPORT, _STDOUT, _STDERR)):
            if channel != _REPORT:
                stream = self.streams[channel]
                stream += data[: max(0, self._limit - len(stream))]
                continue
            try:
                facts = json.loads(data)
            except ValueError:
                facts = None
            if not isinstance(facts, dict):
                self.garbled = True
            elif facts.get("started"):
                self.started = True
            else:
                self.report = facts
                return

    @property
    def over(self) -> bool:
        return self.report is not None or self.garbled


def request(
    command: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout: float,
    limit: int,
    stdin: bytes,
    account: Account | None = None,
    usual: bool = False,
) -> bytes:
    """What the helper reads. ``account``: whom the command runs as (None: root). ``usual``: it has more rights than the
    command is to have, and no environment to pass on (sandboxes for shared grading)."""
    facts = {
        "argv": list(command), "cwd": cwd, "env": dict(env), "timeout": timeout, "limit": limit,
        "usual": usual, "account": account and [account.uid, account.gid, account.groups],
    }  # fmt: skip
    return frames.request(facts, stdin)


def removal(paths: Sequence[str]) -> bytes:
    return frames.request({"remove": list(paths)})


def converse(wire: socket.socket, asked: bytes, *, timeout: float, limit: int) -> Conversation:
    """Send the request and listen until the report, the end of the stream, or the deadline."""
    conversation = Conversation(limit)
    until = time.monotonic() + START_SECONDS
    with contextlib.closing(wire), contextlib.suppress(OSError):
        wire.settimeout(START_SECONDS)
        wire.sendall(asked)
        while not conversation.over:
            left = until - time.monotonic()
            if left <= 0:
                break
            wire.settimeout(left)
            data = wire.recv(1 << 16)
            if not data:
                break
            waiting = not conversation.started
            conversation.feed(data)
            if waiting and conversation.started:
                until = time.monotonic() + timeout + OVERTIME_SECONDS
    return conversation
