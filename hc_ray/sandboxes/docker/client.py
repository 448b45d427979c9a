"""The Docker daemon, as few typed calls. The classic builder is used through the API, so that nothing depends on
BuildKit or the command line client."""

import base64
import contextlib
import json
import os
import socket
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from hc_ray.sandboxes.docker.connection import CALL_SECONDS, build_context, connect, faults
from hc_ray.sandboxes.docker.stream import Pulse, follow, own_socket
from hc_ray.sandboxes.docker.values import Absent, Change, DaemonRefusal, ImageFacts, PathFacts, path_facts, split_tag


class Daemon:
    """Safe for use from several threads. Connects on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: Any = None

    @property
    def _api(self) -> Any:
        with self._lock:
            if self._client is None:
                with faults("connecting"):
                    self._client = connect(CALL_SECONDS)
            return self._client

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def facts(self) -> dict[str, Any]:
        """``docker info``."""
        with faults("info"):
            return dict(self._api.info())

    @property
    def on_this_kernel(self) -> bool:
        """Whether it runs here, as far as can be told: behind a socket file, with this kernel's version."""
        behind_a_file = self._api.base_url == "http+docker://localhost"
        return behind_a_file and self.facts().get("KernelVersion") == os.uname().release

    def pulse(self) -> Pulse:
        """A silent connection that ends with the daemon's process."""
        with faults("listening"):
            never = {"filters": json.dumps({"label": ["hc-ray.never"]})}
            return Pulse(self._asked("_get", "/events", params=never, stream=True, timeout=None))

    def _asked(self, method: str, path: str, *parts: str, **options: Any) -> Any:
        """A request that the SDK has no call for; an answer that is an error is raised."""
        api = self._api
        response = getattr(api, method)(api._url(path, *parts), **options)
        api._raise_for_status(response)
        return response

    # images

    def image(self, reference: str) -> ImageFacts | None:
        try:
            with faults(f"inspecting image {reference}"):
                found = self._api.inspect_image(reference)
        except Absent:
            return None
        config = found.get("Config") or {}
        layers = tuple((found.get("RootFS") or {}).get("Layers") or ())
        volumes = tuple(sorted(config.get("Volumes") or {}))
        names = {"workdir": config.get("WorkingDir") or "", "user": config.get("User") or ""}
        environment = dict(line.split("=", 1) for line in config.get("Env") or () if "=" in line)
        parts = {"layers": len(layers), "contents": layers, "digests": tuple(found.get("RepoDigests") or ())}
        return ImageFacts(id=found["Id"], volumes=volumes, environment=environment, **parts, **names)

    def pull(self, reference: str, *, seconds: float) -> None:
        """Raises ``SandboxError`` when the image is not there within ``seconds``."""
        repository, _, tag = reference.partition("@") if "@" in reference else split_tag(reference)
        params = {"fromImage": repository, "tag": tag or "latest"}
        with faults(f"pulling {reference}"):
            response = self._asked("_post", "/images/create", params=params, stream=True, timeout=seconds)
            follow(response, seconds, f"pulling {reference}")

    def ask_registry(self, reference: str, *, seconds: float) -> None:
        """Have the daemon look up the image's manifest, which is what a pull begins with. Raises ``SandboxError`` where
        the registry does not show it within ``seconds``."""
        with faults(f"asking for {reference}"):
            self._asked("_get", "/distribution/{0}/json", reference, timeout=seconds)

    def build(
        self, folder: Path, *, tag: str, labels: Mapping[str, str], seconds: float, dockerfile: str | None = None
    ) -> None:
        """``docker build`` of a folder with the classic builder; ``dockerfile`` replaces the folder's own. Raises
        ``SandboxError`` with the last lines of output when it fails or takes longer than ``seconds``."""
        name = "Dockerfile" if dockerfile is None else ".dockerfile.hc-ray"
        text = (folder / name).read_text(errors="replace") if dockerfile is None else dockerfile
        params = {"t": tag, "rm": True, "forcerm": True, "dockerfile": name, "labels": json.dumps(dict(labels))}
        headers = {"Content-Type": "application/tar"}
        with faults(f"building {tag}"), build_context(folder, name, text) as context:
            sent = {"data": context, "params": params, "headers": headers}
            response = self._asked("_post", "/build", **sent, stream=True, timeout=seconds)
            follow(response, seconds, f"building {tag}")

    def save(self, image: str) -> Iterator[bytes]:
        """``docker save`` of one image, by its id."""
        with faults("saving an image"):
            yield from self._api.get_image(image, chunk_size=1 << 20)

    def load(self, parts: Iterator[bytes], *, seconds: float) -> None:
        """``docker load``. Raises ``SandboxError`` where that fails or takes longer than ``seconds``."""
        sent = {"data": parts, "params": {"quiet": True}, "headers": {"Content-Type": "application/x-tar"}}
        with faults("loading an image"):
            follow(
                self._asked("_post", "/images/load", **sent, stream=True, timeout=seconds), seconds, "loading an image"
            )

    def name_image(self, image: str, name: str) -> None:
        repository, _, tag = split_tag(name)
        with faults("naming an image"):
            self._api.tag(image, repository, tag)

    def commit(self, container: str, labels: Mapping[str, str]) -> str:
        with faults("committing a fork"):
            changes = [f"LABEL {key}={json.dumps(value)}" for key, value in labels.items()]
            return str(self._api.commit(container, changes=changes)["Id"])

    def flatten(self, container: str, labels: Mapping[str, str], *, environment: Iterable[str]) -> str:
        """An image of one layer with the container's files (``docker export | docker import``)."""
        changes = [f"LABEL {key}={json.dumps(value)}" for key, value in labels.items()]
        changes += [f"ENV {key}={json.dumps(value)}" for key, _, value in (line.partition("=") for line in environment)]
        with faults("flattening a fork"):
            stream = self._api.export(container)
            answer = self._api.import_image_from_stream(stream, changes=changes)
        for line in str(answer).splitlines():
            status = json.loads(line)
            if "error" in status:
                raise DaemonRefusal(f"Docker, flattening a fork: {status['error']}")
            if str(status.get("status", "")).startswith("sha256:"):
                return str(status["status"])
        raise DaemonRefusal(f"Docker, flattening a fork: no image in {answer!r}")

    def environment(self, container: str) -> list[str]:
        return list(self._inspected(container)["Config"].get("Env") or ())

    def remove_image(self, image: str) -> bool:
        """Remove an image; False for one that is gone or still in use, which is left as it is."""
        return _done("removing an image", lambda: self._api.remove_image(image, force=False, noprune=False))

    def images(self, label: str) -> list[tuple[str, dict[str, str]]]:
        with faults("listing images"):
            found = self._api.images(filters={"label": label}, all=True)
        return [(image["Id"], image.get("Labels") or {}) for image in found]

    def tags(self, repository: str) -> list[str]:
        """The names of all images of a repository."""
        with faults("listing images"):
            found = self._api.images(repository)
        return sorted(tag for image in found for tag in image.get("RepoTags") or () if tag != "<none>:<none>")

    def named_images(self) -> list[str]:
        """Ids of all images that have a name."""
        with faults("listing images"):
            return list(self._api.images(quiet=True, filters={"dangling": False}))

    def dangling(self, label: str) -> list[tuple[str, float]]:
        """Id and time of making of the images with a label that have neither a name nor a child."""
        with faults("listing images"):
            found = self._api.images(filters={"label": label, "dangling": True})
        return [(image["Id"], float(image["Created"])) for image in found]

    # volumes

    def volumes(self, label: str) -> list[str]:
        with faults("listing volumes"):
            return sorted(one["Name"] for one in self._api.volumes(filters={"label": label}).get("Volumes") or ())

    def remove_volume(self, name: str) -> bool:
        """Remove a volume; False for one that a container still uses."""
        return _done("removing a volume", lambda: self._api.remove_volume(name))

    def make_volume(self, name: str, labels: Mapping[str, str]) -> None:
        with faults("creating a volume"):
            self._api.create_volume(name, labels=dict(labels))

    # networks

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
        return _done("removing a network", lambda: self._api.remove_network(network))

    # containers

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

    def _inspected(self, container: str) -> dict[str, Any]:
        with faults("inspecting a container"):
            found: dict[str, Any] = self._api.inspect_container(container)
            return found

    def running(self, container: str) -> bool:
        try:
            return bool(self._inspected(container)["State"]["Running"])
        except Absent:
            return False

    def process(self, container: str) -> int:
        """The number of a container's first process on the daemon's machine; 0 where none runs."""
        return int(self._inspected(container)["State"].get("Pid") or 0)

    def written_folders(self, container: str) -> list[str]:
        """The folders of the daemon's machine that hold what a container wrote: its layer, and volumes of its own."""
        found = self._inspected(container)
        layer = ((found.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
        mounts = [one for one in found.get("Mounts") or () if one.get("Type") == "volume" and one.get("RW")]
        return [*([layer] if layer else []), *(one["Source"] for one in mounts if one.get("Source"))]

    def ended(self, container: str) -> int | None:
        """The exit status of a container's first process; None while it runs. Raises ``Absent``."""
        state = self._inspected(container)["State"]
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

    def containers(self, label: str, *, size: bool = False) -> list[tuple[str, dict[str, str], int]]:
        """Id, labels and (with ``size``) bytes of the writable layer of all containers with a label, running or not."""
        with faults("listing containers"):
            found = self._api.containers(all=True, size=size, filters={"label": label})
        return [(one["Id"], one.get("Labels") or {}, int(one.get("SizeRw") or 0)) for one in found]

    def changes(self, container: str) -> list[Change]:
        """Raises ``ValueError`` where processes inside nested folders beyond what a path can name: their doing, not the
        daemon's."""
        try:
            with faults("reading a container's changes"):
                return [Change(path=one["Path"], kind=one["Kind"]) for one in self._api.diff(container) or ()]
        except DaemonRefusal as refusal:
            if "file name too long" in str(refusal):
                raise ValueError("folders nest deeper than a path can name") from None
            raise

    def extract(self, container: str, tar: bytes | IO[bytes]) -> None:
        """Unpack a tar at the root of a container, running or not."""
        with faults("putting files"):
            self._api.put_archive(container, "/", tar)

    def stat(self, container: str, path: str) -> PathFacts | None:
        """Of the path itself: a link is not followed."""
        try:
            with faults(f"looking at {path}"):
                where = {"params": {"path": path}, "timeout": CALL_SECONDS}
                response = self._asked("head", "/containers/{0}/archive", container, **where)
        except Absent:
            return None
        return path_facts(json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"])))

    @contextlib.contextmanager
    def archive(self, container: str, path: str) -> Iterator[tarfile.TarFile | None]:
        """The tar stream of a path, its name first; None where there is nothing. Members are read in order and only
        as far as the caller reads: closing early ends the daemon's work."""
        try:
            with faults(f"reading {path}"):
                plain = {"Accept-Encoding": "identity"}  # else the daemon spends its time on gzip
                what = {"params": {"path": path}, "headers": plain, "stream": True}
                response = self._asked("_get", "/containers/{0}/archive", container, **what)
        except Absent:
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
        """Start a command as root in a running container; the socket carries its stdin and Docker's framed output.
        ``environment`` goes over the container's own."""
        with faults("starting a command"):
            api = self._api
            how = {"stdin": True, "stdout": True, "stderr": True, "user": "0", "workdir": "/"}
            made = api.exec_create(container, argv, environment=dict(environment or {}), **how)
            raw = api.exec_start(made["Id"], socket=True)
        return own_socket(raw)


def _done(what: str, work: Callable[[], object]) -> bool:
    """Whether the daemon did it; False where it refuses."""
    try:
        with faults(what):
            work()
    except DaemonRefusal:
        return False
    return True
