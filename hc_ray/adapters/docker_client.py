"""The Docker daemon, as few typed calls; the only module that imports the Docker SDK.

Three faults, all ``SandboxError``: ``DaemonGone`` (no answer), ``DaemonRefusal`` (it answered no), ``Absent`` (no such
thing). The classic builder is used through the API, so that nothing depends on BuildKit or the command line client."""

import base64
import contextlib
import json
import socket
import tarfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from hc_ray.adapters.docker_values import (
    Absent,
    Change,
    DaemonGone,
    DaemonRefusal,
    ImageFacts,
    PathFacts,
    path_facts,
    remedy,
    split_tag,
)

CALL_SECONDS = 60.0
PROBE_SECONDS = 3.0


@contextlib.contextmanager
def _faults(what: str) -> Iterator[None]:
    """Turn what the SDK raises into the three faults above."""
    import docker.errors
    import requests.exceptions
    import urllib3.exceptions

    try:
        yield
    except docker.errors.NotFound as error:
        raise Absent(f"Docker, {what}: {error.explanation or error}") from None
    except docker.errors.APIError as error:
        raise DaemonRefusal(f"Docker, {what}: {error.explanation or error}") from None
    except (docker.errors.DockerException, OSError, requests.exceptions.RequestException) as error:
        raise DaemonGone(f"Docker, {what}: no answer from the daemon: {error}") from None
    except urllib3.exceptions.HTTPError as error:
        raise DaemonGone(f"Docker, {what}: the answer broke off: {error}") from None


def _open(timeout: float) -> Any:
    import docker
    import docker.utils

    options: dict[str, Any] = {"version": "auto", "timeout": timeout, "max_pool_size": 32}
    # max_pool_size: as many connections are kept as sandboxes usually talk at a time.
    return docker.APIClient(**options, **docker.utils.kwargs_from_env())


def _wire(response: Any) -> socket.socket:
    """The socket under a streamed response, so that each read can have a deadline of its own."""
    raw = response.raw._fp.fp.raw
    return getattr(raw, "_sock", raw)  # type: ignore[no-any-return]


class Daemon:
    """Safe for use from several threads. Connects on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: Any = None

    @property
    def _api(self) -> Any:
        with self._lock:
            if self._client is None:
                with _faults("connecting"):
                    self._client = _open(CALL_SECONDS)
            return self._client

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def facts(self) -> dict[str, Any]:
        """``docker info``."""
        with _faults("info"):
            return dict(self._api.info())

    # images

    def image(self, reference: str) -> ImageFacts | None:
        try:
            with _faults(f"inspecting image {reference}"):
                found = self._api.inspect_image(reference)
        except Absent:
            return None
        config = found.get("Config") or {}
        layers = len((found.get("RootFS") or {}).get("Layers") or ())
        volumes = tuple(sorted(config.get("Volumes") or {}))
        return ImageFacts(id=found["Id"], workdir=config.get("WorkingDir") or "", layers=layers, volumes=volumes)

    def image_environment(self, reference: str) -> dict[str, str]:
        """The environment variables that an image gives to its containers."""
        with _faults(f"inspecting image {reference}"):
            lines = (self._api.inspect_image(reference).get("Config") or {}).get("Env") or ()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def pull(self, reference: str, *, seconds: float) -> None:
        """Raises ``SandboxError`` when the image is not there within ``seconds``."""
        repository, _, tag = reference.partition("@") if "@" in reference else split_tag(reference)
        params = {"fromImage": repository, "tag": tag or "latest"}
        with _faults(f"pulling {reference}"):
            api = self._api
            response = api._post(api._url("/images/create"), params=params, stream=True, timeout=seconds)
            _follow(api, response, seconds, f"pulling {reference}")

    def build(
        self, folder: Path, *, tag: str, labels: Mapping[str, str], seconds: float, dockerfile: str | None = None
    ) -> None:
        """``docker build`` of a folder with the classic builder; ``dockerfile`` replaces the folder's own. Raises
        ``SandboxError`` with the last lines of output when it fails or takes longer than ``seconds``."""
        import docker.utils

        ignore = folder / ".dockerignore"
        lines = ignore.read_text(errors="replace").splitlines() if ignore.is_file() else []
        exclude = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        name = "Dockerfile" if dockerfile is None else ".dockerfile.hc-ray"
        text = (folder / name).read_text(errors="replace") if dockerfile is None else dockerfile
        params = {"t": tag, "rm": True, "forcerm": True, "dockerfile": name, "labels": json.dumps(dict(labels))}
        headers = {"Content-Type": "application/tar"}
        pack: Any = docker.utils.tar  # its types miss the file's context manager
        with _faults(f"building {tag}"), pack(str(folder), exclude=exclude, dockerfile=(name, text)) as context:
            api = self._api
            url = api._url("/build")
            response = api._post(url, data=context, params=params, headers=headers, stream=True, timeout=seconds)
            _follow(api, response, seconds, f"building {tag}")

    def commit(self, container: str, labels: Mapping[str, str]) -> str:
        with _faults("committing a fork"):
            changes = [f"LABEL {key}={json.dumps(value)}" for key, value in labels.items()]
            return str(self._api.commit(container, changes=changes)["Id"])

    def flatten(self, container: str, labels: Mapping[str, str], *, environment: Iterable[str]) -> str:
        """An image of one layer with the container's files (``docker export | docker import``)."""
        changes = [f"LABEL {key}={json.dumps(value)}" for key, value in labels.items()]
        changes += [f"ENV {key}={json.dumps(value)}" for key, _, value in (line.partition("=") for line in environment)]
        with _faults("flattening a fork"):
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
        with _faults("inspecting a container"):
            return list(self._api.inspect_container(container)["Config"].get("Env") or ())

    def remove_image(self, image: str) -> bool:
        """Remove an image; False for one that is gone or still in use, which is left as it is."""
        try:
            with _faults("removing an image"):
                self._api.remove_image(image, force=False, noprune=False)
        except DaemonRefusal:
            return False
        return True

    def images(self, label: str) -> list[tuple[str, dict[str, str]]]:
        with _faults("listing images"):
            found = self._api.images(filters={"label": label}, all=True)
        return [(image["Id"], image.get("Labels") or {}) for image in found]

    def tags(self, label: str) -> list[str]:
        """The names of all images with a label."""
        with _faults("listing images"):
            found = self._api.images(filters={"label": label})
        return sorted(tag for image in found for tag in image.get("RepoTags") or () if tag != "<none>:<none>")

    def dangling(self, label: str) -> list[tuple[str, float]]:
        """Id and time of making of the images with a label that have neither a name nor a child."""
        with _faults("listing images"):
            found = self._api.images(filters={"label": label, "dangling": True})
        return [(image["Id"], float(image["Created"])) for image in found]

    # volumes

    def volumes(self, label: str) -> list[str]:
        with _faults("listing volumes"):
            return sorted(one["Name"] for one in self._api.volumes(filters={"label": label}).get("Volumes") or ())

    def remove_volume(self, name: str) -> bool:
        """Remove a volume; False for one that a container still uses."""
        try:
            with _faults("removing a volume"):
                self._api.remove_volume(name)
        except DaemonRefusal:
            return False
        return True

    def make_volume(self, name: str, labels: Mapping[str, str]) -> None:
        with _faults("creating a volume"):
            self._api.create_volume(name, labels=dict(labels))

    # containers

    def create(self, image: str, name: str, host: Mapping[str, Any], config: Mapping[str, Any]) -> str:
        """Create (not start) a container from the SDK's keyword arguments; returns its id."""
        with _faults(f"creating a container of {image}"):
            api = self._api
            limits = api.create_host_config(**host)
            # The client's own proxy settings, which may hold a password, are no business of what runs in there.
            made = api.create_container(image, name=name, host_config=limits, use_config_proxy=False, **config)
            return str(made["Id"])

    def hold(self, container: str) -> socket.socket:
        """The standard input of a container that has not started yet. When this process ends, however it ends, the
        container reads the end of it."""
        with _faults("attaching to a container"):
            raw = self._api.attach_socket(container, params={"stdin": 1, "stream": 1})
        return _own_socket(raw)

    def start(self, container: str) -> None:
        with _faults("starting a container"):
            self._api.start(container)

    def running(self, container: str) -> bool:
        try:
            with _faults("inspecting a container"):
                return bool(self._api.inspect_container(container)["State"]["Running"])
        except Absent:
            return False

    def kill(self, container: str) -> None:
        """SIGKILL to all of it; one that runs no more is left as it is."""
        with contextlib.suppress(DaemonRefusal), _faults("killing a container"):
            self._api.kill(container)

    def remove(self, container: str) -> None:
        """Kill and remove with its anonymous volumes; one that is gone already is no fault."""
        for attempt in range(5):
            try:
                with _faults("removing a container"):
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
        with _faults("listing containers"):
            found = self._api.containers(all=True, size=size, filters={"label": label})
        return [(one["Id"], one.get("Labels") or {}, int(one.get("SizeRw") or 0)) for one in found]

    def changes(self, container: str) -> list[Change]:
        """Raises ``ValueError`` where processes inside nested folders beyond what a path can name: their doing, not the
        daemon's."""
        try:
            with _faults("reading a container's changes"):
                return [Change(path=one["Path"], kind=one["Kind"]) for one in self._api.diff(container) or ()]
        except DaemonRefusal as refusal:
            if "file name too long" in str(refusal):
                raise ValueError("folders nest deeper than a path can name") from None
            raise

    def extract(self, container: str, tar: bytes | IO[bytes]) -> None:
        """Unpack a tar at the root of a container, running or not."""
        with _faults("putting files"):
            self._api.put_archive(container, "/", tar)

    def stat(self, container: str, path: str) -> PathFacts | None:
        """Of the path itself: a link is not followed."""
        try:
            with _faults(f"looking at {path}"):
                api = self._api
                url = api._url("/containers/{0}/archive", container)
                response = api.head(url, params={"path": path}, timeout=CALL_SECONDS)
                api._raise_for_status(response)
        except Absent:
            return None
        return path_facts(json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"])))

    @contextlib.contextmanager
    def archive(self, container: str, path: str) -> Iterator[tarfile.TarFile | None]:
        """The tar stream of a path, its name first; None where there is nothing. Members are read in order and only
        as far as the caller reads: closing early ends the daemon's work."""
        try:
            with _faults(f"reading {path}"):
                api = self._api
                url = api._url("/containers/{0}/archive", container)
                plain = {"Accept-Encoding": "identity"}  # else the daemon spends its time on gzip
                response = api._get(url, params={"path": path}, headers=plain, stream=True)
                api._raise_for_status(response)
        except Absent:
            yield None
            return
        with contextlib.closing(response), _faults(f"reading {path}"):
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
        with _faults("starting a command"):
            api = self._api
            how = {"stdin": True, "stdout": True, "stderr": True, "user": "0", "workdir": "/"}
            made = api.exec_create(container, argv, environment=dict(environment or {}), **how)
            raw = api.exec_start(made["Id"], socket=True)
        return _own_socket(raw)


def _own_socket(raw: Any) -> socket.socket:
    wire = getattr(raw, "_sock", raw)
    if wire is not raw:
        # SocketIO closes its socket when it is collected: a duplicate outlives it.
        duplicate: socket.socket = wire.dup()
        return duplicate
    return wire  # type: ignore[no-any-return]


def _follow(api: Any, response: Any, seconds: float, what: str) -> None:
    """Read a progress stream to its end, at most ``seconds``; raises with the last lines when it reports an error."""
    api._raise_for_status(response)
    until = time.monotonic() + seconds
    wire = _wire(response)
    last: list[str] = []
    with contextlib.closing(response):
        try:
            for line in response.iter_lines(chunk_size=1024):
                status = json.loads(line) if line else {}
                if "error" in status:
                    raise DaemonRefusal(f"{what} failed: {status['error'].strip()}\n" + "".join(last[-20:]).strip())
                if "stream" in status:
                    last = [*last[-40:], status["stream"]]
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                wire.settimeout(left)
        except (TimeoutError, OSError) as error:
            if time.monotonic() < until - 0.5:
                raise
            message = f"{what} took longer than {seconds:g} s\n" + "".join(last[-20:]).strip()
            raise DaemonRefusal(message) from error


def why_not() -> str | None:
    """None when a Linux daemon of 20.10 or later answers within three seconds; else what is wrong and the remedy."""
    import docker.errors
    import requests.exceptions

    try:
        api = _open(PROBE_SECONDS)
        with contextlib.closing(api):
            facts = api.version()
    except (docker.errors.DockerException, OSError, requests.exceptions.RequestException) as error:
        return remedy(str(error), PROBE_SECONDS)
    if facts.get("Os") != "linux":
        return f"the Docker daemon runs {facts.get('Os')} containers: switch it to Linux containers"
    if tuple(int(part) for part in facts["ApiVersion"].split(".")) < (1, 41):
        return f"Docker {facts.get('Version')} is too old: 20.10 or later is needed"
    return None
