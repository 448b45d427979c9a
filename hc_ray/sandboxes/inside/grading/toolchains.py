"""Where perl and compilers look for what they load by name, asked of themselves, and which new file they would find
before one of the image. Standard library only."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence

_COMPILERS = ("c++", "g++", "clang++", "cc", "gcc", "clang")
_PRECOMPILED = re.compile(r"(?s)(.*)\.(gch|pch)(/.*)?")
"""What a compiler takes in the place of a header beside it, or of one that it would find later."""


def searched(
    programs: Mapping[str, Sequence[str]], environment: Mapping[str, str], headers: Sequence[str]
) -> dict[str, list[str]]:
    """Folders in the order of the search, by what is looked for there. ``headers``: what variables list."""
    return {
        "perl": _perl(programs, environment),
        "headers": list(dict.fromkeys([*headers, *_headers(programs, environment)])),
        "linked": _linked(programs, environment),
    }


def found_first(path: str, orders: Mapping[str, Sequence[str]]) -> list[str]:
    """The files of the image in whose place a new one would be taken."""
    precompiled = _PRECOMPILED.fullmatch(path)
    found = [file for folders in orders.values() for file in hidden(path, folders)]
    return found + (hidden(precompiled[1], orders["headers"], beside=True) if precompiled else [])


def hidden(path: str, folders: Sequence[str], *, beside: bool = False) -> list[str]:
    """The files of the image that one of the same name, in a folder that is searched before theirs (``beside``: or in
    the same one), would hide."""
    at = next((number for number, folder in enumerate(folders) if path.startswith(f"{folder}/")), None)
    if at is None:
        return []
    name = path.removeprefix(f"{folders[at]}/")
    return [file for folder in folders[at + (not beside) :] if os.path.lexists(file := f"{folder}/{name}")]


def _perl(programs: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> list[str]:
    """The folders of perl's modules, where the tests name perl."""
    said = _said(programs, environment, "perl", "-e", 'print "$_\\n" for @INC')
    return [line for line in said.splitlines() if line.startswith("/")]


def _headers(programs: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> Iterator[str]:
    """Where compilers look for headers; folders that are not there yet come first."""
    for name in {programs[name][-1]: name for name in _COMPILERS if name in programs}.values():
        for language in ("c++", "c"):
            said = _said(programs, environment, name, "-E", "-v", f"-x{language}", "/dev/null")
            lists = re.findall(r"^#include .*:\n((?: .*\n)*)", said, re.M)
            lines = [*re.findall(r'nonexistent directory "(.*)"', said), *"".join(lists).splitlines()]
            yield from (os.path.realpath(line.strip()) for line in lines if line.strip().startswith("/"))


def _linked(programs: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> list[str]:
    """Where the C compiler looks for what it links a program with, in its order."""
    told = re.search("^libraries: *=(.*)$", _said(programs, environment, "cc", "-print-search-dirs"), re.M)
    return list(dict.fromkeys(map(os.path.realpath, told[1].split(":")))) if told else []


def _said(programs: Mapping[str, Sequence[str]], environment: Mapping[str, str], name: str, *arguments: str) -> str:
    """What a program of the image prints; nothing where it has none."""
    try:
        done = subprocess.run(
            [programs[name][0], *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=20, check=False, env={**environment, "LC_ALL": "C"},
        )  # fmt: skip
        return done.stdout.decode(errors="replace")
    except (KeyError, OSError, subprocess.TimeoutExpired):
        return ""
