"""What start-up files of shells, and scripts, read further, and the folders that they put on PATH. Standard library
only."""

import glob
import os
import re
from collections.abc import Iterable

_EVERYBODYS = ("/etc/profile", "/etc/profile.d/*.sh", "/etc/bash.bashrc", "/etc/bashrc")
_IN_HOMES = (".profile", ".bash_profile", ".bash_login", ".bashrc")
_READS = re.compile(r"(?:^|[;&|({]|\bthen\b|\bdo\b|\belse\b)\s*(?:source|\\?\.)\s+([^\s;&|)]+)", re.M)
_SETS = re.compile(r"\b([A-Za-z_]\w*)=([^\s;&|)]*)")
_LIMIT = 1 << 18
_FILES = 200


def reads(homes: Iterable[str], scripts: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """(files that the start-up files of these ``homes`` and some ``scripts`` read, as they spell them, and what those
    read in their turn; folders that they put on PATH). What hangs on variables that none of them sets is left out."""
    homes = list(dict.fromkeys(homes))
    pending = [(path, home) for home in homes for path in [*_started(home), *scripts]]
    files, folders, seen = dict[str, None](), dict[str, None](), set[tuple[str, str]]()
    while pending and len(seen) < _FILES:
        path, home = pending.pop(0)
        if (path, home) in seen:
            continue
        seen.add((path, home))
        text, known = _text(path), {"HOME": home}
        for name, value in _SETS.findall(text):
            known[name] = value = _filled(value, known)
            if name == "PATH":
                folders |= dict.fromkeys(part for part in value.split(":") if _is_place(part))
        for spelled in _READS.findall(text):
            if _is_place(file := _filled(spelled, known)):
                files[file] = None
                pending.append((file, home))
    return list(files), list(folders)


def _started(home: str) -> list[str]:
    everybodys = [file for pattern in _EVERYBODYS for file in sorted(glob.glob(pattern))]
    return [*everybodys, *(os.path.join(home, name) for name in _IN_HOMES)]


def _filled(text: str, known: dict[str, str]) -> str:
    text = re.sub(r"^~(?=/|$)", known["HOME"], text.replace('"', "").replace("'", ""))
    return re.sub(r"\$\{?(\w+)\}?", lambda found: known.get(found[1], found[0]), text)


def _is_place(text: str) -> bool:
    return text.startswith("/") and not any(sign in text for sign in "$`*\0")


def _text(path: str) -> str:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            return file.read(_LIMIT).decode(errors="replace")
    except (OSError, ValueError):
        return ""
