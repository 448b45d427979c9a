"""A scripted engine that looks around where it runs: in the process of the trials' actor, on the candidates' side.

At its first question it writes what it can reach to ``$HC_RAY_SPY/trials.json`` and waits for ``go`` beside it, so that
the test can look at every process meanwhile. The candidate that it answers looks around inside its sandbox."""

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from hc_ray.domain.prompt import Prompt

INSIDE = r"""
    import json, os, time
    time.sleep(1)
    mark = "MARK_HEAD" + "MARK_TAIL"
    walked, found, shown = 0, [], []
    skipped = ("/proc", "/sys", "/dev", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/.hc")
    places = ["/proc/self/environ", "/proc/self/cmdline", "/proc/1/environ", "/proc/1/cmdline"]
    for top, folders, files in os.walk("/"):
        folders[:] = [name for name in folders if os.path.join(top, name) not in skipped]
        places += [os.path.join(top, name) for name in files]
    for path in places:
        try:
            with open(path, "rb") as file:
                walked += 1
                if mark.encode() in file.read(1 << 22):
                    found.append(path)
        except OSError:
            pass
    for line in open("/proc/self/mountinfo"):
        words = line.split()
        kind = words[words.index("-") + 1]
        if kind not in ("proc", "tmpfs", "devpts", "mqueue", "sysfs", "cgroup", "cgroup2", "devtmpfs"):
            shown.append((words[4], words[5].split(",")[0]))
    return json.dumps([walked, found, sorted(shown)])
"""


def answer(prompt: Prompt) -> str:
    place = Path(os.environ["HC_RAY_SPY"])
    if not (place / "trials.json").exists():
        new = place / "trials.json.new"
        new.write_text(json.dumps(_around()))
        new.rename(place / "trials.json")
        deadline = time.monotonic() + 240
        while not (place / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
    if prompt.role != "solver":
        return "assert add(1, 2) == 3\nassert add(0, 0) == 0\nassert add(5, 5) == 10\n"
    head, tail = os.environ["HC_RAY_SPY_MARK"].split(":")
    body = INSIDE.replace("MARK_HEAD", head).replace("MARK_TAIL", tail)
    return body if prompt.text is not None else f"```python\ndef add(a, b):{body}```\n"


def _around() -> dict[str, Any]:
    """What code of this process could take hold of."""
    import ray

    handles = [repr(one) for one in gc.get_objects() if isinstance(one, ray.actor.ActorHandle)]
    return {
        "pid": os.getpid(),
        "directory": str(Path.cwd()),
        "path": sys.path,
        "modules": sorted(name for name in sys.modules if name.startswith("hc_ray")),
        "handles": handles,
        "named": ray.util.list_named_actors(all_namespaces=True),
        "sealed": _tries_to_open_sealed_files(),
    }


def _tries_to_open_sealed_files() -> str:
    from hc_ray.domain.errors import LeakError
    from hc_ray.machine.paths import data_root

    try:
        return repr(list((data_root() / "sealed").iterdir()))
    except LeakError:
        return "refused"
