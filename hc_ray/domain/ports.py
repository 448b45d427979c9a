"""What a trial needs of the world, as Protocols. Adapters stand in the walls (``sandboxes``, ``engines``, ``stores``);
the contract suites in ``tests/contract`` hold every adapter to these words."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from hc_ray.domain.candidate import Submission
from hc_ray.domain.events import Event
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.domain.task import Task
from hc_ray.domain.value import Value


class Capabilities(Value):
    """What an engine was seen to do, probed at start and recorded."""

    seed: bool = False
    completion: bool = True
    chat: bool = True
    tools: bool = False
    """It answers with native tool calls."""
    context: int | None = None
    """Tokens of context that it was seen, or says, to have; None: not known."""
    models: tuple[str, ...] = ()
    """The names that it lists."""
    sampling: dict[str, int | float] | None = None
    """What is sent beside the temperature, in the names and values that it accepts; None: it was not asked."""
    refused: tuple[str, ...] = ()
    """Fields of a request that it refuses and is not sent: sampling parameters, for which it has values of its own, and
    ``response_format`` (a prompt's schema)."""


class Model(Protocol):
    """One role's way to an inference server. Safe for concurrent use."""

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt. Raises ``EngineError`` when the server fails (after its own retries)."""
        ...

    async def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` by the engine's tokenizer (an upper estimate where the server offers none)."""
        ...


class ExecResult(Value):
    """How a command ended. Everything the command itself can cause is data; only machinery raises."""

    exit_code: int | None
    """None when it was killed at its deadline or with its sandbox."""
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    truncated: bool = False
    """A stream was cut at the limit."""
    seconds: float = 0.0


class Difference(Value):
    """What changed in a sandbox's whole file system since its image: changed paths as a tar, removed ones by name.
    /proc /sys /dev /tmp /run /logs /tests, /.hc, caches of package managers and what hc-ray put there are left
    out."""

    changed: tuple[str, ...]
    """Absolute paths, sorted."""
    deleted: tuple[str, ...]
    tar: bytes
    """As ``candidate.Submission.tar``."""


class Changes(Value):
    """Which paths lie elsewise than in the image; absolute, sorted."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Kind, mode, size or content differ. A folder's content is no matter of the folder."""
    deleted: tuple[str, ...] = ()


class Sandbox(Protocol):
    """An isolated machine with a file system of its own. Processes live until ``close``."""

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
        """Run a command (argv, no shell) in ``cwd`` (default: workdir). Past ``timeout`` seconds its whole session is
        killed; if anything of it survives, the sandbox is killed and its files stay readable; so it may be where the
        caller gives up. Each stream is cut after ``output_limit`` bytes."""
        ...

    async def put(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        """Write files (absolute path, or relative to the workdir), making folders as needed. Raises ``ValueError`` for
        a path that cannot be written there (read-only, or something else in the way)."""
        ...

    async def put_tar(self, tar: bytes) -> None:
        """Unpack a difference (as ``Difference.tar``) at the root: write its members, remove what it lists as removed.
        Members that would leave the root, or are devices, are refused with ``ValueError``."""
        ...

    async def get(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        """The bytes of one regular file, at most ``limit``; None if there is no regular file at ``path``."""
        ...

    async def difference(self, *, limit: int = 64 << 20) -> Difference:
        """What changed since the image. Raises ``ValueError`` when the changes hold more than ``limit`` bytes (holes of
        sparse files counted)."""
        ...

    async def fork(self, name: str) -> "Sandbox":
        """A new sandbox with a copy of this one's files (never its processes)."""
        ...

    async def close(self) -> None:
        """Kill every process, remove every trace. Idempotent."""
        ...


class MakesSandboxes(Protocol):
    """Where sandboxes come from."""

    async def create(self, task: Task, name: str, *, network: bool = False) -> Sandbox:
        """A sandbox of the task's environment. ``name`` derives from public digests only. Raises ``SandboxError`` for
        machinery, ``DatasetError`` for a task that this backend cannot take."""
        ...


class SandboxPlace(MakesSandboxes, Protocol):
    """A backend of sandboxes on one node."""

    async def prepare(self, task: Task) -> None:
        """Do beforehand what ``create`` would have to wait for: pull or build the task's image. Raises as ``create``
        does."""
        ...

    def refuses(self, task: Task) -> str | None:
        """Why this backend cannot take the task (one line); None if it can."""
        ...

    def limits(self) -> Mapping[str, str]:
        """Which limits hold here and by what (``memory: cgroup``, ``disk: watchdog`` …), for results and doctor."""
        ...

    async def close(self) -> None:
        """Close every sandbox made here."""
        ...


@runtime_checkable
class HandsOver(Protocol):
    """A sandbox that can be given to a verifier as it lives, processes and all (shared grading)."""

    async def hand_over(self) -> str:
        """Give it away: from now on nothing here can enter, list or end it, and closing it does nothing. The ticket is
        for ``Adopts.adopt`` on the same node. Processes live as long as the giver's place does. Raises ``ValueError``
        for one that what runs in it has ended."""
        ...


class Gradable(Sandbox, Protocol):
    """A sandbox in which a submission can be graded where it lives."""

    @property
    def began(self) -> int:
        """A time (ns) before which nothing in the sandbox was changed since it was the task's image."""
        ...

    async def changes(self, among: Callable[[str], bool]) -> Changes:
        """What differs from the task's image, of the paths for which ``among`` holds, but for files whose size and the
        time that they bear are as before. Raises ``ValueError`` where that is more than any honest change."""
        ...

    async def environment(self) -> Mapping[str, str]:
        """The environment variables that the image gives to whatever runs in it."""
        ...

    async def sealed(self, order: bytes, *, timeout: float, limit: int) -> bytes:
        """Run ``inside/grading/shared.py`` out of the reach of all that lives in the sandbox, with ``order`` (one line)
        as its input: what it wrote to standard output, at most ``limit`` bytes. What runs past ``timeout`` ends with
        the sandbox."""
        ...


@runtime_checkable
class Adopts(Protocol):
    """A place where submissions can be graded as they live."""

    async def create(self, task: Task, name: str, *, network: bool = False) -> Gradable: ...

    async def adopt(self, task: Task, ticket: str) -> Gradable:
        """The sandbox of a ticket, now this place's to enter and to close. Raises ``SandboxError`` when it is gone,
        ``ValueError`` for what is no ticket, and for a sandbox that what runs in it has ended."""
        ...


Judge = Callable[[Submission], Awaitable[bool]]
"""The one way out of a trial: hand in a submission, get one bit, ``passed``. Raises ``VerifierError`` when no verdict
could be had for reasons outside the sandbox."""


class Store(Protocol):
    """Bytes by relative path on any filesystem; a write is whole or absent."""

    def write(self, path: str, data: bytes) -> None: ...

    def read(self, path: str) -> bytes:
        """Raises ``FileNotFoundError`` where nothing was written."""
        ...

    def exists(self, path: str) -> bool: ...

    def rows(self, path: str) -> list[dict[str, Any]]:
        """Of a table, as ``read``. Raises ``ValueError`` for what is none."""
        ...

    def list(self, prefix: str) -> list[str]:
        """Relative paths of all files below a folder, sorted."""
        ...

    def holding(self, name: str) -> set[str]:
        """Names of the trials whose folder holds a file ``name``: without listing all others."""
        ...


class Events(Protocol):
    """The one stream of what happens."""

    def emit(self, event: Event) -> None: ...
