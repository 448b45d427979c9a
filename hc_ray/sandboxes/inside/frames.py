"""How the host and the first process of a bwrap sandbox talk: four bytes of length, a JSON header of that length, then
``header["bytes"]`` bytes (a request's standard input; a reply's standard output and error, ``header["stdout"]`` bytes
of them the output)."""

from __future__ import annotations

import json
import struct

MYPY = False
if MYPY:  # typing is slow to import
    from typing import Any

_LENGTH = struct.Struct(">I")


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
