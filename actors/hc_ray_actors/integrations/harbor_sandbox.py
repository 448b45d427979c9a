"""Sandboxes inside the single environment of a Harbor trial, which cannot be forked: they take turns in it
(``inside/turns.py``). One lineage works at a time, and the verifier finds the state of the last turn."""

import asyncio
import base64
import contextlib
import json
import re
import shlex
import tempfile
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hc_ray.agent.terminal import PLACE
from hc_ray.domain.errors import SandboxError
from hc_ray.domain.filetree import OUTSIDE, Member, absolute, is_outside, pack, unpack
from hc_ray.domain.fork_steps import ForkStep
from hc_ray.domain.ports import Difference, ExecResult
from hc_ray.domain.runner_paths import RUNNER_ROOT, inside_command
from hc_ray.domain.task import Task
from hc_ray.selftests.runner import BEFORE, HOME

T = TypeVar("T")

ROOM = f"{RUNNER_ROOT}/turns"
"""Folder of the states that wait for their turn."""
NOT_OURS = ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/.dockerenv")
"""Paths that the environment's provider writes, besides ``filetree.OUTSIDE``."""
_ARGUMENT = 90_000
"""The most characters of an order on the command line, which is limited to 128 KiB."""
_GRACE, _MACHINERY = 30.0, 600.0
"""Seconds beyond a command's own limit before Harbor ends it, and the limit of other orders."""


class HarborPlace:
    """``ports.MakesSandboxes`` in a Harbor environment, through its methods ``exec``, ``upload_dir``, ``upload_file``
    and ``download_file``."""

    def __init__(self, environment: Any, workdir: str) -> None:
        self._environment, self.workdir = environment, workdir
        self.lock, self._switching = asyncio.Lock(), asyncio.Lock()
        self._states = self._marks = 0
        self.present: HarborSandbox | None = None
        self._ended: list[str] = []
        self.lineage: HarborSandbox | None = None
        """The sandbox that had the last turn."""
        self.handed: HarborSandbox | None = None

    @classmethod
    async def opened(cls, environment: Any, runner: Path) -> "HarborPlace":
        """Upload the runner, and record the environment's state before any work. Raises ``SandboxError``."""
        where = await environment.exec("pwd")
        await environment.upload_dir(runner, RUNNER_ROOT)
        made = await environment.exec(f"mkdir -p {ROOM} && chmod -R go=rX {RUNNER_ROOT}", cwd="/", user="root")
        if where.return_code or made.return_code:
            raise SandboxError(f"{RUNNER_ROOT} cannot be used in this environment: {made.stdout} {made.stderr}")
        place = cls(environment, where.stdout.strip())
        await place.order("begin", outside=[*OUTSIDE, *NOT_OURS], workdir=place.workdir)
        return place

    async def create(self, task: Task, name: str, *, network: bool = False) -> "HarborSandbox":
        return HarborSandbox(self)

    async def leave(self, *, handed_in: bool) -> None:
        """Restore the state to grade (the submission, or else what the last lineage left, or the untouched
        environment), and remove all our files."""
        kept = self.handed if handed_in else self.lineage
        self._ended += [one.mark for one in (self.lineage, self.handed) if one is not None and one is not kept]
        await self.enter(kept or HarborSandbox(self))
        own = f"rm -rf {RUNNER_ROOT} {HOME} {BEFORE} {PLACE}"
        await self._environment.exec(own, cwd="/", user="root")

    def new_mark(self) -> str:
        self._marks += 1
        return str(self._marks)

    def end(self, sandbox: "HarborSandbox") -> None:
        """Let its processes end at the next turn, unless its state may be graded."""
        if sandbox.ran and sandbox not in (self.lineage, self.handed):
            self._ended.append(sandbox.mark)

    async def enter(self, sandbox: "HarborSandbox") -> None:
        """Give a sandbox the turn, unless it has it. A change of turns, once begun, is completed."""
        await asyncio.shield(self._enter(sandbox))

    async def _enter(self, sandbox: "HarborSandbox") -> None:
        async with self._switching:
            if self._ended:
                await self.order("end", marks=self._ended)
                self._ended = []
            before, save = self.present, None
            if before is sandbox:
                return
            if before is not None and before.keeps:
                self._states += 1
                save = f"state-{self._states}.tar"
            given = sandbox.state if isinstance(sandbox.state, bytes) else b""
            load = "given" if given else sandbox.state
            await self.order("turn", given, save=save, load=load, scratch=[HOME, BEFORE])
            if before is not None and save is not None:
                before.state = save
            self.present = sandbox

    async def order(
        self, do: str, data: bytes = b"", *, user: str | None = "root", seconds: float = _MACHINERY, **told: Any
    ) -> tuple[dict[str, Any], bytes]:
        """Send an order to ``turns.py``; returns its answer and data. Raises ``ValueError`` if the files do not allow
        it, ``SandboxError`` if the environment fails."""
        line = json.dumps({"do": do, "room": ROOM, **told}).encode()
        text = base64.b64encode(zlib.compress(line + b"\n" + data)).decode()
        try:
            if len(text) > _ARGUMENT:
                text = await self._uploaded(text)
            command = f"{shlex.join(inside_command('turns'))} {text}"
            done = await self._environment.exec(command, cwd="/", timeout_sec=int(seconds + _GRACE), user=user)
            found = re.search(r"<hc:(.*?):hc>", done.stdout or "", re.DOTALL)
            if found is None:
                raise SandboxError(f"no answer from the environment: {done.stdout or ''} {done.stderr or ''}"[:500])
            packed = found[1]
            if packed.startswith("@"):
                packed = await self._downloaded(packed[1:])
        except RuntimeError as fault:
            raise SandboxError(f"the environment failed: {fault}") from fault
        answer, _, brought = zlib.decompress(base64.b64decode(packed)).partition(b"\n")
        facts: dict[str, Any] = json.loads(answer)
        if "fault" in facts:
            raise ValueError(facts["fault"])
        return facts, brought

    async def _uploaded(self, text: str) -> str:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            Path(file.name).chmod(0o644)
            await self._environment.upload_file(file.name, f"{ROOM}/order")
        return f"@{ROOM}/order"

    async def _downloaded(self, path: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            await self._environment.download_file(path, Path(folder, "answer"))
            await self._environment.exec(f"rm -f {path}", cwd="/", user="root")
            return Path(folder, "answer").read_text()


class HarborSandbox:
    """A ``ports.Sandbox`` that shares the environment with others. A fork starts with its parent's state."""

    def __init__(self, place: HarborPlace, state: "str | bytes | None" = None, *, keeps: bool = False) -> None:
        """``state``: its state while others have the turn: a name in ``ROOM``, or a difference that has not been
        uploaded yet; None is the untouched environment. ``keeps``: whether changes in it are kept."""
        self.place, self.state, self.keeps = place, state, keeps
        self.mark = place.new_mark()
        self.workdir = place.workdir
        self.ran = self._holds_lock = False

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        async with contextlib.nullcontext() if self._holds_lock else self.place.lock:
            await self.place.enter(self)
            yield

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
        where = absolute(cwd or "", self.workdir)
        async with self._turn():
            self.ran = True
            self.place.lineage = self if self.keeps else self.place.lineage
            told, out = await self.place.order(
                "execute", stdin, user=None, seconds=timeout, argv=list(command), cwd=where, env=dict(env or {}),
                timeout=timeout, limit=output_limit, mark=self.mark,
            )  # fmt: skip
        split = told["stdout"]
        return ExecResult(exit_code=told["exit"], stdout=out[:split], stderr=out[split:], truncated=told["cut"],
                          timed_out=told["exit"] is None, seconds=told["seconds"])  # fmt: skip

    async def put(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        members = [Member(absolute(path, self.workdir), "file", mode, data=data) for path, data in files.items()]
        async with self._turn():
            await self.place.order("put", pack(members).tar)

    async def put_tar(self, tar: bytes) -> None:
        change = unpack(tar)
        kept = pack([one for one in change.members if not is_outside(one.path)], change.deleted)
        if self.state is None and self.place.present is not self:
            self.state = kept.tar  # uploaded with its turn
            return
        async with self._turn():
            await self.place.order("put", kept.tar)

    async def get(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        async with self._turn():
            told, data = await self.place.order("get", path=absolute(path, self.workdir), limit=limit)
        return None if told.get("absent") else data

    async def difference(self, *, limit: int = 64 << 20) -> Difference:
        async with self._turn():
            _, tar = await self.place.order("difference", limit=limit)
        change = unpack(tar)
        return pack(change.members, change.deleted)

    async def fork(self, name: str) -> "HarborSandbox":
        state = (await self.difference()).tar if self.keeps else self.state
        return HarborSandbox(self.place, state, keeps=True)

    async def in_fork(self, name: str, before: Sequence[ForkStep[Any]], last: ForkStep[T]) -> T:
        """Like ``fork_steps.in_fork``, without anybody else's turn in between."""
        async with self.place.lock:
            fork = HarborSandbox(self.place, self.state)
            fork._holds_lock = True
            try:
                for step in before:
                    await step.on(fork)
                return await last.on(fork)
            finally:
                await fork.close()

    async def hand_over(self) -> str:
        """Mark its state as the one to grade, which nothing ends."""
        self.place.handed = self
        async with self._turn():
            return self.mark

    async def close(self) -> None:
        self.place.end(self)
