"""The byte code of modules that no submission touches: compiled once, in an untouched sandbox, and laid where the tests
of every later grading find it (``PYTHONPYCACHEPREFIX``). Python takes it for a module of the same time and size alone.
Standard library only."""

from __future__ import annotations

import base64
import json
import os
import zlib

LIMIT = 48 << 20
"""Bytes of byte code that are kept (pytest's are 6 million, those of a large library 20); of more, nothing is."""


def pack(root: str, folders: list[str]) -> str:
    """What Python compiled to ``root`` of what lies below ``folders``: a line of JSON with paths and sizes, then the
    contents, compressed and in base64."""
    found: dict[str, bytes] = {}
    for at, _, names in os.walk(root):
        source = at.removeprefix(root)
        for name in names if any(f"{source}/".startswith(f"{one}/") for one in folders) else ():
            with open(f"{at}/{name}", "rb") as file:
                found[f"{source}/{name}"] = file.read()
    contents = b"".join(found.values())
    sizes = json.dumps({path: len(content) for path, content in found.items()}).encode()
    return base64.b64encode(zlib.compress(sizes + b"\n" + contents)).decode() if 0 < len(contents) <= LIMIT else ""


def unpack(packed: str, root: str) -> None:
    """Lay out below ``root`` what ``pack`` packed."""
    sizes, _, contents = zlib.decompress(base64.b64decode(packed)).partition(b"\n")
    made, at = set(), 0
    for path, size in json.loads(sizes).items():
        folder, _, _ = f"{root}{path}".rpartition("/")
        if folder not in made:
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
        with open(f"{root}{path}", "wb") as file:
            file.write(contents[at : at + size])
        at += size
