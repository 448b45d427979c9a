"""What all trials of a task share: its image, and the control of its reference solution. Trials that arrive while one
is in progress wait for it, and all get its evidence."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from hc_ray.domain.config import RetryConfig
from hc_ray.domain.errors import ControlError
from hc_ray.domain.task import Task
from hc_ray.domain.trial import Attempt, Stage
from hc_ray.domain.waiting import result_of
from hc_ray_actors.attempts import persist
from hc_ray_actors.driver.concurrency_window import Slot
from hc_ray_actors.driver.crew.crew import Crew
from hc_ray_actors.driver.trial_record import Record


class _Chore(NamedTuple):
    """A shared piece of work, and its failed attempts."""

    task: asyncio.Future[None]
    attempts: list[Attempt]

    def broken(self) -> bool:
        """Whether it failed for a reason that may be gone next time: anything but a reference that does not pass."""
        failed = self.task.done() and (self.task.cancelled() or self.task.exception() is not None)
        return failed and bool(self.attempts) and self.attempts[-1].error_type != ControlError.__name__


class Chores:
    """Does each chore once per sweep, with back-off; ``tell`` reports failed attempts."""

    def __init__(self, retries: RetryConfig, crew: Crew, *, tell: Callable[[str, Attempt, str], None]) -> None:
        self._retries, self._crew, self._tell = retries, crew, tell
        self._chores: dict[tuple[Stage, str], _Chore | None] = {}
        """None for a chore without failures, so that a sweep of many tasks keeps nothing for those."""

    async def image(self, task: Task, record: Record) -> None:
        """Wait until the task's image is ready on some node. An image that could not be made is not tried again in this
        sweep. Raises the last attempt's exception."""
        await self._share("environment", task, partial(self._crew.prepare, task), record)

    async def control(self, task: Task, record: Record, slot: Slot) -> None:
        """Check that the task's reference solution passes. Raises ``ControlError`` if it does not. If this cannot be
        determined, raises the last attempt's exception, and the task's next trial checks again."""

        async def look() -> None:
            verdict = await self._crew.verify(task, lambda verifier: verifier.control(task))
            if verdict.passed is False:
                hint = "run it with agent oracle, then hc-ray unseal shows what its tests printed"
                if task.grading != "shared":
                    hint += "; if they need processes that it leaves running, use --grading shared"
                if volumes := task.environment.volumes:
                    hint += f"; its Dockerfile has VOLUME {' '.join(volumes)}, where work can be lost"
                raise ControlError(f"the task's reference solution does not pass: {verdict.cause} ({hint})")

        known = self._chores.get(("control", task.digest))
        if known is not None and known.broken():
            del self._chores["control", task.digest]
        await self._share("control", task, look, record, slot)

    async def _share(
        self, stage: Stage, task: Task, work: Callable[[], Awaitable[None]], record: Record, slot: Slot | None = None
    ) -> None:
        name = (stage, task.digest)
        if name not in self._chores:
            self._chores[name] = self._begun(stage, task, work)
        if (chore := self._chores[name]) is None:
            return
        waiting = result_of(chore.task)
        try:
            await (slot.during(waiting) if slot else waiting)
        finally:
            for attempt in chore.attempts:
                record.note(attempt)
        if not chore.attempts:
            self._chores[name] = None

    def _begun(self, stage: Stage, task: Task, work: Callable[[], Awaitable[None]]) -> _Chore:
        attempts: list[Attempt] = []

        def note(attempt: Attempt) -> None:
            attempts.append(attempt)
            self._tell("", attempt, task.name)

        done = persist(work, stage=stage, who=task.digest, retries=self._retries, note=note, mend=self._crew.mend,
                       pause=asyncio.sleep)  # fmt: skip
        return _Chore(asyncio.ensure_future(done), attempts)

    async def close(self) -> None:
        """Cancel the remaining chores."""
        left = [chore.task for chore in self._chores.values() if chore is not None]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
