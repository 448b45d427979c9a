"""The Docker daemon, as few typed calls: those about volumes, networks and containers. Images are in
``image_calls``."""

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
        """Remove a volume; False for one that a container still uses."""
        return done("removing a volume", lambda: self._api.remove_volume(name))

    def make_volume(self, name: str, labels: Mapping[str, str]) -> None:
        with faults("creating a volume"):
            self._api.create_volume(name, labels=dict(labels))

    def make_network(self, name: str, labels: Mapping[str, str]) -> str:
        """A bridge to the world on which containers do not reach each other; returns its id."""
        apart = {"com.docker.network.bridge.enable_icc": "false"}
        with faults("creating a network"):
            return str(self._api.create_network(name, driver="bridge", options=apart, labels=dict(labels))["Id"])

    def networks(self, label: str) -> list[tuple[str, dict[str, str]]]:
        with faults("listing networks"):
            found = self._api.networks(filters={"label": label})
        return [(one["Id"], one.get("Labels") or {}) for one in found]

    def remove_network(self, network: str) -> bool:
        """Remove a network; False for one that a container still uses."""
        return done("removing a network", lambda: self._api.remove_network(network))

    def create(self, image: str, name: str, host: Mapping[str, Any], config: Mapping[str, Any]) -> str:
        """Create (not start) a container from the SDK's keyword arguments; returns its id."""
        with faults(f"creating a container of {image}"):
            api = self._api
            limits = api.create_host_config(**host)
            # The client's own proxy settings, which may hold a password, are no business of what runs in there.
            made = api.create_container(image, name=name, host_config=limits, use_config_proxy=False, **config)
            return str(made["Id"])

    def hold(self, container: str) -> socket.socket:
        """The standard input of a container that has not started yet. When this process ends, however it ends, the
        container reads the end of it."""
        with faults("attaching to a container"):
            raw = self._api.attach_socket(container, params={"stdin": 1, "stream": 1})
        return own_socket(raw)

    def start(self, container: str) -> None:
        with faults("starting a container"):
            self._api.start(container)

    def process(self, container: str) -> int:
        """The number of a container's first process on the daemon's machine; 0 where none runs."""
        return int(self.inspected(container)["State"].get("Pid") or 0)

    def started(self, container: str) -> int:
        """When a container's first process was started, in nanoseconds by the clock of the daemon's machine."""
        return int(datetime.fromisoformat(self.inspected(container)["State"]["StartedAt"]).timestamp() * 1e9)

    def written_folders(self, container: str) -> list[str]:
        """The folders and files of the daemon's machine that hold what a container wrote: its layer, volumes of its
        own, and three files that the daemon keeps beside them, which root inside may fill."""
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
        """The exit status of a container's first process, once it has ended, and the end of what it said."""
        with faults("waiting for a container"):
            status = int(self._api.wait(container, timeout=seconds)["StatusCode"])
            return status, self._api.logs(container, tail=20).decode(errors="replace")

    def kill(self, container: str) -> None:
        """SIGKILL to all of it; one that runs no more is left as it is."""
        with contextlib.suppress(DaemonRefusal), faults("killing a container"):
            self._api.kill(container)

    def pause(self, container: str) -> bool:
        """Freeze all that runs in a container; False for one in which nothing does any more."""
        try:
            with faults("freezing a container"):
                self._api.pause(container)
            return True
        except DaemonRefusal:
            if self.ended(container) is None:
                raise
            return False

    def unpause(self, container: str) -> None:
        with contextlib.suppress(DaemonRefusal), faults("going on with a container"):  # it was killed meanwhile
            self._api.unpause(container)

    def remove(self, container: str) -> None:
        """Kill and remove with its anonymous volumes; one that is gone already is no fault."""
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
                time.sleep(0.1 * 2**attempt)  # a mount that is still busy comes free in a moment

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
        """``docker diff``: path → 0 modified, 1 added, 2 deleted. Raises ``ValueError`` where processes inside nested
        folders beyond what a path can name: their doing, not the daemon's."""
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
        """Of the path itself: a link is not followed. None also where the container is gone, which no words tell."""
        found = self._stat(container, path)
        return None if found is None else path_facts(found)

    def target(self, container: str, path: str) -> str | None:
        """Where a link leads in the end, seen from within the container; None where there is none."""
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
        """The tar stream of a path, its name first; None where there is nothing. Members are read in order and only
        as far as the caller reads: closing early ends the daemon's work."""
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
        ``environment`` goes over the container's own. (For a user that is named, the daemon itself opens the lists of
        users, which may be anything in there.)"""
        with faults("starting a command"):
            api = self._api
            how = {"stdin": True, "stdout": True, "stderr": True, "workdir": "/"}
            made = api.exec_create(container, argv, environment=dict(environment or {}), **how)
            raw = api.exec_start(made["Id"], socket=True)
        return own_socket(raw)
