"""A trial's sandboxes: one of the untouched environment, and a fork of it for every state to try."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeVar

from hc_ray.domain.errors import DatasetError, InfrastructureError
from hc_ray.domain.fork_steps import ForkStep, PutTar, TakeDifference, in_fork, texts_put
from hc_ray.domain.ports import Difference, HandsOver, MakesSandboxes, Sandbox
from hc_ray.domain.task import Task
from hc_ray.domain.trial import sandbox_name
from hc_ray.domain.value import digest_of

T = TypeVar("T")

AT_ONCE = 8
"""The most forks of one trial at a time; the place enforces the node's own limit."""


class SandboxForks:
    """Owns the base sandbox of one trial, and closes everything that it opened."""

    def __init__(self, place: MakesSandboxes, task: Task, identity: str) -> None:
        """``identity``: a digest that identifies this trial, part of its sandboxes' names."""
        self._place, self._task, self._identity = place, task, identity
        self._open: list[Sandbox] = []
        self._base: Sandbox | None = None
        self._whole: dict[str, bytes] = {}
        self._living: dict[str, Sandbox] = {}
        self._making = asyncio.Lock()
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def base(self) -> Sandbox:
        """The untouched environment, created on first use."""
        async with self._making:
            if self._base is None:
                mentions = self._task.environment.network in ("public", "allowlist")
                self._base = await self._place.create(self._task, self._name("base"), network=mentions)
                self._open.append(self._base)
            return self._base

    async def read(self, path: str, *, limit: int) -> str | None:
        """The text of a file of the untouched environment; None if it is missing or not text."""
        data = await (await self.base()).get(path, limit=limit)
        if data is None or b"\0" in data:
            return None
        return data.decode("utf-8", "replace")

    @contextlib.asynccontextmanager
    async def fork(self, place: str, files: Mapping[str, str]) -> AsyncIterator[Sandbox]:
        """A fork with ``files``, closed afterwards; ``place`` (a candidate's id) names it. Raises ``ValueError`` for
        files that cannot be written."""
        async with self._slots:
            fork = await self.open("fork", place)
            try:  # also when cancelled: a trial must not wait for its verdict with a live fork
                for step in self.written(files):
                    await step.on(fork)
                yield fork
            finally:
                await self.end(fork)  # no effect on a fork that was handed over

    async def open(self, *name: str) -> Sandbox:
        """A fork that lives until ``end``, or until the trial is closed."""
        fork = await (await self.base()).fork(self._name(*name))
        self._open.append(fork)
        return fork

    async def in_fork(self, place: str, steps: Sequence[ForkStep[Any]], last: ForkStep[T]) -> T:
        """The result of ``last`` in a fork after ``steps``; ``place`` as in ``fork``."""
        async with self._slots:
            return await in_fork(await self.base(), self._name("fork", place), steps, last)

    async def hand_in(self, place: str, files: Mapping[str, str]) -> tuple[Difference, str | None]:
        """The difference of a fork with ``files`` to the task's image. With shared grading also the ticket of the live
        fork, which then belongs to the verifier."""
        living = self._living.pop(digest_of(dict(files)), None)
        try:
            if living is None and self._task.grading != "shared":
                return await self.in_fork(place, self.written(files), TakeDifference()), None
            async with contextlib.nullcontext(living) if living else self.fork(place, files) as fork:
                difference = await fork.difference()
                if not isinstance(fork, HandsOver):
                    raise DatasetError("shared grading needs sandboxes that can be handed over: use --sandbox docker")
                return difference, await fork.hand_over()
        except ValueError:
            if not files:
                raise
            # Its own sandbox was ended, so another one gets its files. Or these cannot be written or are too large for
            # a submission: then it submits nothing, and fails.
            return await self.hand_in(place, files if living else {})

    def _name(self, *place: str) -> str:
        return sandbox_name(self._task.digest, self._identity, *place)

    def remember(self, files: Mapping[str, str], tar: bytes) -> None:
        """Remember the whole difference of a candidate that is more than text (built programs, removed paths, owners):
        from now on, writing its ``files`` (``Candidate.files``) applies the difference."""
        self._whole.setdefault(digest_of(dict(files)), tar)

    @property
    def differences(self) -> Mapping[str, bytes]:
        """Digest of a candidate's files → its whole difference, if known."""
        return self._whole

    def written(self, files: Mapping[str, str]) -> list[ForkStep[None]]:
        """Steps that write a candidate into a sandbox."""
        if (whole := self._whole.get(digest_of(dict(files)))) is not None:
            return [PutTar(tar=whole)]
        return [*texts_put(files)]

    async def end(self, sandbox: Sandbox) -> None:
        """Close a fork now."""
        await sandbox.close()
        if sandbox in self._open:
            self._open.remove(sandbox)

    def lives_in(self, files: Mapping[str, str], sandbox: Sandbox) -> None:
        """Note that a candidate's own sandbox is still as submitted, for shared grading."""
        self._living[digest_of(dict(files))] = sandbox

    async def close(self) -> None:
        """Close every opened sandbox. Idempotent. Ignores sandboxes whose daemon or process is gone, which others clean
        up: the trial's outcome does not depend on it."""
        while self._open:
            with contextlib.suppress(InfrastructureError):
                await self._open.pop().close()
