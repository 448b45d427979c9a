"""How a Docker sandbox begins and ends. A container is created at once and starts with the first command that runs in
it: most of what a state is asked (its files, its difference) the daemon answers of one that never ran, at a third of
the cost."""

import contextlib
import socket
import threading

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.task import Task
from hc_ray.sandboxes.docker.difference import Lineage
from hc_ray.sandboxes.docker.place import STORAGE_MB, Ground, working_directory
from hc_ray.sandboxes.docker.stream import Pulse
from hc_ray.sandboxes.docker.values import DaemonGone, DaemonRefusal, ImageFacts, Unwritable
from hc_ray.sandboxes.docker.watchdog import end_first_process


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
        """``fork_image``: the image of the container's own, a commit; ``layers``: how many it has. None: the task's."""
        self._ground = ground
        self._daemon = ground.daemon
        self._task = task
        self._image = image
        self._name = name
        self._network = network
        self._account = ground.account(task, image, task.agent_user or image.user)
        """Whom commands run as; None for root."""
        self._workdir = working_directory(task, image)
        self._layers = len(image.layers) if layers is None else layers
        self._fork_image = fork_image
        self._lineage = Lineage(ground.daemon, parent, lambda path: ground.baseline(task, image).stat(path))
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._started = False
        self._written = False
        """Something was put here, or ran."""
        self._closed = False
        self._dead: str | None = None
        self._pulse: Pulse | None = None
        """That of the daemon under which the container began."""
        self._pristine = fork_image is None
        """Nothing of a candidate was in here yet: what goes wrong now is the machinery's fault."""
        self._owner_wire: socket.socket | None = None
        """The container's standard input: the container ends when nobody holds it any more."""
        self.container = ""
        self.storage_bytes = (task.environment.storage_mb or STORAGE_MB) << 20

    @property
    def alive(self) -> bool:
        """Whether it was not killed."""
        return self._dead is None

    def begin(self, image: str) -> None:
        """Create the container."""
        self._pulse = self._ground.pulse()
        self.container = self._ground.make_container(self._task, image, self._name, network=self._network)
        self._lineage.container = self.container
        self._ground.enter(self.container, self)
        try:
            if self._task.grading == "shared":  # what lies under its mounts cannot be written before they are there
                self._start()
            if self._ground.closing.is_set():
                raise SandboxError("this place of sandboxes is closed")
        except BaseException:
            self._ground.leave(self.container)
            self._let_go()
            self._daemon.remove(self.container)
            raise

    def _start(self) -> None:
        """Start the container, if that was not done yet. Raises ``Unwritable`` where what was put into it is in the
        way, another ``SandboxError`` where the machinery is at fault."""
        with self._starting:
            if self._started or self._dead is not None:
                return
            self._written = True
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
        if self._dead is not None:  # meanwhile: a container that did not run yet could not be killed
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
                raise Unwritable(f"what was put there is in the way of a start: {refusal}") from None

    def _hold_and_start(self) -> None:
        self._let_go()
        self._owner_wire = self._daemon.hold(self.container)
        self._daemon.start(self.container)

    def fence(self) -> None:
        """Keep what runs here from the cluster's addresses, where it has a network."""
        if self._network and self._started:
            self._ground.fence(self.container, self._image)

    def renew(self) -> None:
        """Tell the container that its owner lives."""
        with contextlib.suppress(OSError):  # it has ended: whoever uses it next is told
            if self._owner_wire is not None:
                self._owner_wire.send(b".", socket.MSG_DONTWAIT)

    def _let_go(self) -> None:
        wire, self._owner_wire = self._owner_wire, None
        if wire is not None:
            wire.close()

    def kill(self, reason: str) -> None:
        """End every process; the files stay readable."""
        self._dead = self._dead or reason
        end_first_process(self._daemon.process(self.container), self.container)
        self._daemon.kill(self.container)

    async def close(self) -> None:
        await self._ground.call(self.close_now)

    def close_now(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._dead = self._dead or "it was closed"
        try:
            self._lineage.end()
        finally:
            self._daemon.remove(self.container)
            self._let_go()
            self._ground.leave(self.container)
            if self._fork_image is not None:
                self._daemon.remove_image(self._fork_image)

    def _check_daemon(self) -> None:
        """Raises when the daemon was stopped or restarted since this container began: what ended in it is no
        candidate's doing then."""
        if self._pulse is not None and not self._pulse.beats():
            raise DaemonGone("the Docker daemon was stopped or restarted while a sandbox ran")

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxError(f"the sandbox {self._name} is closed")
