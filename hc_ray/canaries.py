"""Finds canaries: random tokens that the vault plants in what it seals. One that turns up anywhere else is a leak.

Pure: bytes in, tokens out. A token is found plain, in either case, as hexadecimal, and inside base64 text, whatever it
stands behind there and however the text is broken into lines."""

import base64
import re
from collections.abc import Collection, Iterable

_BREAKS = re.compile(rb"\s+|\\r|\\n|=\r?\n")
"""What breaks long lines, in plain text, in JSON strings and in quoted-printable."""


def find(tokens: Collection[str], blobs: Iterable[bytes]) -> frozenset[str]:
    """Those of ``tokens`` that stand in any of ``blobs``."""
    forms = {token: _forms(token) for token in tokens}
    found: set[str] = set()
    for blob in blobs:
        joined = _BREAKS.sub(b"", blob)
        lowered = joined.lower()
        for token, (written, encoded) in forms.items():
            if any(form in lowered for form in written) or any(form in joined for form in encoded):
                found.add(token)
    return frozenset(found)


def _forms(token: str) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """How a token may be written: forms that may change their case, and forms that may not."""
    raw = token.encode()
    encoded = []
    for offset in range(3):
        # What stands before decides how the token falls into groups of three bytes; groups that it only shares with its
        # neighbours are cut off.
        text = base64.b64encode(b"\0" * offset + raw)
        begin = (offset * 8 + 5) // 6
        encoded.append(text[begin : (offset + len(raw)) * 8 // 6])
    return (raw.lower(), raw.hex().encode()), (*encoded, *(form.translate(_URL_SAFE) for form in encoded))


_URL_SAFE = bytes.maketrans(b"+/", b"-_")
