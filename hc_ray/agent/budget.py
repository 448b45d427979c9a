"""What a trial may spend and has spent, and the one place where models are asked."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from hc_ray.agent.role import Exchange, RoleModel
from hc_ray.domain.config import BudgetConfig
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.domain.task import Task

T = TypeVar("T")

_PER_MESSAGE, _PER_PROMPT = 8, 8
"""Tokens that a chat template may add, an upper estimate."""


def wall_seconds(task: Task, budget: BudgetConfig) -> float:
    """The wall time of a trial."""
    return (task.agent_timeout_sec or budget.default_timeout_sec) * budget.timeout_multiplier


class Purse:
    """Tokens, engine seconds and answers. The limit is never passed: who asks reserves the worst case first.
    ``outer``: pays the same."""

    def __init__(self, tokens: int, outer: "Purse | None" = None) -> None:
        self.limit, self._outer = tokens, outer
        self.prompt_tokens = 0
        self.shared_tokens = 0
        """Of the prompts' tokens those with which the same lineage's previous prompt began: they count for nothing,
        whatever a server's cache did."""
        self.completion_tokens = 0
        self.engine_seconds = 0.0
        self.arrived: list[Completion] = []
        """Answers of rounds that are not over: they are charged at the round's end, since what is decided meanwhile
        must not depend on which of them was faster."""
        self._told: dict[str, float] = {}

    @property
    def spent(self) -> int:
        return self.prompt_tokens - self.shared_tokens + self.completion_tokens

    @property
    def left(self) -> int:
        return self.limit - self.spent

    def charge(self, prompt_tokens: int, completion_tokens: int, seconds: float, shared_tokens: int = 0) -> None:
        self.prompt_tokens += prompt_tokens
        self.shared_tokens += shared_tokens
        self.completion_tokens += completion_tokens
        self.engine_seconds += seconds
        if self._outer:
            self._outer.charge(prompt_tokens, completion_tokens, seconds, shared_tokens)

    def charge_all_of(self, other: "Purse") -> None:
        """Pay what another purse has come to, its unfinished rounds included."""
        self.charge(other.prompt_tokens, other.completion_tokens, other.engine_seconds, other.shared_tokens)
        for answer in other.arrived:
            self.charge(answer.prompt_tokens or 0, answer.completion_tokens or 0, answer.seconds)

    def spent_since(self) -> dict[str, Any]:
        """What was spent since this was asked last, in the fields of a candidate: of prompts what counts."""
        now = {
            "prompt_tokens": self.prompt_tokens - self.shared_tokens,
            "completion_tokens": self.completion_tokens,
            "engine_seconds": self.engine_seconds,
        }
        before, self._told = self._told, now
        return {name: value - before.get(name, 0) for name, value in now.items()}


class Asking:
    """Asks one role's model, several prompts at once, and keeps the exchanges in the order they were asked in."""

    def __init__(self, role: RoleModel, purse: Purse) -> None:
        self.role, self.purse = role, purse
        self.exchanges: list[Exchange] = []
        self.unanswered = 0
        """Questions still open when their trial ended."""

    async def worst_case(self, prompt: Prompt) -> int:
        """Tokens that the prompt can cost at most: its own as the engine counts them, and a full answer. What is new in
        it may have more tokens for its length than what was there before."""
        text = _text_of(prompt)
        count = self.role.model.count_tokens
        new = await count(text[int(prompt.shared * len(text)) :]) + 3 * _PER_MESSAGE if prompt.shared else 0
        return max(new, math.ceil((1 - prompt.shared) * await self._prompt_tokens(prompt))) + prompt.max_tokens

    async def all(self, owned: Sequence[tuple[str, Prompt]]) -> list[Completion]:
        """Answers to prompts, each with its owner; see ``answers``."""
        return await answers([(self, owner, prompt) for owner, prompt in owned])

    async def answer(self, prompt: Prompt) -> Completion:
        """One answer, not paid for yet. Tokens that the engine does not count are counted from the texts."""
        answer = await self.role.model.complete(prompt)
        counts: dict[str, int] = {}
        if answer.prompt_tokens is None:
            counts["prompt_tokens"] = await self._prompt_tokens(prompt)
        if answer.completion_tokens is None:
            counts["completion_tokens"] = await self.role.model.count_tokens(answer.text)
        answer = answer.model_copy(update=counts) if counts else answer
        self.purse.arrived.append(answer)
        return answer

    def take(self, owner: str, prompt: Prompt, answer: Completion) -> None:
        """Pay for an answer and keep it."""
        self.purse.arrived.remove(answer)
        size, known = answer.prompt_tokens or 0, prompt.shared_tokens
        shared = int(prompt.shared * size) if known is None else min(known, size)
        self.purse.charge(size, answer.completion_tokens or 0, answer.seconds, shared)
        self.exchanges.append(Exchange(owner=owner, prompt=prompt, completion=answer))

    async def _prompt_tokens(self, prompt: Prompt) -> int:
        tokens = await self.role.model.count_tokens(_text_of(prompt))
        return tokens + _PER_MESSAGE * len(prompt.messages) + _PER_PROMPT


def _text_of(prompt: Prompt) -> str:
    return prompt.text if prompt.text is not None else "\n".join(message.whole for message in prompt.messages)


async def payable(asked: Sequence[tuple[Asking, Prompt]], *, reserve: int = 0) -> int:
    """How many of the questions, from the first on, the purse can pay for at once; each costs what its own engine
    counts."""
    if not asked:
        return 0
    left = asked[0][0].purse.left - reserve
    for count, (asking, prompt) in enumerate(asked):
        left -= await asking.worst_case(prompt)
        if left < 0:
            return count
    return len(asked)


async def answers(asked: Sequence[tuple[Asking, str, Prompt]]) -> list[Completion]:
    """Answers to prompts, each with who asks and whom it belongs to, in their order; everybody is asked at once. Where
    the trial's time ends first, what was answered is paid for, and what was not is counted."""
    asking = [asyncio.ensure_future(who.answer(prompt)) for who, _, prompt in asked]
    try:
        return await side_by_side(asking)
    finally:
        for (who, owner, prompt), one in zip(asked, asking, strict=True):
            if one.done() and not one.cancelled() and one.exception() is None:
                who.take(owner, prompt, one.result())
            else:
                who.unanswered += 1


async def side_by_side(work: Sequence[asyncio.Future[T]]) -> list[T]:
    """What all of it comes to, when all of it has ended. The first that fails ends the others, and so does a
    cancellation: each of them once, since a second one would cut off what it does at its end. Raises what the first of
    those that failed raised."""
    try:
        if work:
            await asyncio.wait(work, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for one in work:
            one.cancel()
        if work:
            await asyncio.wait(work)
        faults = [fault for one in work if not one.cancelled() and (fault := one.exception())]
    if faults:
        raise faults[0]
    return [one.result() for one in work]


class TimeIsUp(Exception):
    """Work that was bounded by a clock was not done in its time, and was ended."""


class Clock:
    """Wall time since a trial began, without the time that it waits for verdicts or only stands in queues."""

    def __init__(self, seconds: float, queued: Callable[[], float] = lambda: 0.0) -> None:
        """``queued``: seconds so far in which all that the trial had asked for waited for an engine or a slot."""
        self.seconds, self.queued = seconds, queued
        self._began = self._counted()

    def _counted(self) -> float:
        return time.monotonic() - self.queued()

    @property
    def elapsed(self) -> float:
        return self._counted() - self._began

    @property
    def left(self) -> float:
        return self.seconds - self.elapsed

    async def bound(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work in what time is left. Raises ``TimeIsUp``."""
        working = asyncio.ensure_future(work)
        try:
            # What is left grows while the trial stands in a queue: it is looked at again when it should be over.
            while not working.done() and (left := self.left) > 0:
                await asyncio.wait([working], timeout=left)
        finally:
            working.cancel()
            await asyncio.wait([working])
        if working.cancelled():
            raise TimeIsUp
        return working.result()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """A while that does not count."""
        since = self._counted()
        try:
            yield
        finally:
            self._began += self._counted() - since
