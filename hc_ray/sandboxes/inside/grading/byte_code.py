"""The byte code of modules that no submission touches: compiled once, in an untouched sandbox, and laid where the tests
of every later grading find it (``PYTHONPYCACHEPREFIX``). Python takes it for a module of the same time and size alone.
Standard library only."""

from __future__ import annotations

import base64
import json
import os
import zlib

LIMIT = 16 << 20
"""Bytes of byte code that are kept; of more, nothing is."""


def pack(root: str, folders: dict[str, str]) -> str:
    """What Python compiled to ``root`` of what lies below ``folders``, named by where those will lie."""
    found: dict[str, str] = {}
    size = 0
    for at, _, names in os.walk(root):
        source = at.removeprefix(root)
        below = next((one for one in folders if f"{source}/".startswith(f"{one}/")), "")
        for name in names if below else ():
            with open(f"{at}/{name}", "rb") as file:
                content = file.read()
            size += len(content)
            found[f"{folders[below]}{source.removeprefix(below)}/{name}"] = base64.b64encode(content).decode()
    return base64.b64encode(zlib.compress(json.dumps(found).encode(), 1)).decode() if 0 < size <= LIMIT else ""


def unpack(packed: str, root: str) -> None:
    """Lay out below ``root`` what ``pack`` packed."""
    made = set()
    for path, content in json.loads(zlib.decompress(base64.b64decode(packed))).items():
        folder, _, _ = f"{root}{path}".rpartition("/")
        if folder not in made:
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
        with open(f"{root}{path}", "wb") as file:
            file.write(base64.b64decode(content))
