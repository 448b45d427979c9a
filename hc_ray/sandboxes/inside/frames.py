"""How the host and the processes that run commands in a sandbox talk: two lengths of four bytes each (big endian), a
header and a payload of these lengths.

A request's header is what ``marshal`` writes (host and runner are one Python), its payload the command's standard
input. A reply's header is JSON, its payload standard output and error. (``json`` takes as long to import as all else
that a sandbox starts with.)"""

from __future__ import annotations

import marshal
import struct

MYPY = False
if MYPY:  # typing is slow to import
    from typing import Any

LENGTHS = struct.Struct(">II")


def request(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """For the host's side: a header of whatever JSON can say."""
    import json

    # ``marshal`` takes exact types only; ``json`` makes them of an enumeration's strings.
    return _frame(marshal.dumps(json.loads(json.dumps(header)), 2), payload)


def reply(header: dict[str, float | bool | None], payload: bytes = b"") -> bytes:
    return _frame(plain_json(header), payload)


def plain_json(facts: dict[str, float | bool | None]) -> bytes:
    words = {name: "null" if value is None else str(value).lower() for name, value in facts.items()}
    return ("{" + ", ".join(f'"{name}": {word}' for name, word in words.items()) + "}").encode()


def _frame(header: bytes, payload: bytes) -> bytes:
    return LENGTHS.pack(len(header), len(payload)) + header + payload


def take_frame(buffer: bytearray) -> tuple[bytes, bytes] | None:
    """Header and payload of the first whole frame, taken out of the buffer; None while it is not whole."""
    if len(buffer) < LENGTHS.size:
        return None
    length, size = LENGTHS.unpack_from(buffer)
    start = LENGTHS.size + length
    if len(buffer) < start + size:
        return None
    header, payload = bytes(buffer[LENGTHS.size : start]), bytes(buffer[start : start + size])
    del buffer[: start + size]
    return header, payload


def is_frame(data: bytes | bytearray) -> bool:
    """Whether this is one whole frame and nothing else."""
    return len(data) >= LENGTHS.size and len(data) == LENGTHS.size + sum(LENGTHS.unpack_from(data))
