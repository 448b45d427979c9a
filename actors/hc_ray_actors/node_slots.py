"""What ``ray start --resources`` gets on this host: ``python -m hc_ray_actors.node_slots`` prints it as JSON.

A slot is room for one engine, one sandbox of a candidate, or one grading. The variable HC_RAY_SLOTS replaces what the
host has, as in ``HC_RAY_SLOTS=engine_slot=0,sandbox_slot=8``."""

import json
import os
import sys
from pathlib import Path

from hc_ray.domain.errors import ConfigError
from hc_ray_actors.backends import Backends
from hc_ray_actors.cluster import ENGINE, SANDBOX, VERIFIER, laptop_slots

GPUS = Path("/proc/driver/nvidia/gpus")
"""One folder for each GPU that NVIDIA's driver shows to this host or container."""


def node_slots(given: str = "", *, here: Backends | None = None, gpus: Path = GPUS) -> tuple[dict[str, float], str]:
    """The slots of this host, and why it gets none for sandboxes (else empty). An engine for each GPU, or one on the
    processor. No sandboxes and no grading where neither Docker nor bubblewrap works. Raises ``ConfigError`` for a
    ``given`` that names other slots or something else than numbers."""
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
            raise ConfigError(f"HC_RAY_SLOTS: {part!r} is none of {ENGINE}=N, {SANDBOX}=N and {VERIFIER}=N")
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
