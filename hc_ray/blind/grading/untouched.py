"""Untouched sandboxes beside the candidate's, in which shared grading looks up what the image holds. Nothing is handed
in there, and what a look leaves (the witness's name, byte code) counts for nothing: so each waits for the next grading
of its task."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from hc_ray.blind.grading.verify import fresh_sandbox
from hc_ray.domain.errors import SandboxError, VerifierError
from hc_ray.domain.ports import Adopts, Gradable
from hc_ray.domain.task import Task

IDLE = 4
"""The most waiting sandboxes per place, for the tasks graded last."""
T = TypeVar("T")
_idle: WeakKeyDictionary[Adopts, list[tuple[str, Gradable]]] = WeakKeyDictionary()
"""Place → public digest of a task → its waiting sandbox, the oldest first."""


class Untouched:
    """The untouched sandboxes of one task in one place, which closes them."""

    def __init__(self, place: Adopts, task: Task, *, network: bool) -> None:
        self._idle, self._task = _idle.setdefault(place, []), task.digest
        self.fresh = partial(fresh_sandbox, place, task, "grade", network=network)
        """Makes a fresh one, as a context manager."""
        self._make = partial(place.create, task, f"look-{task.digest[:12]}", network=network)

    async def ask(self, question: Callable[[Gradable], Awaitable[T]]) -> T:
        """Ask one of them; a fresh one if a waiting one has ended meanwhile."""
        if waiting := next((one for one in self._idle if one[0] == self._task), None):
            self._idle.remove(waiting)
            try:
                return await self._ask(waiting[1], question)
            except (SandboxError, VerifierError):
                pass
        return await self._ask(await self._make(), question)

    async def _ask(self, sandbox: Gradable, question: Callable[[Gradable], Awaitable[T]]) -> T:
        try:
            answer = await question(sandbox)
        except BaseException:
            await sandbox.close()
            raise
        self._idle.append((self._task, sandbox))
        while len(self._idle) > IDLE:
            await self._idle.pop(0)[1].close()
        return answer
