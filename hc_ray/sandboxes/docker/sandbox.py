"""Sandboxes as Docker containers: every limit that Docker has is set, and a watchdog stands in for the disk quota that
overlay2 lacks. The parts: ``connection`` (the SDK), ``client``, ``availability`` (which tasks it can take), ``images``,
``place`` (what they share), ``container`` (one sandbox), ``lifecycle`` (how it begins and ends), ``stream`` (what a
command says), ``lineage``, ``difference``."""

import contextlib
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

from hc_ray.domain.errors import DatasetError, SandboxError
from hc_ray.domain.task import Task
from hc_ray.sandboxes.docker.availability import refusal
from hc_ray.sandboxes.docker.container import DockerSandbox
from hc_ray.sandboxes.docker.lineage import Ticket
from hc_ray.sandboxes.docker.place import PLACE_LABEL, Ground
from hc_ray.sandboxes.docker.reaper import remove_forks
from hc_ray.sandboxes.docker.transfer import Exchange
from hc_ray.sandboxes.docker.watchdog import DiskWatchdog, reads_folders
from hc_ray.sandboxes.tripwire import TICK

WATCH_SECONDS = 2.0
"""After which every container's disk is looked at, even if nothing speaks for it."""


class DockerPlace:
    """Sandboxes on the Docker daemon that the environment names (``DOCKER_HOST``, else the local socket)."""

    def __init__(self, public_root: Path, *, owner: str) -> None:
        self._ground = Ground(public_root, owner=owner)
        self.images = Exchange(self._ground)
        self._watch_lock = threading.Lock()
        self._watchdog: DiskWatchdog | None = None

    async def create(self, task: Task, name: str, *, network: bool = False) -> DockerSandbox:
        if reason := self.refuses(task):
            raise DatasetError(f"{task.name}: {reason}")
        return await self._ground.acquire(lambda: self._create(task, name, network))

    def _create(self, task: Task, name: str, network: bool) -> DockerSandbox:
        image = self._ground.images.of(task)
        sandbox = DockerSandbox(self._ground, task, image, name, network=network)
        sandbox.begin(image.id)
        self._begin_watch()
        return sandbox

    def _begin_watch(self) -> None:
        with self._watch_lock:
            if self._watchdog is None:
                self._watchdog = DiskWatchdog(self._ground, WATCH_SECONDS)
                threading.Thread(target=self._renew, name="docker-lease", daemon=True).start()

    async def prepare(self, task: Task) -> None:
        if reason := self.refuses(task):
            raise DatasetError(f"{task.name}: {reason}")
        await self._ground.call(self._ground.images.renewed, task)

    async def keep_from(self, away: Collection[str]) -> None:
        """From now on a sandbox with a network reaches none of these addresses and networks, those of the cluster,
        beside this machine's own, which none ever does; this holds for sandboxes that live, too."""
        self._ground.away = tuple(away)
        await self._ground.call(self._fence_living)

    def _fence_living(self) -> None:
        faults = []
        for sandbox in self._ground.housed().values():
            try:
                if sandbox.alive:
                    sandbox.fence()
            except SandboxError as fault:  # one that ends just now keeps no other from its fence
                faults.append(fault)
        if faults:
            raise faults[0]

    async def adopt(self, task: Task, ticket: str) -> DockerSandbox:
        """As ``ports.Adopts``: the giver is another place on the same daemon."""
        given = Ticket.model_validate_json(ticket)
        return await self._ground.acquire(lambda: self._adopt(task, given))

    def _adopt(self, task: Task, given: Ticket) -> DockerSandbox:
        sandbox = DockerSandbox.taken_over(self._ground, task, self._ground.images.of(task), given)
        self._begin_watch()
        return sandbox

    def refuses(self, task: Task) -> str | None:
        return refusal(task)

    def limits(self) -> Mapping[str, str]:
        facts = self._ground.facts()
        controlled = {"memory": "MemoryLimit", "pids": "PidsLimit", "cpu": "CpuCfsQuota"}
        held = {name: "cgroup" if facts.get(key) else "none: the daemon cannot" for name, key in controlled.items()}
        counts = "bytes and files" if reads_folders(facts) else "bytes of the writable layer, and files"
        return {
            **held,
            "disk": f"ulimit per file, watchdog ({TICK:g} s) for {counts}",
            "network": "none; where a task is given one, it reaches no other sandbox and no machine of the cluster",
            "time": "deadline per command",
            "output": "cut by count",
            "system calls": "the daemon's filter, and ours for commands (seccomp)",
        }

    def _renew(self) -> None:
        """Keep the containers of this place alive."""
        while not self._ground.closing.wait(self._ground.lease_seconds / 4):
            self._ground.renew()

    async def close(self) -> None:
        if not self._ground.closing.is_set():
            self._ground.closing.set()
            await self._ground.call(self._close)
            self._ground.pool.shutdown(wait=False)

    def _close(self) -> None:
        ground = self._ground
        for sandbox in ground.housed().values():
            with contextlib.suppress(SandboxError):  # what is left of it bears this place's label
                sandbox.close_now()
        ground.let_all_go()
        if ground.used:
            mine = f"{PLACE_LABEL}={ground.id}"
            for container, _ in ground.daemon.containers(mine):
                ground.daemon.remove(container)
            remove_forks(ground.daemon, {image for image, _ in ground.daemon.images(mine)})
            for network, _ in ground.daemon.networks(mine):
                ground.daemon.remove_network(network)
        ground.daemon.close()
