"""The half of a Docker sandbox that shared grading needs: it is given away as it lives, taken over by the verifier's
place on the same daemon, and graded in from out of the candidate's reach."""

import socket
from collections.abc import Callable, Mapping

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.ports import Changes
from hc_ray.domain.runner_paths import machinery_command
from hc_ray.domain.value import Value
from hc_ray.sandboxes.docker import shared as docker_shared
from hc_ray.sandboxes.docker.difference import Touch
from hc_ray.sandboxes.docker.lifecycle import Lifecycle
from hc_ray.sandboxes.docker.shared import UNREAD
from hc_ray.sandboxes.docker.values import DaemonRefusal, Unwritable

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Docker's own, where the image names none."""
_KEPT_ALIVE = 1 << 62
"""Bytes that a sandbox may write before the giver's watchdog ends it: that is the verifier's to judge now."""


class Ticket(Value):
    """What a verifier's place needs to take a container over."""

    container: str
    place: str
    fork_image: str | None
    touched: dict[str, Touch]
    """What was touched before the container's own image was committed."""


class Lifeline:
    """What stays with the giver: the wire whose end would end the container, and nothing to reach it by."""

    storage_bytes = _KEPT_ALIVE
    alive = True

    def __init__(self, wire: socket.socket | None) -> None:
        self._wire = wire

    def kill(self, reason: str) -> None:
        """It is another's to end."""

    def renew(self) -> None:
        if self._wire is not None:
            try:
                self._wire.send(b".", socket.MSG_DONTWAIT)
            except OSError:  # it was closed by who took it over
                self.close_now()

    def close_now(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()


class Living(Lifecycle):
    """Half of ``DockerSandbox``; ``ports.HandsOver`` and ``ports.Gradable`` say what each method means."""

    def _start_inside(self, name: str) -> socket.socket:
        """Run a module of the runner's, for shared grading from where nothing in the sandbox can move it."""
        command = machinery_command(name)
        if self._task.grading != "shared":
            return self._daemon.exec_socket(self.container, command)
        return self._daemon.exec_socket(self.container, docker_shared.sealed(command), environment=UNREAD)

    async def hand_over(self) -> str:
        return await self._ground.call(self._hand_over)

    def _hand_over(self) -> str:
        with self._lock:
            if self._closed:
                raise SandboxError("a sandbox that was closed cannot be given away")
            if self._dead:
                self._check_daemon()
                raise Unwritable(f"a sandbox that was ended cannot be given away: {self._dead}")
            self._closed = True
        facts = {"container": self.container, "place": self._ground.id, "fork_image": self._fork_image}
        ticket = Ticket(**facts, touched=self._lineage.inherited())
        self._lineage.end()
        wire, self._owner_wire = self._owner_wire, None
        self._ground.enter(self.container, Lifeline(wire))
        return ticket.model_dump_json()

    async def changes(self, among: Callable[[str], bool]) -> Changes:
        return await self._ground.call(self._changes, among)

    def _changes(self, among: Callable[[str], bool]) -> Changes:
        self._must_live()
        baseline = self._ground.baseline(self._task, self._image)
        try:
            return docker_shared.changes(self._daemon, self.container, baseline, self._lineage.touched(), among)
        except DaemonRefusal as refusal:
            raise ValueError(f"the changes cannot be read: {refusal}") from None

    async def environment(self) -> Mapping[str, str]:
        return await self._ground.call(self._variables, machinery=True)

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

    async def sealed(self, order: bytes, *, timeout: float, limit: int) -> tuple[bytes, bytes]:
        return await self._ground.call(self._sealed, order, timeout, limit)

    def _sealed(self, order: bytes, timeout: float, limit: int) -> tuple[bytes, bytes]:
        self._must_live()
        try:
            wire = self._start_inside("shared")
        except DaemonRefusal as refusal:  # what lives here has ended it, or left no room for a process
            self._check_daemon()
            self.kill("it took no more commands")
            return b"", str(refusal).encode()
        said = docker_shared.listen(wire, order + b"\n", timeout=timeout, limit=limit)
        if not said[0]:
            # It is stopped, or was killed by what lives here: nothing of it may go on.
            self._check_daemon()
            self.kill("its grading left no answer")
        return said

    def _must_live(self) -> None:
        if self._closed:
            raise SandboxError("the sandbox is closed")
        if self._dead:
            self._check_daemon()
            raise Unwritable(f"the sandbox was ended: {self._dead}")
