"""What all trials of a task need once: its image, and the control of its reference. Those who come while one of them is
under way wait for it, and all get its evidence."""

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
    """One piece of work that is shared, and what went wrong with it."""

    task: asyncio.Future[None]
    attempts: list[Attempt]

    def broken(self) -> bool:
        """Whether it ended for a reason that need not hold the next time: all but a reference that does not pass."""
        failed = self.task.done() and (self.task.cancelled() or self.task.exception() is not None)
        return failed and bool(self.attempts) and self.attempts[-1].error_type != ControlError.__name__


class Chores:
    """Does each chore once a sweep, with its back-off; ``tell`` reports what failed."""

    def __init__(self, retries: RetryConfig, crew: Crew, *, tell: Callable[[str, Attempt, str], None]) -> None:
        self._retries, self._crew, self._tell = retries, crew, tell
        self._chores: dict[tuple[Stage, str], _Chore | None] = {}
        """None: it ended without a failure. A sweep of many tasks keeps nothing of those."""

    async def image(self, task: Task, record: Record) -> None:
        """The task's image is ready on some node. One that could not be made is not tried again in this sweep. Raises
        what its last attempt raised."""
        await self._share("environment", task, partial(self._crew.prepare, task), record)

    async def control(self, task: Task, record: Record, slot: Slot) -> None:
        """The task's own reference passes. Raises ``ControlError`` where it does not, and what its last attempt raised
        where that could not be seen: the task's next trial looks again then."""

        async def look() -> None:
            verdict = await self._crew.verify(task, lambda verifier: verifier.control(task))
            if verdict.passed is False:
                hint = "agent oracle runs it, and hc-ray unseal then shows what its tests printed"
                if task.grading != "shared":
                    hint += "; if they need what it leaves running: --grading shared"
                if volumes := task.environment.volumes:
                    hint += f"; its Dockerfile has VOLUME {' '.join(volumes)}, where work can be lost"
                raise ControlError(f"the task's own reference solution does not pass: {verdict.cause} ({hint})")

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
        """End what no trial waits for any more."""
        left = [chore.task for chore in self._chores.values() if chore is not None]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
