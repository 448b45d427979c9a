"""What the Docker daemon says, as values and faults, and what to do when it says nothing. No SDK here."""

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
    """The daemon's disk has no room. It is no refusal: what a candidate's sandbox is refused may be its own doing, a
    full disk is the machine's."""


class Absent(DaemonRefusal):
    """The daemon knows no such container, image, volume or path."""


class Unwritable(SandboxError, ValueError):
    """Files that cannot be written, copied or read because of what a program left there. Not the machinery's fault:
    whoever handles what a candidate made takes it as a ``ValueError``."""


class ImageFacts(Value):
    id: str
    workdir: str
    layers: tuple[str, ...] = ()
    """The SHA-256 of each layer, lowest first."""
    digests: tuple[str, ...] = ()
    """``name@sha256:…``: what registries call it, as far as it came from one."""
    user: str = ""
    """As ``USER`` names it; empty for root."""
    environment: dict[str, str] = {}
    """The variables that it gives to its containers."""
    labels: dict[str, str] = {}


class PathFacts(Value):
    """What lies at a path: cheap to ask, where reading it costs the daemon a process."""

    kind: Literal["file", "folder", "link", "other"]
    mode: int
    """Permissions, set-id and sticky bits as in ``chmod``."""
    size: int


def path_facts(stat: Mapping[str, Any]) -> PathFacts:
    """From Go's ``os.FileMode``, whose upper bits are its own."""
    bits = int(stat["mode"])
    types = {31: "folder", 27: "link", 26: "other", 25: "other", 24: "other", 21: "other", 19: "other"}
    kind: Any = next((kind for bit, kind in types.items() if bits >> bit & 1), "file")
    special = (bits >> 23 & 1) << 11 | (bits >> 22 & 1) << 10 | (bits >> 20 & 1) << 9
    return PathFacts(kind=kind, mode=0o777 if kind == "link" else bits & 0o777 | special, size=int(stat["size"]))


def fault_of(what: str, says: str, said: str = "") -> SandboxError:
    """What an error that the daemon reports means. ``said``: the last output, below the first line."""
    tail = f"\n{said}" if said else ""
    # At the end: before that it is what somebody called a file, and so it is at the end of this one message.
    ends = [line for line in (says, *said.splitlines()) if re.search(r": no space left on device\W*$", line.lower())]
    if any("too many links in /" not in line for line in ends):
        free = "free some space (docker system df shows what is used, docker system prune -a frees what is not)"
        return DiskFull(f"the Docker daemon's disk is full, {what}: {free}{tail}")
    return DaemonRefusal(f"Docker, {what}: {says}{tail}")


def split_tag(reference: str) -> tuple[str, str, str]:
    """Name, colon and tag: a colon before a slash is a registry's port."""
    head, slash, last = reference.rpartition("/")
    name, colon, tag = last.partition(":")
    return f"{head}{slash}{name}", colon, tag


def remedy(error: str, seconds: float) -> str:
    """What to do about a daemon that could not be reached, in one line."""
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
