"""The Docker daemon as a few typed calls, about volumes, networks and containers. Images are in ``image_calls``."""

import base64
import contextlib
import json
import socket
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import IO, Any

from hc_ray.sandboxes.docker.connection import CALL_SECONDS, WALK_SECONDS, faults
from hc_ray.sandboxes.docker.image_calls import ImageCalls, done
from hc_ray.sandboxes.docker.stream import own_socket
from hc_ray.sandboxes.docker.values import Absent, DaemonRefusal, PathFacts, path_facts


class Daemon(ImageCalls):
    """Safe for use from several threads. Connects on first use."""

    def volumes(self, label: str) -> list[str]:
        with faults("listing volumes"):
            return sorted(one["Name"] for one in self._api.volumes(filters={"label": label}).get("Volumes") or ())

    def remove_volume(self, name: str) -> bool:
        """Remove a volume; False if a container still uses it."""
        return done("removing a volume", lambda: self._api.remove_volume(name))

    def make_volume(self, name: str, labels: Mapping[str, str]) -> None:
        with faults("creating a volume"):
            self._api.create_volume(name, labels=dict(labels))

    def make_network(self, name: str, labels: Mapping[str, str]) -> str:
        """Create a bridge on which containers cannot reach each other; returns its id."""
        apart = {"com.docker.network.bridge.enable_icc": "false"}
        with faults("creating a network"):
            return str(self._api.create_network(name, driver="bridge", options=apart, labels=dict(labels))["Id"])

    def networks(self, label: str) -> list[tuple[str, dict[str, str]]]:
        with faults("listing networks"):
            found = self._api.networks(filters={"label": label})
        return [(one["Id"], one.get("Labels") or {}) for one in found]

    def remove_network(self, network: str) -> bool:
        """Remove a network; False if a container still uses it."""
        return done("removing a network", lambda: self._api.remove_network(network))

    def create(self, image: str, name: str, host: Mapping[str, Any], config: Mapping[str, Any]) -> str:
        """Create (not start) a container from the SDK's keyword arguments; returns its id."""
        with faults(f"creating a container of {image}"):
            api = self._api
            limits = api.create_host_config(**host)
            # Do not pass on the client's proxy settings, which may contain a password.
            made = api.create_container(image, name=name, host_config=limits, use_config_proxy=False, **config)
            return str(made["Id"])

    def hold(self, container: str) -> socket.socket:
        """Attach to the stdin of a container that has not started yet. When this process ends, in whatever way, the
        container reads end-of-file."""
        with faults("attaching to a container"):
            raw = self._api.attach_socket(container, params={"stdin": 1, "stream": 1})
        return own_socket(raw)

    def start(self, container: str) -> None:
        with faults("starting a container"):
            self._api.start(container)

    def process(self, container: str) -> int:
        """The process id of a container's first process on the daemon's machine; 0 if none is running."""
        return int(self.inspected(container)["State"].get("Pid") or 0)

    def started(self, container: str) -> int:
        """Start time of a container's first process in ns, by the daemon's clock."""
        return int(datetime.fromisoformat(self.inspected(container)["State"]["StartedAt"]).timestamp() * 1e9)

    def written_folders(self, container: str) -> list[str]:
        """The folders and files on the daemon's machine with everything that a container wrote: its layer, its volumes,
        and three files that the daemon keeps beside them, which root inside can fill."""
        found = self.inspected(container)
        layer = ((found.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
        mounts = [one for one in found.get("Mounts") or () if one.get("Type") == "volume" and one.get("RW")]
        kept = [path for key in ("HostsPath", "HostnamePath", "ResolvConfPath") if (path := found.get(key))]
        return [*([layer] if layer else []), *kept, *(one["Source"] for one in mounts if one.get("Source"))]

    def ended(self, container: str) -> int | None:
        """The exit status of a container's first process; None while it runs. Raises ``Absent``."""
        state = self.inspected(container)["State"]
        return None if state["Running"] else int(state.get("ExitCode") or 0)

    def wait(self, container: str, *, seconds: float) -> tuple[int, str]:
        """Wait for a container's first process; returns its exit status and the end of its output."""
        with faults("waiting for a container"):
            status = int(self._api.wait(container, timeout=seconds)["StatusCode"])
            return status, self._api.logs(container, tail=20).decode(errors="replace")

    def kill(self, container: str) -> None:
        """Send SIGKILL to everything in a container, if it is running."""
        with contextlib.suppress(DaemonRefusal), faults("killing a container"):
            self._api.kill(container)

    def pause(self, container: str) -> bool:
        """Freeze a container's processes; False if none is left."""
        try:
            with faults("freezing a container"):
                self._api.pause(container)
            return True
        except DaemonRefusal:
            if self.ended(container) is None:
                raise
            return False

    def unpause(self, container: str) -> None:
        with contextlib.suppress(DaemonRefusal), faults("unpausing a container"):  # it may have been killed meanwhile
            self._api.unpause(container)

    def remove(self, container: str) -> None:
        """Kill and remove a container with its anonymous volumes, if it exists."""
        for attempt in range(5):
            try:
                with faults("removing a container"):
                    self._api.remove_container(container, force=True, v=True)
                    return
            except Absent:
                return
            except DaemonRefusal as refusal:
                if "already in progress" in str(refusal):
                    return
                if attempt == 4:
                    raise
                time.sleep(0.1 * 2**attempt)  # wait for a busy mount

    def containers(self, label: str) -> list[tuple[str, dict[str, str]]]:
        """Id and labels of all containers with a label, running or not."""
        with faults("listing containers"):
            found = self._api.containers(all=True, filters={"label": label})
        return [(one["Id"], one.get("Labels") or {}) for one in found]

    def sizes(self, containers: Iterable[str]) -> dict[str, int]:
        """Bytes of the writable layer of each."""
        with faults("listing containers"):
            found = self._api.containers(all=True, size=True, filters={"id": list(containers)})
        return {one["Id"]: int(one.get("SizeRw") or 0) for one in found}

    def changes(self, container: str) -> dict[str, int]:
        """``docker diff``: path → 0 modified, 1 added, 2 deleted. Raises ``ValueError`` if processes inside nested
        folders deeper than a path can express, which is their fault, not the daemon's."""
        try:
            with faults("reading a container's changes"):
                found = self._asked("_get", "/containers/{0}/changes", container, timeout=WALK_SECONDS).json()
                return {one["Path"]: one["Kind"] for one in found or ()}
        except DaemonRefusal as refusal:
            if "file name too long" in str(refusal):
                raise ValueError("folders nest deeper than a path can name") from None
            raise

    def extract(self, container: str, tar: bytes | IO[bytes]) -> None:
        """Unpack a tar at the root of a container, running or not."""
        with faults("putting files"):
            self._api.put_archive(container, "/", tar)

    def stat(self, container: str, path: str) -> PathFacts | None:
        """Facts about a path, without following links; None if it is missing, or if the container is gone, which the
        daemon does not distinguish."""
        found = self._stat(container, path)
        return None if found is None else path_facts(found)

    def target(self, container: str, path: str) -> str | None:
        """The final target of a link, seen from within the container; None if there is none."""
        return (self._stat(container, path) or {}).get("linkTarget") or None

    def _stat(self, container: str, path: str) -> dict[str, Any] | None:
        try:
            with faults(f"looking at {path}"):
                where = {"params": {"path": path}, "timeout": CALL_SECONDS}
                response = self._asked("head", "/containers/{0}/archive", container, **where)
        except Absent:
            return None
        return dict(json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"])))

    @contextlib.contextmanager
    def archive(self, container: str, path: str) -> Iterator[tarfile.TarFile | None]:
        """The tar stream of a path, starting with its own name; None if it does not exist. Members are read in order
        and on demand: closing early stops the daemon's work."""
        try:
            with faults(f"reading {path}"):
                plain = {"Accept-Encoding": "identity"}  # else the daemon spends its time on gzip
                what = {"params": {"path": path}, "headers": plain, "stream": True}
                response = self._asked("_get", "/containers/{0}/archive", container, **what)
        except Absent as absent:
            if str(absent).endswith(f"No such container: {container}"):
                raise
            yield None
            return
        with contextlib.closing(response), faults(f"reading {path}"):
            try:
                with tarfile.open(fileobj=response.raw, mode="r|", errorlevel=1) as tar:
                    yield tar
            except tarfile.TarError as error:
                raise DaemonRefusal(f"Docker, reading {path}: {error}") from None

    def exec_socket(
        self, container: str, argv: list[str], *, environment: Mapping[str, str] | None = None
    ) -> socket.socket:
        """Start a command as the container's own user; the socket carries its stdin and Docker's framed output.
        ``environment`` overrides the container's own. (For a named user, the daemon would read the user files, which
        may be anything inside.)"""
        with faults("starting a command"):
            api = self._api
            how = {"stdin": True, "stdout": True, "stderr": True, "workdir": "/"}
            made = api.exec_create(container, argv, environment=dict(environment or {}), **how)
            raw = api.exec_start(made["Id"], socket=True)
        return own_socket(raw)
