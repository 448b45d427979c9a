"""Packs the artefacts that a task declares out of a sandbox in which nothing of the candidate runs any more.

The order comes as JSON on the standard input: ``sources`` (``[absolute path, patterns to leave out]``) and ``limit``
(bytes of all files). The answer is a tar on the standard output; exit status 3 where there is more. Standard library
only."""

import fnmatch
import json
import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOO_MUCH = 3


def walk(source: str, exclude: list[str]) -> Iterator[str]:
    """The source and all below it, links not followed, without what a pattern names (a name, or a path's end)."""
    if not os.path.lexists(source):
        return
    yield source
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(name for name in folders if not _left_out(f"{folder}/{name}", exclude))
        names = [name for name in sorted(files) if not _left_out(f"{folder}/{name}", exclude)]
        yield from (f"{folder}/{name}" for name in [*folders, *names])


def _left_out(path: str, exclude: list[str]) -> bool:
    name = Path(path).name
    return any(fnmatch.fnmatch(name, one) or fnmatch.fnmatch(path, f"*/{one.strip('/')}") for one in exclude)


def pack(order: dict[str, Any], out: Any) -> bool:
    """Whether all of it is within the limit."""
    left, seen = int(order["limit"]), set[str]()
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for source, exclude in order["sources"]:
            for path in walk(source, exclude):
                if path in seen:
                    continue
                seen.add(path)
                tar.inodes.clear()  # type: ignore[attr-defined] # a file of several names is packed once for each
                info = tar.gettarinfo(path, arcname=path.lstrip("/"))
                if info is None or not (info.isfile() or info.isdir() or info.issym()):
                    continue
                left -= info.size
                if left < 0:
                    return False
                if info.isfile():
                    with Path(path).open("rb") as file:
                        tar.addfile(info, file)
                else:
                    tar.addfile(info)
    return True


def main() -> None:
    order = json.load(sys.stdin)
    if not pack(order, sys.stdout.buffer):
        sys.exit(TOO_MUCH)
