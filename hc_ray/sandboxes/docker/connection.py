"""The connection to the Docker daemon. The only module that imports the Docker SDK.

Four faults, all ``SandboxError``: ``DaemonGone`` (no answer), ``DaemonRefusal`` (it answered no), ``Absent`` (no such
thing), ``DiskFull`` (its disk is full)."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hc_ray.sandboxes.docker.values import Absent, DaemonGone, fault_of, remedy

CALL_SECONDS = 60.0
WALK_SECONDS = 600.0
"""Timeout for calls that process everything that a container wrote, the size of which its programs decide."""
PROBE_SECONDS = 3.0


@contextlib.contextmanager
def faults(what: str) -> Iterator[None]:
    """Convert the SDK's exceptions into the four faults above."""
    import docker.errors
    import requests.exceptions
    import urllib3.exceptions

    try:
        yield
    except docker.errors.NotFound as error:
        raise Absent(f"Docker, {what}: {error.explanation or error}") from None
    except docker.errors.APIError as error:
        raise fault_of(what, str(error.explanation or error)) from None
    except (docker.errors.DockerException, OSError, requests.exceptions.RequestException) as error:
        raise DaemonGone(f"Docker, {what}: no answer from the daemon: {error}") from None
    except urllib3.exceptions.HTTPError as error:
        raise DaemonGone(f"Docker, {what}: the answer broke off: {error}") from None


def connect(timeout: float) -> Any:
    """A client of the daemon given by the environment."""
    import docker
    import docker.utils

    options: dict[str, Any] = {"version": "auto", "timeout": timeout, "max_pool_size": 32}
    # max_pool_size: as many connections are kept as sandboxes usually talk at a time.
    return docker.APIClient(**options, **docker.utils.kwargs_from_env())


def build_context(folder: Path, name: str, dockerfile: str) -> Any:
    """The build context as a file: the folder without ``.dockerignore``'s paths, and the Dockerfile under ``name``. Use
    as a context manager."""
    import docker.utils

    ignore = folder / ".dockerignore"
    lines = ignore.read_text(errors="replace").splitlines() if ignore.is_file() else []
    exclude = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    pack: Any = docker.utils.tar  # its types miss the file's context manager
    return pack(str(folder), exclude=exclude, dockerfile=(name, dockerfile))


def why_not() -> str | None:
    """None if a Linux daemon of 20.10 or later answers within three seconds; else the fault and its remedy."""
    import docker.errors
    import requests.exceptions

    try:
        api = connect(PROBE_SECONDS)
        with contextlib.closing(api):
            facts = api.version()
    except (docker.errors.DockerException, OSError, requests.exceptions.RequestException) as error:
        return remedy(str(error), PROBE_SECONDS)
    if facts.get("Os") != "linux":
        return f"the Docker daemon runs {facts.get('Os')} containers: switch it to Linux containers"
    if tuple(int(part) for part in facts["ApiVersion"].split(".")) < (1, 41):
        return f"Docker {facts.get('Version')} is too old: 20.10 or later is needed"
    return None
