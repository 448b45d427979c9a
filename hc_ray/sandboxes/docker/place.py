"""Shared by the sandboxes of one place: daemon, images, labels, limits and threads."""

import asyncio
import contextlib
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from hc_ray.domain.errors import DatasetError, SandboxError
from hc_ray.domain.runner_paths import RUNNER_ROOT, machinery_command
from hc_ray.domain.task import Task
from hc_ray.machine.owner import machine
from hc_ray.sandboxes.docker import shared as docker_shared
from hc_ray.sandboxes.docker.client import Daemon
from hc_ray.sandboxes.docker.difference import Baseline, Budget
from hc_ray.sandboxes.docker.images import MACHINE_LABEL, OWNER_LABEL, Images
from hc_ray.sandboxes.docker.stream import Pulse
from hc_ray.sandboxes.docker.values import DaemonRefusal, ImageFacts
from hc_ray.sandboxes.inside.account import Account, account

if TYPE_CHECKING:
    from hc_ray.sandboxes.docker.lifecycle import Lifecycle

NAME_LABEL = "hc-ray.name"
PLACE_LABEL = "hc-ray.place"
LEASE_SECONDS = 600.0
"""Seconds after which a container ends if its owner is frozen or disconnected; it ends at once if the owner dies."""
LEASE_LABEL = "hc-ray.lease"
"""Seconds that a container lives after its owner's last sign of life."""
FORK_LABEL = "hc-ray.fork"
DROPPED = ["NET_RAW", "MKNOD", "AUDIT_WRITE", "SYS_CHROOT", "SETPCAP"]
"""Docker's default capabilities to drop; the others are needed to install packages."""
FENCED = {"net.ipv4.conf.all.accept_local": "1"}
"""Sysctls of a container with a network: else, fenced, it would not answer the ARP requests of its gateway."""
CPU_SHARES = 102
"""A tenth of what any other process gets where the cores are taken. With the lowest there is (2) whatever is in a
container gets two thousandths beside a busy engine: commands miss their deadlines for want of time, and the killed do
not find the time to die."""
PIDS = 256
MEMORY_MB = 2048
"""Where the task names none."""
STORAGE_MB = 2048
"""Where the task names none."""
THREADS = 1024
"""Threads: each running command and each kill takes one; more than any node has slots."""
_USERS_BYTES = 4 << 20
"""Maximum bytes of an image's user and group files."""

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Lifecycle")


class Ground:
    """The shared state of a place's sandboxes; thread-safe."""

    def __init__(self, public_root: Path, *, owner: str) -> None:
        self.owner = owner
        self.away: Collection[str] = ()
        """Addresses blocked for sandboxes with a network, besides this machine's own."""
        self.id = uuid.uuid4().hex[:12]
        self.daemon = Daemon()
        self.images = Images(self.daemon, public_root)
        self.closing = threading.Event()
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="docker")
        self.used = False
        """Whether any container has been created."""
        self.lease_seconds = LEASE_SECONDS
        self._lock = threading.Lock()
        self._open: dict[str, Lifecycle] = {}
        self._held: dict[str, socket.socket] = {}
        """The stdin of each container, including handed-over ones; a container ends when nobody holds it."""
        self._pulse: Pulse | None = None
        self._pulse_lock = threading.Lock()
        self._network_lock = threading.Lock()
        self._network: str | None = None
        self._baseline_lock = threading.Lock()
        self._baselines: dict[str, Baseline] = {}
        self._facts: Mapping[str, Any] | None = None
        self._accounts: dict[tuple[str, str], Account] = {}

    def enter(self, container: str, sandbox: "Lifecycle") -> None:
        with self._lock:
            self._open[container] = sandbox

    def leave(self, container: str) -> None:
        with self._lock:
            self._open.pop(container, None)

    def hold(self, container: str) -> None:
        """Keep alive a container that is about to start."""
        self.let_go(container)
        wire = self._held[container] = self.daemon.hold(container)
        wire.setblocking(False)

    def let_go(self, container: str) -> None:
        if wire := self._held.pop(container, None):
            wire.close()

    def let_all_go(self) -> None:
        for container in self._held.copy():
            self.let_go(container)

    def renew(self) -> None:
        """Signal the containers that their owner is alive."""
        for container, wire in self._held.copy().items():
            try:
                wire.send(b".")
            except (BlockingIOError, ssl.SSLWantWriteError):  # it is frozen
                continue
            except OSError:  # it has ended; its next user will notice
                self.let_go(container)

    def housed(self) -> dict[str, "Lifecycle"]:
        """Container → its open sandbox."""
        with self._lock:
            return dict(self._open)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call in one of this place's threads."""
        return await asyncio.wrap_future(self._begun(lambda: function(*args, **kwargs)))

    def _begun(self, work: Callable[[], T]) -> Future[T]:
        try:
            return self.pool.submit(work)
        except RuntimeError:  # its threads are shut down
            raise SandboxError("this place of sandboxes is closed") from None

    async def acquire(self, make: Callable[[], S]) -> S:
        """Like ``call``, for creating a sandbox: closes it if the caller is cancelled."""
        job = self._begun(make)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            job.add_done_callback(_close_unclaimed)
            raise

    def facts(self) -> Mapping[str, Any]:
        """The daemon's information about itself, cached."""
        if self._facts is None:
            self._facts = self.daemon.facts()
        return self._facts

    def account(self, task: Task, image: ImageFacts, named: str) -> Account | None:
        """A user of the task's image; None for root. Raises ``DatasetError`` if the image does not have it."""
        if named.partition(":")[0] in ("", "root", "0"):
            return None
        if (image.id, named) not in self._accounts:
            budget, baseline = Budget(_USERS_BYTES), self.baseline(task, image)
            found = (baseline.tree(path, budget, whole=False).get(path) for path in ("/etc/passwd", "/etc/group"))
            passwd, group = (file.data.decode(errors="replace") if file else "" for file in found)
            if (known := account(named, passwd, group)) is None:
                raise DatasetError(f"{task.name}: its image has no user {named!r}")
            self._accounts[image.id, named] = known
        return self._accounts[image.id, named]

    def pulse(self) -> Pulse:
        """The current daemon's pulse."""
        with self._pulse_lock:
            if self._pulse is None or not self._pulse.beats():
                self._pulse = self.daemon.pulse()
            return self._pulse

    def make_container(self, task: Task, image: str, name: str, *, network: bool) -> str:
        """Create a container with all limits; it starts later, or never."""
        environment = task.environment
        memory = (environment.memory_mb or MEMORY_MB) << 20
        storage = (environment.storage_mb or STORAGE_MB) << 20
        cpus = min(environment.cpus or 1.0, float(self.facts()["NCPU"]))
        host = {
            "network_mode": self._own_network() if network else "none",
            "sysctls": FENCED if network else {},
            "binds": {self.images.runner_volume(image): {"bind": RUNNER_ROOT, "mode": "ro"}},
            "nano_cpus": int(cpus * 1e9),
            "cpu_shares": CPU_SHARES,
            "mem_limit": memory,
            "memswap_limit": memory,
            "pids_limit": PIDS,
            "security_opt": ["no-new-privileges"],
            "cap_drop": DROPPED,
            "ulimits": [limit("core", 0), limit("fsize", storage)],
            "log_config": {"type": "none", "config": {}},
        }
        labels = {**self.labels(), NAME_LABEL: name, LEASE_LABEL: f"{self.lease_seconds:g}"}
        config = {
            "entrypoint": [*machinery_command("keep"), f"{self.lease_seconds:g}"],
            "command": [],
            "stdin_open": True,
            # Root, as without a word, unless the image names another; ``Daemon.exec_socket`` says why not always.
            "user": "0" if self.images.of(task).user else "",
            "hostname": "hc",
            # Docker then leaves the empty network to the kernel; its own network "none" doubles a container's cost.
            "network_disabled": not network,
            "labels": labels,
            "healthcheck": {"test": ["NONE"]},
            # Docker makes the folder where it is missing, and refuses where it is a file: in a fork, it may be either.
            "working_dir": working_directory(task, self.images.of(task)) if image == self.images.of(task).id else "/",
        }
        if task.grading == "shared":
            apparmor = any("apparmor" in one for one in self.facts().get("SecurityOptions") or ())
            host, config = docker_shared.options(host, config, apparmor=apparmor)
        if self.closing.is_set():
            raise SandboxError("this place of sandboxes is closed")
        self.used = True
        return self.daemon.create(image, f"hc-ray-{uuid.uuid4().hex[:16]}", host, config)

    def try_start(self, task: Task, image: ImageFacts, *, network: bool) -> None:
        """Raise ``SandboxError`` (not ``DaemonRefusal``) if not even a container of the task's untouched image
        starts."""
        container = None
        try:
            container = self.make_container(task, image.id, "control", network=network)
            self.daemon.start(container)
        except DaemonRefusal as refusal:
            raise SandboxError(str(refusal)) from None
        finally:
            if container is not None:
                with contextlib.suppress(SandboxError):
                    self.daemon.remove(container)

    def _own_network(self) -> str:
        """The network of this place's sandboxes, created on first use. On the daemon's default network they could reach
        each other and other containers."""
        with self._network_lock:
            if self._network is None:
                self._network = self.daemon.make_network(f"hc-ray-{self.id}", self.labels())
            return self._network

    def labels(self) -> dict[str, str]:
        """The labels of everything created here."""
        return {OWNER_LABEL: self.owner, MACHINE_LABEL: machine(), PLACE_LABEL: self.id}

    def baseline(self, task: Task, image: ImageFacts) -> Baseline:
        with self._baseline_lock:
            if image.id not in self._baselines:
                self._baselines[image.id] = Baseline(
                    self.daemon, lambda: self.make_container(task, image.id, "baseline", network=False)
                )
            return self._baselines[image.id]


def _close_unclaimed(job: Future[S]) -> None:
    if not job.cancelled() and job.exception() is None:
        job.result().close_now()


def limit(name: str, value: int) -> dict[str, Any]:
    return {"Name": name, "Soft": value, "Hard": value}


def working_directory(task: Task, image: ImageFacts) -> str:
    """The task's working directory, or else the image's."""
    return task.environment.placed(image.workdir).workdir
