"""This host's slots for ``ray start --resources``: ``python -m hc_ray_actors.node_slots`` prints them as JSON.

A slot is room for one engine, one candidate's sandbox, or one grading. The variable HC_RAY_SLOTS overrides the host's
numbers, as in ``HC_RAY_SLOTS=engine_slot=0,sandbox_slot=8``."""

import json
import os
import sys
from pathlib import Path

from hc_ray.domain.errors import ConfigError
from hc_ray_actors.backends import Backends
from hc_ray_actors.cluster import ENGINE, SANDBOX, VERIFIER, laptop_slots

GPUS = Path("/proc/driver/nvidia/gpus")
"""Has one folder for each GPU that NVIDIA's driver exposes to this host or container."""


def node_slots(given: str = "", *, here: Backends | None = None, gpus: Path = GPUS) -> tuple[dict[str, float], str]:
    """The slots of this host, and why it gets none for sandboxes (empty if it gets some). One engine per GPU, or one on
    the CPU. No sandboxes or gradings if neither Docker nor bubblewrap works. Raises ``ConfigError`` if ``given`` has
    unknown slots or invalid numbers."""
    here, why = here or Backends(), ""
    slots = {**laptop_slots(), ENGINE: len(list(gpus.glob("*"))) or 1.0}
    faults = {name: here.fault(name) for name in ("docker", "bwrap")}
    if all(faults.values()):
        slots |= {SANDBOX: 0.0, VERIFIER: 0.0}
        why = "no sandboxes on this host: " + "; ".join(f"{name}: {fault}" for name, fault in faults.items())
    return slots | _given(given), why


def _given(text: str) -> dict[str, float]:
    slots = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        if name not in {ENGINE, SANDBOX, VERIFIER} or not number.isdigit():
            raise ConfigError(f"HC_RAY_SLOTS: {part!r} is not one of {ENGINE}=N, {SANDBOX}=N and {VERIFIER}=N")
        slots[name] = float(number)
    return slots


if __name__ == "__main__":
    try:
        found, why = node_slots(os.environ.get("HC_RAY_SLOTS", ""))
    except ConfigError as fault:
        sys.exit(str(fault))
    if why:
        print(why, file=sys.stderr)
    print(json.dumps(found))
