"""What goes over the daemon's connections beside calls: progress that is followed, sockets that are kept, what a
command says (frames of ``inside/exec.py`` within Docker's own), and a pulse that tells whether it is still the same
daemon. No SDK here."""

import contextlib
import json
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hc_ray.sandboxes.docker.values import fault_of


def wire_of(response: Any) -> socket.socket:
    """The socket under a streamed response, so that each read can have a deadline of its own."""
    raw = response.raw._fp.fp.raw
    return getattr(raw, "_sock", raw)  # type: ignore[no-any-return]


def own_socket(raw: Any) -> socket.socket:
    """The socket of an upgraded connection, held by the caller alone."""
    wire = getattr(raw, "_sock", raw)
    if wire is not raw:
        # SocketIO closes its socket when it is collected: a duplicate outlives it.
        duplicate: socket.socket = wire.dup()
        return duplicate
    return wire  # type: ignore[no-any-return]


LARGEST = 1 << 20
"""Bytes of a frame."""
START_SECONDS = 30.0
"""How long a helper may take to read what it is asked and to start a command, on a machine that is busy."""
LOOK_SECONDS, LOOKS = 1.0, 4
"""Whether a helper is stopped is looked at after such a silence. Once says nothing: to end a crowd, all are stopped."""
REST = 100.0
"""So many times what a look took are waited for the next."""


def take_payloads(pending: bytearray, kinds: Sequence[int] = (1, 2)) -> Iterator[tuple[int, bytes]]:
    """Take the whole frames of a command's two streams off the front: which stream (1 output, 2 error), and what it
    says. ``hc_exec`` has frames of the same form. Raises ``ValueError`` where something else stands there."""
    while len(pending) >= 8:
        kind, zeros, size = struct.unpack(">B3sI", pending[:8])
        if kind not in kinds or any(zeros) or size > LARGEST:
            raise ValueError("no frame")
        if len(pending) < 8 + size:
            return
        payload = bytes(pending[8 : 8 + size])
        del pending[: 8 + size]
        yield kind, payload


def heard(
    wire: socket.socket, asked: bytes, until: Callable[[], float], stopped: Callable[[], bool]
) -> Iterator[bytes]:
    """Send what is asked; what comes back, up to its end or the moment that ``until`` tells, or until who is to answer
    was ``stopped`` for some looks on end. A wire that fails has ended."""
    rest, looks, pause = memoryview(asked), 0, LOOK_SECONDS
    with contextlib.closing(wire), contextlib.suppress(OSError):
        while (left := until() - time.monotonic()) > 0 and looks < LOOKS:
            wire.settimeout(min(left, pause))
            try:
                if rest:
                    rest = rest[wire.send(rest) :]
                    continue
                data = wire.recv(1 << 16)
            except TimeoutError:
                began = time.monotonic()
                looks = looks + 1 if stopped() else 0
                pause = max(LOOK_SECONDS, REST * (time.monotonic() - began))
                continue
            if not data:
                return
            yield data


class Pulse:
    """A connection on which nothing is ever said. It ends with the daemon process that holds its other end: so a
    container that ended because its daemon was stopped or restarted can be told from one that a candidate has ended."""

    def __init__(self, response: Any) -> None:
        self._response = response  # which else would end the connection
        self._wire = wire_of(response)
        self._stopped = False

    def beats(self) -> bool:
        """Whether the daemon is the one that it was."""
        if not self._stopped:
            try:
                self._wire.setblocking(False)
                self._stopped = self._wire.recv(1) == b""
            except (BlockingIOError, ssl.SSLWantReadError):
                return True
            except OSError:
                self._stopped = True
        return not self._stopped


def follow(response: Any, seconds: float, what: str) -> str:
    """Read a progress stream to its end, at most ``seconds``; answers the id of what was built. Raises with the last
    lines when it reports an error."""
    until = time.monotonic() + seconds
    wire = wire_of(response)
    last: list[str] = []
    made = ""
    with contextlib.closing(response):
        try:
            for line in response.iter_lines(chunk_size=1024):
                status = json.loads(line) if line else {}
                if "error" in status:
                    raise fault_of(f"{what} failed", status["error"].strip(), "".join(last[-20:]).strip())
                made = (status.get("aux") or {}).get("ID", made)
                if "stream" in status:
                    last = [*last[-40:], status["stream"]]
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                wire.settimeout(left)
        except (TimeoutError, OSError) as error:
            if time.monotonic() < until - 0.5:
                raise
            said = "".join(last[-20:]).strip()
            raise fault_of(what, f"it took longer than {seconds:g} s", said) from error
    return made


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
