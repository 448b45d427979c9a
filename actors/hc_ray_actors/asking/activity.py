"""Tracks what the trials of one process are doing: waiting for or using an engine, a sandbox or a verifier. This
decides the order of an engine's requests, accounts for its slots, and gives the time that a trial spent only in queues,
which does not count against it."""

import asyncio
import heapq
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Literal

from hc_ray.domain.errors import EngineError
from hc_ray.domain.events import EngineUse, Waited
from hc_ray.domain.prompt import Completion

Doing = Literal["engine", "sandbox", "verdict", "decision"]
"""What a trial is doing."""


@dataclass
class Account:
    """The use of an engine's slots over a period, and the tokens of its answers."""

    seconds: float = 0.0
    busy: float = 0.0
    queued: float = 0.0
    waited: dict[Waited, float] = field(default_factory=dict)
    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reused: int = 0
    reused_tokens: int = 0
    across: list[tuple[float, float, int, int]] = field(default_factory=list)
    """Answers to requests that were sent before this account began: (seconds into the account, duration, uncached
    prompt tokens, completion tokens)."""

    def add(self, seconds: float, busy: int, waiting: int, slots: int, doing: Counter[Doing]) -> None:
        """Account for a period without changes. Free slots wait for the trials that are doing something else; if all
        trials have asked, there are too few trials."""
        self.seconds += seconds
        self.busy += busy * seconds
        self.queued += waiting * seconds
        free = (slots - busy) * seconds
        if not free:
            return
        elsewhere: dict[Waited, int] = {
            "sandbox": doing["sandbox"], "verdict": doing["verdict"], "decision": doing["decision"],
        }  # fmt: skip
        elsewhere = {what: count for what, count in elsewhere.items() if count}
        if not elsewhere:
            elsewhere = {"requests" if doing["engine"] else "trials": 1}
        for what, count in elsewhere.items():
            self.waited[what] = self.waited.get(what, 0.0) + free * count / sum(elsewhere.values())

    def answered(self, prompt_tokens: int, cached_tokens: int, completion_tokens: int, seconds: float) -> None:
        """Count an answer that has just arrived and took ``seconds``."""
        if seconds > self.seconds:
            self.across.append((self.seconds, seconds, prompt_tokens - cached_tokens, completion_tokens))
        self.requests += 1
        self.prompt_tokens += prompt_tokens
        self.cached_tokens += cached_tokens
        self.completion_tokens += completion_tokens

    def reuse(self, answer: Completion) -> None:
        """Count a request that reused the answer to an equal one."""
        self.reused += 1
        self.reused_tokens += answer.tokens

    def told(self, engine: str, slots: int) -> EngineUse:
        told = {**vars(self), **{name: round(getattr(self, name), 3) for name in ("seconds", "busy", "queued")}}
        told["waited"] = {what: round(seconds, 3) for what, seconds in sorted(self.waited.items()) if seconds}
        told["across"] = tuple(
            (round(self.seconds - came, 3), round(took, 3), prompt, written)
            for came, took, prompt, written in self.across
        )
        return EngineUse(engine=engine, slots=slots, **told)


PERIOD = 10.0
"""The least number of seconds that one account covers."""
SHUNNED_SECONDS = 30.0
"""Seconds for which a failed replica gets no requests if another can take them."""

Clock = Callable[[], float]


@dataclass(eq=False)
class Operation:
    """One request of a trial: it waits from ``began`` until ``started``, and works until ``ended``."""

    began: float
    started: float | None = None
    ended: float | None = None


class TrialActivity:
    """The pending operations of one trial."""

    def __init__(self, all_of_them: "Activities", rank: int) -> None:
        self.rank = rank
        """Trials that started earlier have a lower rank and go first."""
        self._all = all_of_them
        self._counts: Counter[Doing] = Counter()
        self._operations: list[Operation] = []
        self._queued = 0.0

    @property
    def doing(self) -> Doing:
        """What the trial is doing now; of several things, the first in ``Doing``."""
        for one in ("engine", "sandbox", "verdict"):
            if self._counts[one]:
                return one
        return "decision"

    def queued(self) -> float:
        """Seconds so far in which all pending operations of the trial were queued."""
        return self._queued + _only_waiting(self._operations, self._all.now())

    def now(self) -> float:
        return self._all.now()

    @contextmanager
    def at(self, what: Doing) -> Iterator[Operation]:
        """Track an operation. The caller sets ``started`` when a wait ends; an operation that never starts counts as
        waiting."""
        one = Operation(self._all.now())
        self._operations.append(one)
        self._count(what, 1)
        try:
            yield one
        finally:
            one.ended = self._all.now()
            self._count(what, -1)
            self._fold()

    def _count(self, what: Doing, change: int) -> None:
        self._all.settle()
        before = self.doing
        self._counts[what] += change
        self._all.move(before, self.doing)

    def _fold(self) -> None:
        """Add up the periods that no open operation can still change."""
        still = [one.began for one in self._operations if one.ended is None]
        until = min(still, default=self._all.now())
        self._queued += _only_waiting(self._operations, until)
        for one in self._operations:
            one.began = max(one.began, until)
        self._operations = [one for one in self._operations if one.ended is None or one.ended > until]


def _only_waiting(operations: list[Operation], until: float) -> float:
    """Seconds before ``until`` in which at least one operation waited and none worked."""
    changes: list[tuple[float, int, int]] = []
    for one in operations:
        ended = until if one.ended is None else min(one.ended, until)
        started = min(max(ended if one.started is None else one.started, one.began), ended)
        if started > one.began:
            changes += [(one.began, 1, 0), (started, -1, 0)]
        if ended > started:
            changes += [(started, 0, 1), (ended, 0, -1)]
    total, waiting, working, last = 0.0, 0, 0, 0.0
    for at, wait, work in sorted(changes):
        if waiting and not working:
            total += at - last
        waiting, working, last = waiting + wait, working + work, at
    return total


class Activities:
    """All trials of this process, and the engines that they use."""

    def __init__(self, tell: Callable[[EngineUse], None], now: Clock = time.monotonic) -> None:
        self.now, self._tell = now, tell
        self._ranks = itertools.count()
        self._doing: Counter[Doing] = Counter()
        self._engines: list[EngineQueue] = []
        self._settled = now()

    @contextmanager
    def trial(self) -> Iterator[TrialActivity]:
        """Track a new trial, from its start to its end."""
        one = TrialActivity(self, next(self._ranks))
        self.settle()
        self._doing[one.doing] += 1
        try:
            yield one
        finally:
            self.settle()
            self._doing[one.doing] -= 1

    def engine(self, name: str, slots: int) -> "EngineQueue":
        """Create the queue of an engine; ``name`` identifies it in the accounts."""
        self.settle()
        queue = EngineQueue(self, name, slots)
        self._engines.append(queue)
        return queue

    def move(self, before: Doing, after: Doing) -> None:
        self._doing[before] -= 1
        self._doing[after] += 1

    def settle(self, *, last: bool = False) -> None:
        """Account for the time since the last change; ``last`` also reports unfinished accounts."""
        now = self.now()
        seconds, self._settled = now - self._settled, now
        for engine in self._engines:
            engine.account.add(seconds, engine.busy, engine.waiting, engine.slots, self._doing)
            if engine.account.seconds >= PERIOD or (last and engine.account.seconds):
                self._tell(engine.account.told(engine.name, engine.slots))
                engine.account = Account()


class EngineQueue:
    """Admits ``slots`` concurrent requests to an engine; the oldest trial's request goes first."""

    def __init__(self, activities: Activities, name: str, slots: int) -> None:
        self.name, self.slots, self.busy = name, slots, 0
        self.outstanding = 0
        """Tokens of its running and queued requests: their prompts, and the completions that they ask for."""
        self.shunned_until = 0.0
        self.account = Account()
        self._activities = activities
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    @property
    def waiting(self) -> int:
        return sum(not ready.done() for _, _, ready in self._queue)

    @property
    def shunned(self) -> bool:
        return self._activities.now() < self.shunned_until

    def failed(self) -> None:
        """Note that the engine did not answer."""
        self.shunned_until = self._activities.now() + SHUNNED_SECONDS

    @asynccontextmanager
    async def slot(self, trial: TrialActivity, tokens: int = 0) -> AsyncIterator[None]:
        """Hold a slot for one request of a trial. ``tokens``: the size of the request."""
        self.outstanding += tokens
        try:
            with trial.at("engine") as operation:
                await self._take(trial.rank)
                operation.started = self._activities.now()
                try:
                    yield
                except EngineError:
                    operation.started = None  # a failed request does not count against the trial's time
                    raise
                finally:
                    self._give()
        finally:
            self.outstanding -= tokens

    async def _take(self, rank: int) -> None:
        if self.busy < self.slots:
            self._activities.settle()
            self.busy += 1
            return
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (rank, next(self._numbers), ready))
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():  # we own the slot, but nobody is left to use it
                self._give()
            raise

    def _give(self) -> None:
        """Pass the slot to the next request in the queue."""
        self._activities.settle()
        while self._queue:
            _, _, ready = heapq.heappop(self._queue)
            if not ready.done():
                ready.set_result(None)
                return
        self.busy -= 1
