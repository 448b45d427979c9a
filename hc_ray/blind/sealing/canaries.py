"""Finds canaries: random tokens that the vault plants in sealed files. One that turns up anywhere else is a leak.

A token is found plain, in either case, broken by white space, as UTF-16 or -32,
as hexadecimal, inside base64 text whatever it stands behind there, escaped as in JSON, in C or in an address, and each
of these reversed; and all that inside archives (``archive_scan`` says which). A stream of any length costs a few
megabytes."""

import contextlib
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import IO, NamedTuple

from pydantic import ValidationError

from hc_ray.blind.sealing.archive_scan import pieces, streams
from hc_ray.blind.sealing.vault import VERIFIER_FILE, VerifierSpec


def planted_tokens(sealed_root: Path) -> dict[str, str]:
    """Every token planted under a root now, with the public digest of its task; a scanner looks for them in prompts,
    journals and artefacts. A task's sealed settings are read once, and again when they are another file: who seals a
    task anew, or installs it from elsewhere, replaces them whole. What cannot be read has none, and is tried the next
    time."""
    found = {}
    for path in sorted(sealed_root.glob(f"*/{VERIFIER_FILE}")):
        with contextlib.suppress(OSError, ValidationError):
            found[_token(path, _identity(path))] = path.parent.name
    return found


def _identity(path: Path) -> tuple[int, ...]:
    """Of a file that nobody writes into: another in its place differs in one of these, the time of its last change at
    the least, which no unpacking can set."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@cache
def _token(path: Path, identity: tuple[int, ...]) -> str:
    return VerifierSpec.model_validate_json(path.read_bytes()).canary


class _Family(NamedTuple):
    """One encoding, for all tokens."""

    any_case: bool
    common: bytes
    """What all forms share: tokens begin alike, so that a text without any is soon done with."""
    forms: tuple[tuple[bytes, str], ...]


def find(tokens: Collection[str], blobs: Iterable[bytes | IO[bytes]]) -> frozenset[str]:
    """The ``tokens`` that occur in any of ``blobs`` (streams must be seekable)."""
    families = _families(tuple(tokens))
    longest = max((len(form) for family in families for form, _ in family.forms), default=1)
    found: set[str] = set()
    for blob in blobs:
        for stream in streams(blob):
            _search(stream, families, longest, found)
    return frozenset(found)


def _search(stream: IO[bytes], families: tuple[_Family, ...], longest: int, found: set[str]) -> None:
    tail, held = b"", b""
    for data in pieces(stream):
        data = held + data
        # A backslash at the end may begin the two characters that stand for a line break.
        kept = data.rstrip(b"\\")
        held = b"\\" if len(kept) < len(data) else b""
        text = tail + _joined(kept)
        lower = text.lower()
        for family in families:
            where = lower if family.any_case else text
            if family.common in where:
                found.update(token for form, token in family.forms if form in where)
        tail = text[1 - longest :] if longest > 1 else b""


def _joined(data: bytes) -> bytes:
    """Without what breaks long lines, in plain text and (however often quoted) in JSON strings, and without the zeros
    of wide characters."""
    return data.replace(b"\\n", b"").replace(b"\\r", b"").translate(None, b" \t\r\n\\\0")


@lru_cache(maxsize=4)
def _families(tokens: tuple[str, ...]) -> tuple[_Family, ...]:
    ways: list[tuple[bool, Callable[[str], bytes]]] = [(True, way) for way in _WRITTEN]
    ways += [
        (False, partial(_base64, offset=offset, table=table)) for offset in range(3) for table in (None, _URL_SAFE)
    ]
    families = []
    for any_case, way in ways:
        forms = [(way(token), token) for token in tokens]
        start = _shared_start([form for form, _ in forms])
        families.append(_Family(any_case, start, tuple(forms)))
        families.append(_Family(any_case, start[::-1], tuple((form[::-1], token) for form, token in forms)))
    return tuple(dict.fromkeys(families))


def _shared_start(forms: Sequence[bytes]) -> bytes:
    first, last = min(forms, default=b""), max(forms, default=b"")
    count = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:count]


def _escaped(prefix: str, digits: str, *, whole: bool, end: str = "") -> Callable[[str], bytes]:
    """Characters as their numbers: all of them, or only those that are neither letters nor digits. Backslashes are gone
    by then."""

    def way(token: str) -> bytes:
        plain = token.lower()
        return "".join(
            one if one.isalnum() and not whole else f"{prefix}{ord(one):{digits}}{end}" for one in plain
        ).encode()

    return way


def _base64(token: str, *, offset: int, table: bytes | None) -> bytes:
    """What stands before decides how a token falls into groups of three bytes; characters that it only shares with its
    neighbours are cut off."""
    raw = token.encode()
    text = b64encode(b"\0" * offset + raw)
    return text[(offset * 8 + 5) // 6 : (offset + len(raw)) * 8 // 6].translate(table)


_WRITTEN: tuple[Callable[[str], bytes], ...] = (
    lambda token: token.lower().encode(),
    lambda token: token.encode().hex().encode(),
    lambda token: token.upper().encode().hex().encode(),
    _escaped("u", "04x", whole=True),
    _escaped("u", "04x", whole=False),
    _escaped("x", "02x", whole=True),
    _escaped("%", "02x", whole=True),
    _escaped("%", "02x", whole=False),
    _escaped("&#", "d", whole=False, end=";"),
)
"""Ways whose own case may change."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
