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
    """Tokens, engine seconds and answers. The limit is never passed: who asks reserves the worst case first."""

    def __init__(self, tokens: int) -> None:
        self.limit = tokens
        self.prompt_tokens = 0
        self.shared_tokens = 0
        """Of the prompts' tokens those with which the same lineage's previous prompt began: they count for nothing,
        whatever a server's cache did."""
        self.completion_tokens = 0
        self.engine_seconds = 0.0
        self.arrived: list[Completion] = []
        """Answers of rounds that are not over: they are charged at the round's end, since what is decided meanwhile
        must not depend on which of them was faster."""

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

    def charge_all_of(self, other: "Purse") -> None:
        """Pay what another purse has come to, its unfinished rounds included."""
        self.charge(other.prompt_tokens, other.completion_tokens, other.engine_seconds, other.shared_tokens)
        for answer in other.arrived:
            self.charge(answer.prompt_tokens or 0, answer.completion_tokens or 0, answer.seconds)


class Asking:
    """Asks one role's model, several prompts at once, and keeps the exchanges in the order they were asked in."""

    def __init__(self, role: RoleModel, purse: Purse) -> None:
        self.role, self.purse = role, purse
        self.exchanges: list[Exchange] = []
        self.unanswered = 0
        """Questions that were in flight when their trial ended."""
        self._counted: dict[str, int] = {}

    async def worst_case(self, prompt: Prompt) -> int:
        """Tokens that the prompt can cost at most: its own as the engine counts them, and a full answer."""
        return math.ceil((1 - prompt.shared) * await self._prompt_tokens(prompt)) + prompt.max_tokens

    async def all(self, owned: Sequence[tuple[str, Prompt]]) -> list[Completion]:
        """Answers in the order of the prompts. Tokens that the engine does not count are counted from the texts. Where
        the trial's time ends first, what was answered is paid for, and what was not is counted."""
        asked = [asyncio.ensure_future(self._answer(prompt)) for _, prompt in owned]
        try:
            return list(await asyncio.gather(*asked))
        finally:
            for one in asked:
                one.cancel()
            answers = await asyncio.gather(*asked, return_exceptions=True)
            for (owner, prompt), answer in zip(owned, answers, strict=True):
                if isinstance(answer, Completion):
                    self.purse.arrived.remove(answer)
                    size = answer.prompt_tokens or 0
                    known = prompt.shared_tokens
                    shared = int(prompt.shared * size) if known is None else min(known, size)
                    self.purse.charge(size, answer.completion_tokens or 0, answer.seconds, shared)
                    self.exchanges.append(Exchange(owner=owner, prompt=prompt, completion=answer))
                else:
                    self.unanswered += 1

    async def _answer(self, prompt: Prompt) -> Completion:
        answer = await self._counted_answer(prompt, await self.role.model.complete(prompt))
        self.purse.arrived.append(answer)
        return answer

    async def _counted_answer(self, prompt: Prompt, answer: Completion) -> Completion:
        if answer.prompt_tokens is not None and answer.completion_tokens is not None:
            return answer
        asked = answer.prompt_tokens if answer.prompt_tokens is not None else await self._prompt_tokens(prompt)
        told = answer.completion_tokens
        told = await self.role.model.count_tokens(answer.text) if told is None else told
        return answer.model_copy(update={"prompt_tokens": asked, "completion_tokens": told})

    async def _prompt_tokens(self, prompt: Prompt) -> int:
        text = prompt.text if prompt.text is not None else "\n".join(message.whole for message in prompt.messages)
        if text not in self._counted:
            self._counted[text] = await self.role.model.count_tokens(text)
        return self._counted[text] + _PER_MESSAGE * len(prompt.messages) + _PER_PROMPT


def fellows(asking: Asking) -> tuple[Asking, ...]:
    """A tester and those that write for the same suite: they pay from one purse."""
    return (asking, *(Asking(other, asking.purse) for other in asking.role.others))


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


async def answers(asked: Sequence[tuple[Asking, Prompt]], owner: str = "testgen") -> list[Completion]:
    """Answers in the order of the questions, whoever is faster; everybody is asked at once."""
    everyone = list({id(asking): asking for asking, _ in asked}.values())
    places = [[i for i, (asking, _) in enumerate(asked) if asking is one] for one in everyone]
    told = await asyncio.gather(*(
        one.all([(owner, asked[i][1]) for i in mine]) for one, mine in zip(everyone, places, strict=True)
    ))  # fmt: skip
    found = {i: answer for mine, part in zip(places, told, strict=True) for i, answer in zip(mine, part, strict=True)}
    return [found[i] for i in range(len(asked))]


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
