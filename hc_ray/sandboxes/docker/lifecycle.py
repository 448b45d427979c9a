"""The start and end of a Docker sandbox. A container is created at once but started only by its first command: most
operations on a state (files, difference) also work on a container that never ran, at a third of the cost."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.runner_paths import RUNNER_ROOT, machinery_command
from hc_ray.domain.task import Task, named_in_tmp
from hc_ray.sandboxes.docker.lineage import Lineage
from hc_ray.sandboxes.docker.place import STORAGE_MB, Ground, working_directory
from hc_ray.sandboxes.docker.stream import Pulse
from hc_ray.sandboxes.docker.values import Absent, DaemonGone, DaemonRefusal, ImageFacts, Unwritable
from hc_ray.sandboxes.docker.watchdog import alone, end_first_process, helper_is_stopped
from hc_ray.sandboxes.tripwire import Sent

FENCE_SECONDS = 60.0
EXIT_SECONDS = 0.02
"""Seconds for a command's helper to exit after its answer, less than freezing and thawing a container would take."""
FREEZE_SECONDS = 30.0
_USERS = ("/etc/passwd", "/etc/group")
_USERS_BYTES = 16 << 20


class Lifecycle:
    """The container of one ``DockerSandbox``."""

    def __init__(
        self,
        ground: Ground,
        task: Task,
        image: ImageFacts,
        name: str,
        *,
        network: bool,
        fork_image: str | None = None,
        layers: int | None = None,
        parent: Lineage | None = None,
    ) -> None:
        """``fork_image``: the container's own image, a commit, with ``layers`` layers; None: the task's image."""
        self._ground = ground
        self._daemon = ground.daemon
        self._task = task
        self._image = image
        self._name = name
        self._network = network
        self._account = ground.account(task, image, task.agent_user or image.user)
        """The user that commands run as; None for root."""
        self._workdir = working_directory(task, image)
        self._layers = len(image.layers) if layers is None else layers
        self._fork_image = fork_image
        named = named_in_tmp(task.instruction)
        self._lineage = Lineage(ground.daemon, parent, lambda path: ground.baseline(task, image).stat(path), named)
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._pace = threading.Lock()
        """Held while the container must stand still, and while a command is started in it."""
        self._started = False
        self._closed = False
        self._dead: str | None = None
        self._pulse: Pulse | None = None
        """The pulse of the daemon under which the container started."""
        self._pristine = fork_image is None
        """Whether no candidate's files or commands were in it yet, so that failures are the infrastructure's."""
        self.container = ""
        self.first = 0
        """Its first process by number on the daemon's machine, asked for before anything of a candidate runs: whoever
        stops a command that the daemon is about to start there keeps it from answering for this container, until that
        process is killed."""
        self.sent = Sent()
        self.storage_bytes = (task.environment.storage_mb or STORAGE_MB) << 20

    @property
    def alive(self) -> bool:
        """Whether it has not been killed."""
        return self._dead is None

    def begin(self, image: str) -> None:
        """Create the container."""
        self._pulse = self._ground.pulse()
        self.container = self._ground.make_container(self._task, image, self._name, network=self._network)
        self._lineage.container = self.container
        self._ground.enter(self.container, self)
        try:
            if self._task.grading == "shared":  # its mounts must exist before anything is written below them
                self._start()
                self._lineage.began = self._lineage.began or self._daemon.started(self.container)
            if self._ground.closing.is_set():
                raise SandboxError("this place of sandboxes is closed")
        except BaseException:
            self._ground.leave(self.container)
            self._ground.let_go(self.container)
            self._daemon.remove(self.container)
            raise

    def _start(self) -> None:
        """Start the container unless it was started. Raises ``Unwritable`` if files put into it prevent that, another
        ``SandboxError`` for an infrastructure failure."""
        with self._starting:
            if self._started or self._dead is not None:
                return
            self._lineage.ran()
            try:
                self._run_first_process()
            except DaemonRefusal as refusal:
                self._check_open()
                self._check_daemon()
                raise SandboxError(str(refusal)) from None
            self._started = True
            try:
                self.fence()
            except BaseException as fault:
                self._started = False
                self._daemon.kill(self.container)
                if isinstance(fault, DaemonRefusal):
                    raise SandboxError(str(fault)) from None
                raise
        if self._dead is not None:  # killed meanwhile, which is impossible before the start
            self._daemon.kill(self.container)

    def _run_first_process(self) -> None:
        try:
            self._hold_and_start()
        except DaemonRefusal as refusal:
            self._check_daemon()
            if self._pristine or self._closed:
                raise
            self._ground.try_start(self._task, self._image, network=self._network)
            try:  # an untouched one starts: what holds for a moment only is no candidate's doing either
                self._hold_and_start()
            except DaemonRefusal:
                raise Unwritable(f"files put there prevent a start: {refusal}") from None

    def _hold_and_start(self) -> None:
        if not self._pristine:
            self._check_users()
        self._ground.hold(self.container)
        self._daemon.start(self.container)
        self.first = self._daemon.process(self.container)

    def _check_users(self) -> None:
        """Check the user files, which the daemon reads when it starts a container: it would read a pipe forever, and
        the container could not even be removed."""
        for path in _USERS:
            found = self._daemon.stat(self.container, path)
            if found is not None and found.kind == "link":
                target = self._daemon.target(self.container, path)
                found = self._daemon.stat(self.container, target) if target else None
            if found is not None and (found.kind == "other" or found.size > _USERS_BYTES):
                raise Unwritable(f"files put there prevent a start: {path} is not a list of users")

    @contextmanager
    def still(self) -> Iterator[None]:
        """Freeze the processes while the daemon opens files: a file that becomes a pipe between two of its steps would
        block the daemon forever, and the container could not be removed."""
        with self._pace:
            self._check_open()
            paused = self._started and self._freeze()
            try:
                yield
            finally:
                if paused:
                    self._daemon.unpause(self.container)

    def _freeze(self) -> bool:
        """Freeze everything except the first process; False if nothing else is running."""
        began = time.monotonic()
        while not alone(self.first, self.container):
            if time.monotonic() < began + EXIT_SECONDS:
                time.sleep(0.002)
                continue
            try:
                return self._daemon.pause(self.container)
            except Absent:
                raise
            except DaemonRefusal:  # on a busy machine, freezing may exceed the daemon's time limit
                if time.monotonic() > began + FREEZE_SECONDS:
                    raise
        return False

    def fence(self) -> None:
        """Where the container runs and has a network: returns once nothing in it can reach its own gateway or what the
        place is kept from. ``inside/fence.py`` sets routes in its network namespace, from a container of the task's own
        image, which holds no file of a candidate and is gone before the first command. Raises ``SandboxError`` where
        that cannot be had."""
        if not (self._network and self._started):
            return
        host = {
            "network_mode": f"container:{self.container}",
            "binds": {self._ground.images.runner_volume(self._image.id): {"bind": RUNNER_ROOT, "mode": "ro"}},
            "cap_drop": ["ALL"],
            "cap_add": ["NET_ADMIN"],
            "security_opt": ["no-new-privileges"],
            "log_config": {"type": "json-file", "config": {}},
        }
        config = {
            "entrypoint": machinery_command("fence"),
            "command": sorted({*own_addresses(), *self._ground.away}),
            "user": "0",
            "healthcheck": {"test": ["NONE"]},
            "labels": self._ground.labels(),
        }
        maker = self._daemon.create(self._image.id, "", host, config)
        try:
            self._daemon.start(maker)
            status, said = self._daemon.wait(maker, seconds=FENCE_SECONDS)
        finally:
            self._daemon.remove(maker)
        if status != 0:
            last = said.strip().splitlines()[-1:] or ["no word"]
            raise SandboxError(f"a sandbox's network cannot be kept from the cluster's addresses: {last[0]}")

    def _is_stopped(self) -> bool:
        """Whether what runs in here has stopped a command that is to start, or a grading."""
        return helper_is_stopped(self.first, self.container)

    def kill(self, reason: str) -> None:
        """Kill all processes; the files stay readable."""
        self._dead = self._dead or reason
        end_first_process(self.first, self.container)
        self._daemon.kill(self.container)

    async def close(self) -> None:
        if not self._closed:  # its place may have closed it
            await self._ground.call(self.close_now)

    def close_now(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._dead = self._dead or "it was closed"
        end_first_process(self.first, self.container)
        try:
            self._lineage.end()
        finally:
            self._daemon.remove(self.container)
            self._ground.let_go(self.container)
            self._ground.leave(self.container)
            if self._fork_image is not None:
                self._daemon.remove_image(self._fork_image)

    def _check_daemon(self) -> None:
        """Raise if the daemon was stopped or restarted since this container's start, since processes that ended then
        are not the candidate's fault."""
        if self._pulse is not None and not self._pulse.beats():
            raise DaemonGone("the Docker daemon was stopped or restarted while a sandbox ran")

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxError(f"the sandbox {self._name} is closed")

    def _check_alive(self) -> None:
        """Raise ``Unwritable`` if the sandbox's own processes have ended it."""
        self._check_open()
        if self._dead is not None:
            self._check_daemon()
            raise Unwritable(f"the sandbox {self._name} was ended: {self._dead}")


def own_addresses() -> set[str]:
    """This machine's addresses, without loopback and link-local ones, which every fence covers; empty if the kernel
    shows none."""
    found: set[str] = set()
    if (routes := Path("/proc/net/fib_trie")).exists():
        found |= set(re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", routes.read_text()))
    if (addresses := Path("/proc/net/if_inet6")).exists():
        numbers = [line.split()[0] for line in addresses.read_text().splitlines()]
        found |= {":".join(re.findall("....", number)) for number in numbers if not number.startswith("fe8")}
    return {address for address in found if not address.startswith(("127.", "0000:0000:0000:0000:0000:0000:0000:0001"))}
