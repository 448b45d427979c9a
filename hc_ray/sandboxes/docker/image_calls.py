"""A connection to the Docker daemon, and its calls about images. The classic builder is used through the API, so that
nothing depends on BuildKit or the command line client."""

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hc_ray.sandboxes.docker.connection import CALL_SECONDS, WALK_SECONDS, build_context, connect, faults
from hc_ray.sandboxes.docker.stream import Pulse, follow
from hc_ray.sandboxes.docker.values import Absent, DaemonRefusal, ImageFacts, fault_of, split_tag


class Connection:
    """Made on first use; safe for use from several threads."""

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

    def inspected(self, container: str) -> dict[str, Any]:
        with faults("inspecting a container"):
            found: dict[str, Any] = self._api.inspect_container(container)
            return found


class ImageCalls(Connection):
    """Images as the daemon has them."""

    def image(self, reference: str) -> ImageFacts | None:
        try:
            with faults(f"inspecting image {reference}"):
                found = self._api.inspect_image(reference)
        except Absent:
            return None
        config = found.get("Config") or {}
        layers = tuple((found.get("RootFS") or {}).get("Layers") or ())
        names = {"workdir": config.get("WorkingDir") or "", "user": config.get("User") or ""}
        names["labels"] = config.get("Labels") or {}
        environment = dict(line.split("=", 1) for line in config.get("Env") or () if "=" in line)
        digests = tuple(found.get("RepoDigests") or ())
        return ImageFacts(id=found["Id"], environment=environment, layers=layers, digests=digests, **names)

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

    def build(self, folder: Path, dockerfile: str, *, what: str, labels: Mapping[str, str], seconds: float) -> str:
        """``docker build`` of a folder with the classic builder; ``dockerfile`` replaces the folder's own. Answers the
        image's id; it has no name yet, and is called ``what`` in messages. Raises ``SandboxError`` with the last lines
        of output when it fails or takes longer than ``seconds``."""
        name = ".dockerfile.hc-ray"
        params = {"rm": True, "forcerm": True, "dockerfile": name, "labels": json.dumps(dict(labels))}
        headers = {"Content-Type": "application/tar"}
        with faults(f"building {what}"), build_context(folder, name, dockerfile) as context:
            sent = {"data": context, "params": params, "headers": headers}
            response = self._asked("_post", "/build", **sent, stream=True, timeout=seconds)
            return follow(response, seconds, f"building {what}")

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
            what = {"container": container, "pause": True, "changes": _label_lines(labels)}
            return str(self._asked("_post_json", "/commit", data={}, params=what, timeout=WALK_SECONDS).json()["Id"])

    def flatten(self, container: str, labels: Mapping[str, str]) -> str:
        """An image of one layer with the container's files and variables (``docker export | docker import``)."""
        environment = (line.partition("=") for line in self.inspected(container)["Config"].get("Env") or ())
        changes = [*_label_lines(labels), *(f"ENV {key}={json.dumps(value)}" for key, _, value in environment)]
        with faults("flattening a fork"):
            stream = self._api.export(container)
            answer = self._api.import_image_from_stream(stream, changes=changes)
        for line in str(answer).splitlines():
            status = json.loads(line)
            if "error" in status:
                raise fault_of("flattening a fork", str(status["error"]))
            if str(status.get("status", "")).startswith("sha256:"):
                return str(status["status"])
        raise DaemonRefusal(f"Docker, flattening a fork: no image in {answer!r}")

    def remove_image(self, image: str) -> bool:
        """Remove an image; False for one that is gone or still in use, which is left as it is."""
        return done("removing an image", lambda: self._api.remove_image(image, force=False, noprune=False))

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


def _label_lines(labels: Mapping[str, str]) -> list[str]:
    return [f"LABEL {key}={json.dumps(value)}" for key, value in labels.items()]


def done(what: str, work: Callable[[], object]) -> bool:
    """Whether the daemon did it; False where it refuses."""
    try:
        with faults(what):
            work()
    except DaemonRefusal:
        return False
    return True
