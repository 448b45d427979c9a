"""What a container needs before it starts: the task's image and the runner's volume.

A task with a Dockerfile is built once for its public digest (``hc-ray/task:<digest16>``), and again when one of its
bases has changed; a prebuilt image with files in ``environment/`` is built on in the same way, and one without is used
as it is. The runner travels to the daemon as a volume that is filled through the API: no folder of the host is ever
mounted."""

import io
import json
import os
import re
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hc_ray.domain.errors import DatasetError, SandboxError
from hc_ray.domain.filetree import Member, pack
from hc_ray.domain.runner_paths import RUNNER_ROOT
from hc_ray.domain.task import Task
from hc_ray.machine.owner import current_owner, machine
from hc_ray.machine.paths import data_root
from hc_ray.machine.whole_files import one_process_at_a_time
from hc_ray.sandboxes.docker.availability import bases, built_tag, environment_files
from hc_ray.sandboxes.docker.client import Daemon
from hc_ray.sandboxes.docker.values import DaemonRefusal, ImageFacts
from hc_ray.sandboxes.runner_build import ensure_runner
from hc_ray.tasks.public_folder import environment_dir

PULL_SECONDS = 120.0
"""How long a registry may take before the image counts as missing."""
OWNER_LABEL = "hc-ray.owner"
MACHINE_LABEL = "hc-ray.machine"
RUNNER_LABEL = "hc-ray.runner"
TASK_LABEL = "hc-ray.task"
BASES_LABEL = "hc-ray.bases"
"""What a task's image was built on, as ``name=id`` with blanks between."""
_COMPLETE = ".hc-ray-complete"
"""What comes last into the runner's volume: with it, the volume is whole."""
_HOPELESS = re.compile(
    r"(?:COPY|ADD) failed: (?:file not found|forbidden path|no source files)|parse error", re.IGNORECASE
)
"""What no other try mends."""
_FAILED = "returned a non-zero code"
"""Of a RUN step, with its text before: it may have failed by its network."""
_BEGINNING = re.compile(r"\A(?:.*\n)*?[ \t]*RUN\b(?:.*\\\n)*.*", re.IGNORECASE)
"""A Dockerfile up to the end of its first step that runs something."""
_STEP = re.compile(r"^Step \d+/\d+ : ")
_BUILDERS = (" ---> ", "Removing intermediate container ")
"""How the builder's own lines begin, between those of a step."""


class Images:
    """The images of tasks on one daemon; each is made once, however many ask."""

    def __init__(self, daemon: Daemon, public_root: Path) -> None:
        self._daemon = daemon
        self._public_root = public_root
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._taught: set[threading.Lock] = set()
        """Of beginnings of Dockerfiles with which something was built."""
        self._ready: dict[str, ImageFacts] = {}
        self._volume: str | None = None

    def _lock_of(self, key: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(key, threading.Lock())

    def of(self, task: Task) -> ImageFacts:
        """The task's image, pulled or built when it is not there. Raises ``SandboxError`` with the remedy."""
        return self._obtained(task, lambda: self._daemon.image(built_tag(task)))

    def renewed(self, task: Task) -> ImageFacts:
        """As ``of``, but built again where a base has changed since. For one who chooses an image for all: whoever
        works beside it takes what it has named, whatever bases are on that machine."""
        return self._obtained(task, lambda: self._valid(task))

    def _obtained(self, task: Task, find: Callable[[], ImageFacts | None]) -> ImageFacts:
        with self._lock_of(task.digest):
            if task.digest not in self._ready:
                self._ready[task.digest] = self._prepare(task, find)
            return self._ready[task.digest]

    def _valid(self, task: Task) -> ImageFacts | None:
        """What was built for the task, unless a base that it was built on has another id here now."""
        built = self._daemon.image(built_tag(task))
        for one in built.labels.get(BASES_LABEL, "").split() if built else ():
            name, _, known = one.rpartition("=")
            base = self._daemon.image(name)
            if base is not None and base.id != known:
                return None
        return built

    def held(self, task: Task) -> ImageFacts | None:
        """The task's image where it is there already and its bases are still the same."""
        if task.digest in self._ready:
            return self._ready[task.digest]
        environment = task.environment
        found = self._valid(task)
        built_on = environment.dockerfile or environment_files(task, self._public_root)
        if found is None and environment.docker_image and not built_on:
            found = self._daemon.image(environment.docker_image)
        return found

    def keep(self, task: Task, image: str) -> None:
        """From now on the task's image is this one, which came from elsewhere."""
        found = self._daemon.image(image)
        if found is None:
            raise SandboxError(f"the image {image} of {task.name} was sent, but Docker does not list it by that id")
        with self._lock_of(task.digest):
            self._daemon.name_image(image, built_tag(task))
            self._ready[task.digest] = found

    def _prepare(self, task: Task, find: Callable[[], ImageFacts | None]) -> ImageFacts:
        environment, tag = task.environment, built_tag(task)
        built = find()
        if built is not None:
            return built
        names = bases(task, self._public_root)
        found = [self._obtain(base) for base in names]
        stands_on = " ".join(f"{name}={base.id}" for name, base in zip(names, found, strict=True))
        text, files = environment.dockerfile, environment_files(task, self._public_root)
        if text is None:
            (base,) = found
            if not files:
                return base
            workdir = environment.placed(base.workdir).workdir
            copies = [f"COPY {json.dumps([name, f'{workdir}/{name}'])}" for name in files]
            text = "\n".join([f"FROM {environment.docker_image}", f"WORKDIR {workdir}", *copies]) + "\n"
        # Two builds seldom give the same files, so the first one counts, whoever made it.
        lock = data_root() / "runner" / f"build-{task.digest[0]}.lock"
        with self._after_the_first_alike(text), one_process_at_a_time(lock):
            if find() is None:
                made = self._build(task, text, stands_on)
                if find() is None:  # a process with another data folder may have been sooner
                    self._daemon.name_image(made, tag)
            built = self._daemon.image(tag)
        if built is None:
            raise SandboxError(f"Docker built {tag}, but does not list it")
        return built

    @contextmanager
    def _after_the_first_alike(self, text: str) -> Iterator[None]:
        """Builds that begin alike wait for the first of them, and then take its layers side by side; begun together,
        each would install the same packages."""
        begins = _BEGINNING.match(text)
        lock = self._lock_of(f"begins {begins[0]}") if begins else threading.Lock()
        with lock:
            first = lock not in self._taught
            if first:
                try:
                    yield
                finally:
                    self._taught.add(lock)
        if not first:
            yield

    def _build(self, task: Task, text: str, stands_on: str) -> str:
        """The id of a new image of the task."""
        folder = environment_dir(self._public_root, task.digest)
        labels, seconds = {TASK_LABEL: task.digest, BASES_LABEL: stands_on}, task.environment.build_timeout_sec
        try:
            made = self._daemon.build(folder, text, what=built_tag(task), labels=labels, seconds=seconds)
            # Layers keep whole seconds, and Docker's diff takes two files of one size and second for the same.
            time.sleep(1.0 - time.time() % 1.0)
            return made
        except DaemonRefusal as refusal:
            first, _, said = str(refusal).partition("\n")
            own = _own_output(said)
            # A program's last line seldom names the cause: that stands a few lines above.
            last = " | ".join(line[:200] for line in own[-4:])
            says = first.partition(": ")[2] + (f": {last}" if last else "")
            kind = DatasetError if _HOPELESS.search(first) and _FAILED not in first else SandboxError
            whole = f"{task.name}: its image cannot be built: {says}; docker build {folder} shows all of it"
            raise kind("\n".join([whole, *own])) from None

    def _obtain(self, reference: str) -> ImageFacts:
        """An image by name; the registry is asked only when the daemon lacks it."""
        with self._lock_of(f"image {reference}"):
            found = self._daemon.image(reference)
            if found is None:
                try:
                    self._daemon.pull(reference, seconds=PULL_SECONDS)
                except DaemonRefusal as refusal:
                    raise SandboxError(
                        f"the image {reference} is not on this machine and cannot be pulled: load or build it "
                        f"(docker load, docker build -t {reference} …). {refusal}"
                    ) from None
                found = self._daemon.image(reference)
            if found is None:
                raise SandboxError(f"the image {reference} was pulled, but Docker does not list it")
            return found

    def runner_volume(self, image: str) -> str:
        """The name of the volume that holds the runner, filled if it is not yet. ``image`` lends a container, which
        never starts, to reach the volume through."""
        with self._lock_of("runner volume"):
            if self._volume is None:
                folder = ensure_runner()
                name = f"hc-ray-runner-{folder.name}"
                with one_process_at_a_time(data_root() / "runner" / f"{name}.lock"):
                    self._fill(name, folder, image)
                self._volume = name
            return self._volume

    def _fill(self, name: str, folder: Path, image: str) -> None:
        self._daemon.make_volume(name, {RUNNER_LABEL: folder.name})
        mounts = {"binds": {name: {"bind": RUNNER_ROOT, "mode": "rw"}}, "network_mode": "none"}
        labels = {RUNNER_LABEL: folder.name, OWNER_LABEL: current_owner(), MACHINE_LABEL: machine()}
        config = {"command": ["unused"], "entrypoint": [], "labels": labels}
        container = self._daemon.create(image, "", mounts, config)
        try:
            with self._daemon.archive(container, f"{RUNNER_ROOT}/{_COMPLETE}") as found:
                if found is not None:
                    return
            with _packed(folder) as tar:
                self._daemon.extract(container, tar)
            if self._daemon.on_this_kernel:
                os.sync()  # else, with the power, files may be lost and the mark kept
            self._daemon.extract(container, pack([Member(f"{RUNNER_ROOT}/{_COMPLETE}", "file")]).tar)
        finally:
            self._daemon.remove(container)


def _own_output(said: str) -> list[str]:
    """The lines that the step printed with which a build ended."""
    lines: list[str] = []
    for line in re.sub(r"\x1b\[[\d;]*m", "", said).splitlines():
        if _STEP.match(line):
            lines.clear()
        elif line.strip() and not line.startswith(_BUILDERS):
            lines.append(line.rstrip())
    return lines


@contextmanager
def _packed(folder: Path) -> Iterator[io.BufferedRandom]:
    """The runner as a tar whose members lie under ``RUNNER_ROOT``."""
    import tempfile

    def owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            tar.add(folder, arcname=RUNNER_ROOT.lstrip("/"), filter=owned_by_root)
        file.seek(0)
        yield file
