"""One sandbox as a Docker container: state is the writable layer, a fork is a commit, or another container of the image
where nothing was written."""

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.filetree import Member, absolute, pack, unpack
from hc_ray.domain.ports import Changes, Difference, ExecResult
from hc_ray.domain.runner_paths import MACHINERY, RUNNER_ROOT, machinery_command
from hc_ray.domain.task import Task
from hc_ray.sandboxes.docker import shared as docker_shared
from hc_ray.sandboxes.docker.difference import difference
from hc_ray.sandboxes.docker.lifecycle import Lifecycle
from hc_ray.sandboxes.docker.lineage import Lineage, Ticket
from hc_ray.sandboxes.docker.place import FORK_LABEL, Ground
from hc_ray.sandboxes.docker.stream import converse
from hc_ray.sandboxes.docker.values import Absent, DaemonRefusal, ImageFacts, Unwritable
from hc_ray.sandboxes.docker.watchdog import check_disk, overuse
from hc_ray.sandboxes.inside import frames

MAX_LAYERS = 100
"""Layers of an image beyond which a fork is flattened; overlay2 ends at 128."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Docker's own, where the image names none."""


class DockerSandbox(Lifecycle):
    """One container. ``ports.Sandbox`` says what each method means; for shared grading, ``ports.HandsOver`` and
    ``ports.Gradable``."""

    @property
    def workdir(self) -> str:
        return self._workdir

    async def exec(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        output_limit: int = 1 << 20,
    ) -> ExecResult:
        machinery = tuple(command[:2]) == MACHINERY
        full = {**(await self._ground.call(self._variables, machinery=machinery)), **(env or {})}
        user = None if machinery else self._account
        facts = {
            "argv": list(command), "cwd": absolute(cwd or "", self.workdir), "env": full,
            "timeout": timeout, "limit": output_limit,
            # More rights than the command is to have, and no environment to pass on.
            "usual": self._task.grading == "shared",
            "account": user and [user.uid, user.gid, user.groups],
        }  # fmt: skip
        asked = frames.request(facts, stdin)
        return await self._ground.call(self._exec, asked, timeout, output_limit)

    def _exec(self, asked: bytes, timeout: float, limit: int) -> ExecResult:
        self._check_open()
        if self._dead is not None:
            return ExecResult(exit_code=None, stdout=b"", stderr=f"hc: the sandbox was killed: {self._dead}".encode())
        pristine = self._pristine
        try:
            self._start()
            self._pristine, started = False, time.monotonic()
            wire = self._start_inside("exec")
        except Unwritable as fault:
            self.kill("what was put there is in the way")
            return ExecResult(exit_code=None, stdout=b"", stderr=f"hc: {fault}".encode())
        except DaemonRefusal as refusal:
            self._check_daemon()
            if pristine:
                raise
            self.kill("it took no more commands")
            return ExecResult(exit_code=None, stdout=b"", stderr=f"hc: {refusal}".encode())
        said = converse(wire, asked, timeout=timeout, limit=limit, stopped=self._is_stopped)
        seconds = time.monotonic() - started
        if said.report is None:
            self._check_daemon()
            if pristine and not said.started:
                complaint = said.complaint.decode(errors="replace").strip()
                raise SandboxError(f"no command starts in a container of {self._image.id}: {complaint or 'no answer'}")
        facts = said.report or {}
        if said.report is None or facts.get("survivors"):
            self.kill("what ran in it could not be ended otherwise")
            self._check_daemon()
        check_disk(self._ground, self.container)
        code = facts.get("exit")
        streams = [bytes(stream) for stream in said.streams.values()]
        if self._dead is not None:
            streams[1] += f"hc: the sandbox was killed: {self._dead}\n".encode()
        return ExecResult(
            exit_code=code if isinstance(code, int) else None,
            stdout=streams[0],
            stderr=streams[1],
            timed_out=code is None and seconds >= timeout,
            truncated=bool(facts.get("truncated")),
            seconds=min(seconds, float(facts["seconds"])) if isinstance(facts.get("seconds"), float) else seconds,
        )

    def _start_inside(self, name: str) -> socket.socket:
        """Run a module of the runner's, for shared grading from where nothing in the sandbox can move it."""
        command, environment = machinery_command(name), None
        if self._task.grading == "shared":
            command, environment = docker_shared.sealed(command), docker_shared.UNREAD
        with self._pace:
            return self._daemon.exec_socket(self.container, command, environment=environment)

    def _variables(self, *, machinery: bool) -> dict[str, str]:
        """What a command is given over the container's own variables: its user's, unless the image sets them. The
        machinery runs as root, in the home of the user that the image names, and is told that name."""
        base = {"PATH": _PATH, "HOME": "/root"} if self._task.grading == "shared" else {}
        if not machinery:
            own = self._account.variables if self._account else {}
        else:
            named = self._ground.account(self._task, self._image, self._image.user)
            own = {"HOME": named.variables["HOME"], "HC_IMAGE_USER": self._image.user} if named else {}
        return {**base, **own, **self._image.environment}

    async def put(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        members = [Member(absolute(path, self.workdir), "file", mode, data=data) for path, data in files.items()]
        await self._ground.call(self._extract, members)

    def _extract(self, members: Iterable[Member]) -> None:
        self._check_open()
        members, self._pristine = list(members), False
        self._lineage.put(members)
        try:
            with self._refusable("the files cannot be written"), self.still():
                self._daemon.extract(self.container, pack(members, stamp=time.time()).tar)
        except Unwritable:
            self._lineage.ran()  # how much of it was written, the daemon knows
            raise

    async def put_tar(self, tar: bytes) -> None:
        await self._ground.call(self._put_tar, tar)

    def _put_tar(self, given: bytes) -> None:
        change = unpack(given)
        if change.deleted:
            self._remove(change.deleted)
        self._extract(one for one in change.members if not f"{one.path}/".startswith(f"{RUNNER_ROOT}/"))

    def _remove(self, paths: Sequence[str]) -> None:
        self._check_alive()
        self._start()
        self._pristine = False
        wire = self._start_inside("exec")
        request = frames.request({"remove": list(paths)})
        said = converse(wire, request, timeout=60.0, limit=0, stopped=self._is_stopped)
        if said.report is None:
            self._check_daemon()
        if said.report is None or said.report.get("failed"):
            raise Unwritable(f"paths cannot be removed: {(said.report or {}).get('failed') or 'no answer'}")

    async def get(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return await self._ground.call(self._read, absolute(path, self.workdir), limit)

    def _read(self, path: str, limit: int) -> bytes | None:
        with self._refusable("the file cannot be read"), self.still():
            return self._get(path, limit)

    def _get(self, path: str, limit: int, *, follow: bool = True) -> bytes | None:
        try:
            with self._daemon.archive(self.container, path) as tar:
                info = tar.next() if tar is not None else None
                if tar is None or info is None:
                    return None
                if content := tar.extractfile(info) if info.isfile() else None:
                    return content.read(limit)
            target = self._daemon.target(self.container, path) if info.issym() and follow else None
            return self._get(target, limit, follow=False) if target else None
        except Absent:
            raise
        except DaemonRefusal:  # a parent that is a file, a loop of links
            return None

    async def difference(self, *, limit: int = 64 << 20) -> Difference:
        return await self._ground.call(self._difference, limit)

    def _difference(self, limit: int) -> Difference:
        baseline = self._ground.baseline(self._task, self._image)
        with self._refusable("the changes cannot be read"), self.still():
            return difference(self._daemon, self.container, baseline, self._lineage, limit=limit)

    @contextmanager
    def _refusable(self, says: str) -> Iterator[None]:
        """What the daemon refuses it does by what a program left there, unless the container or the daemon is gone."""
        try:
            yield
        except Absent:
            raise
        except DaemonRefusal as refusal:
            self._check_daemon()
            raise Unwritable(f"{says}: {refusal}") from None

    async def fork(self, name: str) -> "DockerSandbox":
        return await self._ground.acquire(lambda: self._fork(name))

    def _fork(self, name: str) -> "DockerSandbox":
        self._check_open()
        if self._pristine:
            child = DockerSandbox(self._ground, self._task, self._image, name, network=self._network)
            child.begin(self._image.id)
            return child
        labels = {FORK_LABEL: "1", **self._ground.labels()}
        with self._refusable("what lies there cannot be copied"), self.still():
            if fault := overuse(self._ground, self.container, self):
                raise Unwritable(f"it cannot be copied: {fault}")
            if self._layers >= MAX_LAYERS:
                image, layers = self._daemon.flatten(self.container, labels), 1
            else:
                image, layers = self._daemon.commit(self.container, labels), self._layers + 1
        child = DockerSandbox(
            self._ground, self._task, self._image, name, network=self._network, fork_image=image, layers=layers,
            parent=self._lineage,
        )  # fmt: skip
        try:
            child.begin(image)
        except BaseException:
            child._lineage.end()
            self._daemon.remove_image(image)
            raise
        return child

    # Shared grading: given away as it lives, taken over on the same daemon, graded in from out of the candidate's reach

    async def hand_over(self) -> str:
        return await self._ground.call(self._hand_over)

    def _hand_over(self) -> str:
        touched = self._lineage.inherited()
        with self._lock:
            self._check_alive()
            self._closed = True
        ticket = Ticket(
            container=self.container, fork_image=self._fork_image, touched=touched, began=self._lineage.began
        )
        self._lineage.end()
        self._ground.leave(self.container)  # which goes on holding it, and has nothing to reach it by
        return ticket.model_dump_json()

    @classmethod
    def taken_over(cls, ground: Ground, task: Task, image: ImageFacts, ticket: Ticket) -> "DockerSandbox":
        """A container that another place on this daemon has given away, as it lives."""
        found = cls(ground, task, image, ticket.container[:12], network=False, fork_image=ticket.fork_image)
        found.container, found._pristine, found._pulse = ticket.container, False, ground.pulse()
        found._started = True
        named = found._lineage.named
        found._lineage = Lineage.of(ground.daemon, ticket.container, ticket.touched, ticket.began, named)
        ended = ground.daemon.ended(ticket.container)
        if ended == 0:  # as it does when its owner is gone
            raise SandboxError("the process that handed a sandbox over died, and the sandbox with it")
        if ended is not None:
            ground.daemon.remove(ticket.container)
            raise Unwritable("the sandbox was ended by what ran in it")
        found.first = ground.daemon.process(ticket.container)
        ground.enter(ticket.container, found)
        return found

    @property
    def began(self) -> int:
        return self._lineage.began

    async def changes(self, among: Callable[[str], bool]) -> Changes:
        return await self._ground.call(self._changes, among)

    def _changes(self, among: Callable[[str], bool]) -> Changes:
        self._check_alive()
        baseline = self._ground.baseline(self._task, self._image)
        with self._refusable("the changes cannot be read"), self.still():
            return docker_shared.changes(self._daemon, self.container, baseline, self._lineage.touched(), among)

    async def environment(self) -> Mapping[str, str]:
        return await self._ground.call(self._variables, machinery=True)

    async def sealed(self, order: bytes, *, timeout: float, limit: int) -> bytes:
        return await self._ground.call(self._sealed, order, timeout, limit)

    def _sealed(self, order: bytes, timeout: float, limit: int) -> bytes:
        self._check_alive()
        try:
            wire = self._start_inside("shared")
        except DaemonRefusal:  # what lives here has ended it, or left no room for a process
            self._check_daemon()
            self.kill("it took no more commands")
            return b""
        said = docker_shared.listen(wire, order + b"\n", timeout=timeout, limit=limit, stopped=self._is_stopped)
        if not said:
            # It is stopped, or was killed by what lives here: nothing of it may go on.
            self._check_daemon()
            self.kill("its grading left no answer")
        return said
