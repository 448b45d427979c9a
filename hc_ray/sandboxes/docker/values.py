"""The Docker daemon's answers as values and faults, and remedies if it does not answer. Does not use the SDK."""

import os
import re
from collections.abc import Mapping
from typing import Any, Literal

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.value import Value


class DaemonGone(SandboxError):
    """The daemon does not answer."""


class DaemonRefusal(SandboxError):
    """The daemon answered with an error."""


class DiskFull(SandboxError):
    """The daemon's disk is full. Not a refusal: a refusal may be the candidate's fault, a full disk is the
    machine's."""


class Absent(DaemonRefusal):
    """The daemon has no such container, image, volume or path."""


class Unwritable(SandboxError, ValueError):
    """Files that cannot be written, copied or read because of what a program left there. Not an infrastructure failure:
    code that handles a candidate's work catches it as ``ValueError``."""


class ImageFacts(Value):
    id: str
    workdir: str
    layers: tuple[str, ...] = ()
    """The SHA-256 of each layer, lowest first."""
    digests: tuple[str, ...] = ()
    """``name@sha256:…``: its names in registries, if it came from any."""
    user: str = ""
    """As ``USER`` names it; empty for root."""
    environment: dict[str, str] = {}
    """The environment variables that it sets."""
    labels: dict[str, str] = {}


class PathFacts(Value):
    """Facts about a path, which are cheap, while reading it costs the daemon a process."""

    kind: Literal["file", "folder", "link", "other"]
    mode: int
    """Permissions, set-id and sticky bits as in ``chmod``."""
    size: int


def path_facts(stat: Mapping[str, Any]) -> PathFacts:
    """Convert Go's ``os.FileMode``, whose upper bits differ from Unix."""
    bits = int(stat["mode"])
    types = {31: "folder", 27: "link", 26: "other", 25: "other", 24: "other", 21: "other", 19: "other"}
    kind: Any = next((kind for bit, kind in types.items() if bits >> bit & 1), "file")
    special = (bits >> 23 & 1) << 11 | (bits >> 22 & 1) << 10 | (bits >> 20 & 1) << 9
    return PathFacts(kind=kind, mode=0o777 if kind == "link" else bits & 0o777 | special, size=int(stat["size"]))


def fault_of(what: str, says: str, said: str = "") -> SandboxError:
    """Convert an error message of the daemon. ``said``: the last output, to append."""
    tail = f"\n{said}" if said else ""
    # At the end: before that it is what somebody called a file, and so it is at the end of this one message.
    ends = [line for line in (says, *said.splitlines()) if re.search(r": no space left on device\W*$", line.lower())]
    if any("too many links in /" not in line for line in ends):
        free = "free some space (docker system df shows what is used, docker system prune -a frees what is not)"
        return DiskFull(f"the Docker daemon's disk is full, {what}: {free}{tail}")
    return DaemonRefusal(f"Docker, {what}: {says}{tail}")


def split_tag(reference: str) -> tuple[str, str, str]:
    """Split into name, colon and tag; a colon before a slash belongs to a registry's port."""
    head, slash, last = reference.rpartition("/")
    name, colon, tag = last.partition(":")
    return f"{head}{slash}{name}", colon, tag


def remedy(error: str, seconds: float) -> str:
    """The remedy for an unreachable daemon, in one line."""
    where = os.environ.get("DOCKER_HOST") or "/var/run/docker.sock"
    if "PermissionError" in error or "Permission denied" in error:
        remedy = "add yourself to the docker group (sudo usermod -aG docker $USER) and log in again"
        return f"permission denied on {where}: {remedy}"
    if "FileNotFoundError" in error or "No such file" in error:
        return f"no Docker at {where}: install Docker 20.10 or later, or start its daemon (sudo systemctl start docker)"
    if "refused" in error.lower():
        return f"nobody answers at {where}: start the Docker daemon (sudo systemctl start docker)"
    if "timed out" in error.lower() or "Timeout" in error:
        return f"the Docker daemon at {where} is silent for {seconds:g} s: sudo systemctl restart docker"
    return f"Docker at {where} cannot be used: {error.splitlines()[0][:200] if error else 'unknown reason'}"
