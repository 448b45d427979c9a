"""The ports of a trial, as Protocols. Adapters are in the walls (``sandboxes``, ``engines``, ``stores``); the contract
suites in ``tests/contract`` check every adapter against these docstrings."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from hc_ray.domain.candidate import Submission
from hc_ray.domain.events import Event
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.domain.task import Task
from hc_ray.domain.value import Value


class Capabilities(Value):
    """An engine's capabilities, as probed at its start and recorded."""

    seed: bool = False
    completion: bool = True
    chat: bool = True
    tools: bool = False
    """Whether it answers with native tool calls."""
    context: int | None = None
    """Context in tokens, as probed or reported; None if unknown."""
    models: tuple[str, ...] = ()
    """The models that it lists."""
    sampling: dict[str, int | float] | None = None
    """Sampling parameters to send besides the temperature, in names and values that it accepts; None if not probed."""
    refused: tuple[str, ...] = ()
    """Request fields that it refuses, which are not sent: sampling parameters, for which it uses its own values, and
    ``response_format`` (a prompt's schema)."""


class Model(Protocol):
    """One role's access to an inference server. Safe for concurrent use."""

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt. Raises ``EngineError`` if the server fails, after retries."""
        ...

    async def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` by the engine's tokenizer, or an upper estimate if the server does not offer it."""
        ...


class ExecResult(Value):
    """The result of a command. Everything that the command itself can cause is data; only infrastructure failures
    raise."""

    exit_code: int | None
    """None if it was killed at its deadline or with its sandbox."""
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    truncated: bool = False
    """Whether a stream was cut at the limit."""
    seconds: float = 0.0


class Difference(Value):
    """Changes to a sandbox's file system since its image: changed paths as a tar, removed ones by name. Leaves out
    /proc /sys /dev /tmp /run /logs /tests /.hc, caches of package managers, and hc-ray's own files."""

    changed: tuple[str, ...]
    """Absolute paths, sorted."""
    deleted: tuple[str, ...]
    tar: bytes
    """As ``candidate.Submission.tar``."""


class Changes(Value):
    """Paths that differ from the image; absolute, sorted."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Kind, mode, size or content differs. A folder does not change with its content."""
    deleted: tuple[str, ...] = ()


class Sandbox(Protocol):
    """An isolated environment with its own file system. Processes live until ``close``."""

    @property
    def workdir(self) -> str:
        """Absolute path of the task's working directory inside."""
        ...

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
        """Run a command (argv, no shell) in ``cwd`` (default: workdir). After ``timeout`` seconds its whole session is
        killed; if anything survives, the sandbox is killed, but its files stay readable. The same may happen if the
        caller is cancelled. Each stream is cut after ``output_limit`` bytes."""
        ...

    async def put(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        """Write files (absolute paths, or relative to the workdir), creating folders as needed. Raises ``ValueError``
        for a path that cannot be written (read-only, or something else is in the way)."""
        ...

    async def put_tar(self, tar: bytes) -> None:
        """Apply a difference (``Difference.tar``) at the root: remove the paths that it lists, write its members.
        Raises ``ValueError`` for devices and for members that would leave the root."""
        ...

    async def get(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        """The first ``limit`` bytes of a regular file; None if there is no regular file at ``path``."""
        ...

    async def difference(self, *, limit: int = 64 << 20) -> Difference:
        """The changes since the image. Raises ``ValueError`` if they exceed ``limit`` bytes, including holes of sparse
        files."""
        ...

    async def fork(self, name: str) -> "Sandbox":
        """A new sandbox with a copy of this one's files, without its processes."""
        ...

    async def close(self) -> None:
        """Kill all processes and remove all traces. Idempotent."""
        ...


class MakesSandboxes(Protocol):
    """A factory of sandboxes."""

    async def create(self, task: Task, name: str, *, network: bool = False) -> Sandbox:
        """Create a sandbox of the task's environment. ``name`` derives only from public digests. Raises
        ``SandboxError`` if that fails, ``DatasetError`` for a task that this backend cannot take."""
        ...


class SandboxPlace(MakesSandboxes, Protocol):
    """A backend of sandboxes on one node."""

    async def prepare(self, task: Task) -> None:
        """Pull or build the task's image, so that ``create`` need not. Raises as ``create`` does."""
        ...

    def refuses(self, task: Task) -> str | None:
        """Why this backend cannot take the task (one line); None if it can."""
        ...

    def limits(self) -> Mapping[str, str]:
        """Limit → its enforcement here (``memory: cgroup``, ``disk: watchdog`` …), for results and doctor."""
        ...

    async def close(self) -> None:
        """Close every sandbox made here."""
        ...


@runtime_checkable
class HandsOver(Protocol):
    """A sandbox that can be handed to a verifier live, with its processes (shared grading)."""

    async def hand_over(self) -> str:
        """Hand it over: from now on nothing here can enter, list or end it, and ``close`` does nothing. Returns a
        ticket for ``Adopts.adopt`` on the same node. Its processes live as long as the giver's place. Raises
        ``ValueError`` if its own processes have ended it."""
        ...


class Gradable(Sandbox, Protocol):
    """A sandbox in which a live submission can be graded."""

    @property
    def began(self) -> int:
        """A time (ns) before any change to the task's image in this sandbox."""
        ...

    async def changes(self, among: Callable[[str], bool]) -> Changes:
        """Differences to the task's image among the paths for which ``among`` holds, ignoring files with unchanged size
        and time. Raises ``ValueError`` if there are more than any honest submission has."""
        ...

    async def environment(self) -> Mapping[str, str]:
        """The environment variables that the image sets."""
        ...

    async def sealed(self, order: bytes, *, timeout: float, limit: int) -> bytes:
        """Run ``inside/grading/shared.py`` out of reach of the sandbox's processes, with ``order`` (one line) on stdin;
        returns at most ``limit`` bytes of its stdout. After ``timeout`` it is killed together with the sandbox."""
        ...


@runtime_checkable
class Adopts(Protocol):
    """A place where live submissions can be graded."""

    async def create(self, task: Task, name: str, *, network: bool = False) -> Gradable: ...

    async def adopt(self, task: Task, ticket: str) -> Gradable:
        """Take over a ticket's sandbox. Raises ``SandboxError`` if it is gone, ``ValueError`` for an invalid ticket or
        if the sandbox's own processes have ended it."""
        ...


Judge = Callable[[Submission], Awaitable[bool]]
"""The only way out of a trial: a submission goes in, one bit (``passed``) comes back. Raises ``VerifierError`` if a
failure outside the sandbox prevents a verdict."""


class Store(Protocol):
    """Bytes by relative path on any file system; writes are atomic."""

    def write(self, path: str, data: bytes) -> None: ...

    def read(self, path: str) -> bytes:
        """Read a file. Raises ``FileNotFoundError``."""
        ...

    def exists(self, path: str) -> bool: ...

    def rows(self, path: str) -> list[dict[str, Any]]:
        """Read a table's rows. Raises ``FileNotFoundError``, and ``ValueError`` for an invalid table."""
        ...

    def list(self, prefix: str) -> list[str]:
        """Relative paths of all files below a folder, sorted."""
        ...

    def holding(self, name: str) -> set[str]:
        """Names of the trials whose folder contains a file ``name``, without listing the others."""
        ...


class Events(Protocol):
    """The single stream of events."""

    def emit(self, event: Event) -> None: ...
