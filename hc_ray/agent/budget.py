"""A trial's budget and spending, and the only place where models are called."""

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
"""Upper estimate of the tokens that a chat template adds."""


def wall_seconds(task: Task, budget: BudgetConfig) -> float:
    """The wall time limit of a trial in seconds."""
    return (task.agent_timeout_sec or budget.default_timeout_sec) * budget.timeout_multiplier


class Purse:
    """Counts tokens, engine seconds and answers. Its limit is never exceeded, since every call reserves its worst case
    first. ``outer``: another purse that is charged the same."""

    def __init__(self, tokens: int, outer: "Purse | None" = None) -> None:
        self.limit, self._outer = tokens, outer
        self.prompt_tokens = 0
        self.shared_tokens = 0
        """Prompt tokens shared with the same lineage's previous prompt, which do not count, whether or not a server
        cached them."""
        self.completion_tokens = 0
        self.engine_seconds = 0.0
        self.arrived: list[Completion] = []
        """Answers of unfinished rounds, charged at the round's end so that no decision depends on which was faster."""
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
        """Charge everything that another purse has spent, including its unfinished rounds."""
        self.charge(other.prompt_tokens, other.completion_tokens, other.engine_seconds, other.shared_tokens)
        for answer in other.arrived:
            self.charge(answer.prompt_tokens or 0, answer.completion_tokens or 0, answer.seconds)

    def spent_since(self) -> dict[str, Any]:
        """Spending since the last call, as fields of a candidate; of prompts only what counts."""
        now = {
            "prompt_tokens": self.prompt_tokens - self.shared_tokens,
            "completion_tokens": self.completion_tokens,
            "engine_seconds": self.engine_seconds,
        }
        before, self._told = self._told, now
        return {name: value - before.get(name, 0) for name, value in now.items()}


class Asking:
    """Calls one role's model, with several prompts at once, and keeps the exchanges in the order of the prompts."""

    def __init__(self, role: RoleModel, purse: Purse) -> None:
        self.role, self.purse = role, purse
        self.exchanges: list[Exchange] = []
        self.unanswered = 0
        """Questions still open when their trial ended."""

    async def worst_case(self, prompt: Prompt) -> int:
        """The most tokens that a prompt can cost: its own by the engine's count, plus a full answer. New text may have
        more tokens per character than the earlier text."""
        text = _text_of(prompt)
        count = self.role.model.count_tokens
        new = await count(text[int(prompt.shared * len(text)) :]) + 3 * _PER_MESSAGE if prompt.shared else 0
        return max(new, math.ceil((1 - prompt.shared) * await self._prompt_tokens(prompt))) + prompt.max_tokens

    async def all(self, owned: Sequence[tuple[str, Prompt]]) -> list[Completion]:
        """Answers to prompts, given as (owner, prompt); see ``answers``."""
        return await answers([(self, owner, prompt) for owner, prompt in owned])

    async def answer(self, prompt: Prompt) -> Completion:
        """One answer, not charged yet. Counts tokens from the texts if the engine does not report them."""
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
        """Charge an answer and record it."""
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
    """How many of the prompts, from the first on, the purse can pay for together, each at its own engine's count."""
    if not asked:
        return 0
    left = asked[0][0].purse.left - reserve
    for count, (asking, prompt) in enumerate(asked):
        left -= await asking.worst_case(prompt)
        if left < 0:
            return count
    return len(asked)


async def answers(asked: Sequence[tuple[Asking, str, Prompt]]) -> list[Completion]:
    """Answers to prompts, given as (asking, owner, prompt), in their order; all run concurrently. If the trial's time
    ends first, finished answers are charged and open ones counted."""
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
    """The results of all futures, after all have ended. A failure or a cancellation cancels the others, each only once,
    since a second cancellation would interrupt their clean-up. Raises the first failure."""
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
    """Work bounded by a clock exceeded its time and was cancelled."""


class Clock:
    """Wall time since a trial's start, without time waiting for verdicts or spent only in queues."""

    def __init__(self, seconds: float, queued: Callable[[], float] = lambda: 0.0) -> None:
        """``queued`` returns the seconds so far in which all pending operations waited for an engine or a slot."""
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
        """Run work within the remaining time. Raises ``TimeIsUp``."""
        working = asyncio.ensure_future(work)
        try:
            # The remaining time grows while the trial is queued, so check it again when it seems to be over.
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
        """Stop the clock in this block."""
        since = self._counted()
        try:
            yield
        finally:
            self._began += self._counted() - since
