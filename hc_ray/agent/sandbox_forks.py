"""A trial's sandboxes: one of the untouched environment, and a fork of it for every state that is tried."""

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
"""Forks that one trial holds at once; the node's own limit is the place's matter."""


class SandboxForks:
    """Holds the base sandbox of one trial and closes all it opened."""

    def __init__(self, place: MakesSandboxes, task: Task, identity: str) -> None:
        """``identity``: digest of what tells this trial from others, part of its sandboxes' names."""
        self._place, self._task, self._identity = place, task, identity
        self._open: list[Sandbox] = []
        self._base: Sandbox | None = None
        self._whole: dict[str, bytes] = {}
        self._living: dict[str, Sandbox] = {}
        self._making = asyncio.Lock()
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def base(self) -> Sandbox:
        """The untouched environment; made when it is first asked for."""
        async with self._making:
            if self._base is None:
                mentions = self._task.environment.network in ("public", "allowlist")
                self._base = await self._place.create(self._task, self._name("base"), network=mentions)
                self._open.append(self._base)
            return self._base

    async def read(self, path: str, *, limit: int) -> str | None:
        """The text of a file of the untouched environment; None if it is no text or not there."""
        data = await (await self.base()).get(path, limit=limit)
        if data is None or b"\0" in data:
            return None
        return data.decode("utf-8", "replace")

    @contextlib.asynccontextmanager
    async def fork(self, place: str, files: Mapping[str, str]) -> AsyncIterator[Sandbox]:
        """A fork that holds ``files``, closed afterwards; ``place`` (a candidate's id) names it. Raises ``ValueError``
        for files that cannot be written there."""
        async with self._slots:
            fork = await self.open("fork", place)
            try:  # a trial that is cut off here waits for its verdict with nothing of it alive
                for step in self.written(files):
                    await step.on(fork)
                yield fork
            finally:
                await self.end(fork)  # nothing, for one that was given away

    async def open(self, *name: str) -> Sandbox:
        """A fork that stands until ``end``, or until the trial is closed."""
        fork = await (await self.base()).fork(self._name(*name))
        self._open.append(fork)
        return fork

    async def in_fork(self, place: str, steps: Sequence[ForkStep[Any]], last: ForkStep[T]) -> T:
        """What ``last`` comes to in a fork in which the steps were taken; ``place`` as in ``fork``."""
        async with self._slots:
            return await in_fork(await self.base(), self._name("fork", place), steps, last)

    async def hand_in(self, place: str, files: Mapping[str, str]) -> tuple[Difference, str | None]:
        """What a fork that holds ``files`` differs in from the task's image. With shared grading also the ticket of the
        fork, which is the verifier's from then on, as it lives."""
        living = self._living.pop(digest_of(dict(files)), None)
        try:
            if living is None and self._task.grading != "shared":
                return await self.in_fork(place, self.written(files), TakeDifference()), None
            async with contextlib.nullcontext(living) if living else self.fork(place, files) as fork:
                difference = await fork.difference()
                if not isinstance(fork, HandsOver):
                    raise DatasetError("shared grading needs sandboxes that can be given away: use --sandbox docker")
                return difference, await fork.hand_over()
        except ValueError:
            if not files:
                raise
            # Its own sandbox was ended: another one gets its files. Or they cannot be written, or hold more than a
            # submission may: it hands in nothing, and fails.
            return await self.hand_in(place, files if living else {})

    def _name(self, *place: str) -> str:
        return sandbox_name(self._task.digest, self._identity, *place)

    def remember(self, files: Mapping[str, str], tar: bytes) -> None:
        """A candidate may be more than texts (programs it built, removed paths, owners): wherever these files, which
        tell of that in words (``Candidate.files``), are put from now on, the whole difference is."""
        self._whole.setdefault(digest_of(dict(files)), tar)

    @property
    def differences(self) -> Mapping[str, bytes]:
        """Digest of a candidate's files → its whole difference, where it is known."""
        return self._whole

    def written(self, files: Mapping[str, str]) -> list[ForkStep[None]]:
        """What writes a candidate into a sandbox."""
        if (whole := self._whole.get(digest_of(dict(files)))) is not None:
            return [PutTar(tar=whole)]
        return [*texts_put(files)]

    async def end(self, sandbox: Sandbox) -> None:
        """Close one of them now."""
        await sandbox.close()
        if sandbox in self._open:
            self._open.remove(sandbox)

    def lives_in(self, files: Mapping[str, str], sandbox: Sandbox) -> None:
        """A candidate's own sandbox still stands as it submitted: shared grading is given that one."""
        self._living[digest_of(dict(files))] = sandbox

    async def close(self) -> None:
        """Close every sandbox that was opened. Idempotent. One whose daemon or process is gone is left to those that
        clean up after them: what the trial came to does not depend on it."""
        while self._open:
            with contextlib.suppress(InfrastructureError):
                await self._open.pop().close()
