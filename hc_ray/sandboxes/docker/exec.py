"""One command in a running container, from the host's side: sends the request to ``inside/exec.py`` there, reads
the frames that come back through Docker's own, and never waits longer than the deadline and a little more."""

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from hc_ray.sandboxes.docker.stream import START_SECONDS, heard, take_payloads

OVERTIME_SECONDS = 0.8
"""How long after the deadline the helper may still kill and report, before the container is killed."""

_REPORT, _STDOUT, _STDERR = 0, 1, 2


class Conversation:
    """What one exec has said so far. Whatever arrives, nothing raises and nothing is kept beyond the limits."""

    def __init__(self, limit: int, seconds: float = 0.0) -> None:
        """``seconds``: what the command has from its start."""
        self._limit, self._seconds = limit, seconds
        self.until = time.monotonic() + START_SECONDS
        """The moment in which it is over, whatever was said."""
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
            except (ValueError, RecursionError):
                facts = None
            if not isinstance(facts, dict):
                self.garbled = True
            elif facts.get("started"):
                if not self.started:
                    self.until = time.monotonic() + self._seconds + OVERTIME_SECONDS
                self.started = True
            else:
                self.report = facts
                return

    @property
    def over(self) -> bool:
        return self.report is not None or self.garbled


def converse(
    wire: socket.socket, asked: bytes, *, timeout: float, limit: int, stopped: Callable[[], bool]
) -> Conversation:
    """Send the request and listen until the report, the end of the stream, or the deadline. ``stopped``: whether who is
    to start the command cannot."""
    conversation = Conversation(limit, timeout)
    for data in heard(wire, asked, lambda: conversation.until, lambda: not conversation.started and stopped()):
        conversation.feed(data)
        if conversation.over:
            break
    return conversation
