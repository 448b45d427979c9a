"""Finds canaries: random tokens that the vault plants in what it seals. One that turns up anywhere else is a leak.

Pure: bytes in, tokens out. A token is found plain, in either case, as hexadecimal, and inside base64 text, whatever it
stands behind there and however the text is broken into lines."""

import base64
from collections import defaultdict
from collections.abc import Collection, Iterable

_HEAD = 12
"""Bytes by which forms are looked for first: tokens begin alike, so that a blob without any is soon done with."""

_Forms = defaultdict[bytes, list[tuple[bytes, str]]]


def find(tokens: Collection[str], blobs: Iterable[bytes]) -> frozenset[str]:
    """Those of ``tokens`` that stand in any of ``blobs``."""
    any_case: _Forms = defaultdict(list)
    exact: _Forms = defaultdict(list)
    for token in tokens:
        for form in _written(token):
            any_case[form[:_HEAD]].append((form, token))
        for form in _encoded(token):
            exact[form[:_HEAD]].append((form, token))
    found: set[str] = set()
    for blob in blobs:
        joined = _joined(blob)
        for text, forms in ((joined.lower(), any_case), (joined, exact)):
            for head, named in forms.items():
                if head in text:
                    found.update(token for form, token in named if form in text)
    return frozenset(found)


def _joined(blob: bytes) -> bytes:
    """Without what breaks long lines, in plain text and (however often quoted) in JSON strings."""
    return blob.replace(b"\\n", b"").replace(b"\\r", b"").translate(None, b" \t\r\n\\")


def _written(token: str) -> tuple[bytes, ...]:
    """Forms whose case may change."""
    return token.lower().encode(), token.encode().hex().encode()


def _encoded(token: str) -> tuple[bytes, ...]:
    """Forms whose case counts: base64, in both alphabets, after zero, one and two bytes of something else."""
    raw, forms = token.encode(), []
    for offset in range(3):
        # What stands before decides how the token falls into groups of three bytes; characters that it only shares with
        # its neighbours are cut off.
        text = base64.b64encode(b"\0" * offset + raw)
        forms.append(text[(offset * 8 + 5) // 6 : (offset + len(raw)) * 8 // 6])
    return (*forms, *(form.translate(_URL_SAFE) for form in forms))


_URL_SAFE = bytes.maketrans(b"+/", b"-_")
