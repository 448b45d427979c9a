"""A guard against accidents: in every process but the verifiers', opening anything under the sealed root raises.

Against code that means harm it is no wall (the sandbox is that); it makes an honest mistake loud."""

import os
import sys
from pathlib import Path
from typing import Any

from hc_ray.errors import LeakError

_EVENTS = frozenset({"open", "os.listdir", "os.scandir", "shutil.copyfile", "shutil.copytree", "os.link", "os.symlink"})


def install(sealed_root: Path) -> None:
    """From now on, for the life of this process, raise ``LeakError`` when a path under ``sealed_root`` is opened,
    listed, copied or linked. Cannot be undone (an audit hook never can)."""
    roots = {str(sealed_root.absolute()), os.path.realpath(sealed_root)}
    prefixes = tuple(root.rstrip("/") + "/" for root in roots)

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS or not arguments:
            return
        for argument in arguments[:2]:
            if not isinstance(argument, str | bytes | os.PathLike):
                continue
            path = os.path.abspath(os.fsdecode(argument))  # noqa: PTH100 (called on every open: pathlib is slow)
            if (path + "/").startswith(prefixes):
                raise LeakError("a process that is no verifier tried to open sealed tests or solutions")

    sys.addaudithook(refuse)
