"""What a node can do for a sweep, seen there."""

import hashlib
import os
import platform
import shutil
from functools import cache
from pathlib import Path

import hc_ray
from hc_ray.domain.value import Value
from hc_ray.machine.paths import data_root
from hc_ray.sandboxes.runner_build import runner_digest
from hc_ray_actors.backends import Backends

LEAST_DISK = 64 << 20
"""Bytes of free disk below which a node makes no sandboxes."""


class NodeReport(Value):
    """One node, as it sees itself."""

    hc_ray: str
    code: str
    """Digest of hc-ray's modules: a wheel can change without its version."""
    python: str
    cores: int
    runner: str
    """Digest of the sandboxes' runner, which is made of the node's own Python."""
    faults: dict[str, str] = {}
    """Backend → why it does not work there."""


def report(*backends: str) -> NodeReport:
    """This node, with a look at the backends named."""
    faults = {backend: fault for backend in backends if (fault := fault_here(backend))}
    return NodeReport(
        hc_ray=hc_ray.__version__, code=_code(), python=platform.python_version(), cores=os.cpu_count() or 1,
        runner=runner_digest(), faults=faults,
    )  # fmt: skip


def fault_here(backend: str) -> str | None:
    """Why no sandbox of a backend can be made on this node now, in one line; None if nothing speaks against it."""
    if fault := Backends().fault(backend):
        return fault.splitlines()[0]
    root = data_root()
    root.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(root).free
    return f"the disk of {root} is full ({free >> 20} MiB free)" if free < LEAST_DISK else None


def differs(seen: NodeReport) -> str | None:
    """Why a node cannot work with this one; None if it can."""
    if seen.code == _code():
        return None
    other = seen.hc_ray if seen.hc_ray != hc_ray.__version__ else f"another build of {seen.hc_ray}"
    return f"has hc-ray {other}, the driver has {hc_ray.__version__}: install the same wheel on every node"


class NodeProbe:
    """An actor that looks at its node once, before a sweep is planned."""

    needs_keys = False

    async def report(self, backends: tuple[str, ...]) -> NodeReport:
        return report(*backends)


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for package in (Path(hc_ray.__file__).parent, Path(__file__).parent):
        for path in sorted(package.rglob("*.py")):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
