"""Calls that wait for minutes, as those that run a trial do, and that a caller has hundreds of in flight.

Ray keeps a fiber with a stack of 256 KiB for each call of an async actor until it ends: 1,000 trials in flight took 250
MiB of their process so. A long call is begun by one short call, and one other call waits for the replies to all of
them."""

import asyncio
import contextlib
import itertools
import pickle
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

WAIT_SECONDS = 10.0
"""How long the actor waits for a first reply before it answers that there is none yet."""
AT_ONCE = 16
"""Replies that travel together, at most: a trial's outcome may take megabytes."""


class Reply(NamedTuple):
    """What a long call came to."""

    number: int
    packed: bytes
    """Pickled: answer and fault. What cannot be pickled, or unpickled, is the fault of its own call alone."""


class Desk:
    """The actor's side. A reply is kept until its caller has acknowledged it, so that none is lost on its way."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._replies: defaultdict[str, dict[int, Reply]] = defaultdict(dict)
        """By caller and number of the call, in the order in which they came."""
        self._woken: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def begin(self, caller: str, number: int, work: Awaitable[Any]) -> None:
        """Run a call's work; what it comes to is kept for its caller."""
        task = asyncio.ensure_future(self._run(caller, number, work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, caller: str, number: int, work: Awaitable[Any]) -> None:
        try:
            packed = pickle.dumps((await work, None))
        except Exception as fault:
            packed = _packed(fault)
        self._replies[caller][number] = Reply(number, packed)
        self._woken[caller].set()

    async def collect(self, caller: str, taken: Sequence[int]) -> list[Reply]:
        """A caller's next replies, at most ``AT_ONCE``; waits for the first. ``taken``: what it has got before."""
        replies, woken = self._replies[caller], self._woken[caller]
        for number in taken:
            replies.pop(number, None)
        if not replies:
            woken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await woken.wait()
        return list(itertools.islice(replies.values(), AT_ONCE))


def long_calls(cls: type) -> tuple[str, ...]:
    """An actor's methods that are called so."""
    return tuple(getattr(cls, "long_calls", ()))


async def begin_long_call(self: Any, caller: str, number: int, method: str, arguments: tuple[Any, ...]) -> None:
    """A method of such an actor: begins a call of another one."""
    _desk(self).begin(caller, number, getattr(self, method)(*arguments))


async def collect_replies(self: Any, caller: str, taken: Sequence[int]) -> list[Reply]:
    """A method of such an actor: ``Desk.collect``."""
    return await _desk(self).collect(caller, taken)


def _desk(actor: Any) -> Desk:
    desk: Desk = actor.__dict__.setdefault("_desk", Desk())
    return desk


def _packed(fault: Exception) -> bytes:
    try:
        return pickle.dumps((None, fault))
    except Exception:
        return pickle.dumps((None, RuntimeError(f"{type(fault).__name__}: {fault}")))


class Caller:
    """The caller's side, for one actor and one event loop."""

    def __init__(
        self,
        begin: Callable[[str, int, str, tuple[Any, ...]], Awaitable[None]],
        collect: Callable[[str, Sequence[int]], Awaitable[list[Reply]]],
    ) -> None:
        """``begin`` and ``collect``: calls of the actor. What they raise, all calls that wait raise."""
        self._begin, self._collect = begin, collect
        self._name, self._numbers = uuid.uuid4().hex, itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._taken: list[int] = []
        self._collecting: asyncio.Task[None] | None = None

    async def call(self, method: str, *arguments: Any) -> Any:
        """What the actor's method answers or raises."""
        number = next(self._numbers)
        reply = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._begin(self._name, number, method, arguments)
            if self._collecting is None or self._collecting.done():
                self._collecting = asyncio.ensure_future(self._distribute())
            return await reply
        finally:
            del self._waiting[number]

    async def _distribute(self) -> None:
        while self._waiting:
            try:
                replies = await self._collect(self._name, self._taken)
            except Exception as fault:
                for waits in self._waiting.values():
                    _settle(waits, fault=fault)
                return
            self._taken = [reply.number for reply in replies]
            for reply in replies:
                if (future := self._waiting.get(reply.number)) is not None:
                    try:
                        answer = pickle.loads(reply.packed)
                    except Exception as fault:
                        _settle(future, fault=fault)
                    else:
                        _settle(future, *answer)
            await asyncio.sleep(0)  # those who got a reply go on first


def _settle(future: asyncio.Future[Any], answer: Any = None, fault: Exception | None = None) -> None:
    """Give a call its end, unless its caller waits no more."""
    if future.done():
        return
    if fault is None:
        future.set_result(answer)
    else:
        future.set_exception(fault)
        future.exception()  # asked for: who is still about to begin raises what that meets
