"""Calls that wait for minutes, as those that run a trial do, and that a caller has hundreds of in flight.

Ray keeps a fiber with a stack of 256 KiB for each call of an async actor until it ends: 1,000 trials in flight took 250
MiB of their process so. A long call is begun by one short call, and one other call waits for the replies to all of
them."""

import asyncio
import itertools
import pickle
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

AT_ONCE = 16
"""Replies that travel together, at most: a trial's outcome may take megabytes."""


class Reply(NamedTuple):
    """What a long call came to."""

    number: int
    packed: bytes
    """Pickled: answer and fault. What cannot be pickled, or unpickled, is the fault of its own call alone."""


class Desk:
    """The actor's side: what calls came to, until their callers take it."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._replies: defaultdict[str, asyncio.Queue[Reply]] = defaultdict(asyncio.Queue)
        """By caller."""

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
        self._replies[caller].put_nowait(Reply(number, packed))

    async def collect(self, caller: str) -> list[Reply]:
        """A caller's next replies, at most ``AT_ONCE``; waits for the first."""
        replies = self._replies[caller]
        found = [await replies.get()]
        while len(found) < AT_ONCE and not replies.empty():
            found.append(replies.get_nowait())
        return found


def long_calls(cls: type) -> tuple[str, ...]:
    """An actor's methods that are called so."""
    return tuple(getattr(cls, "long_calls", ()))


async def begin_long_call(self: Any, caller: str, number: int, method: str, arguments: tuple[Any, ...]) -> None:
    """A method of such an actor: begins a call of another one."""
    _desk(self).begin(caller, number, getattr(self, method)(*arguments))


async def collect_replies(self: Any, caller: str) -> list[Reply]:
    """A method of such an actor: ``Desk.collect``."""
    return await _desk(self).collect(caller)


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
        collect: Callable[[str], Awaitable[list[Reply]]],
    ) -> None:
        """``begin`` and ``collect``: calls of the actor. What they raise, all calls that wait raise."""
        self._begin, self._collect = begin, collect
        self._name, self._numbers = uuid.uuid4().hex, itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
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
                replies = await self._collect(self._name)
            except Exception as fault:
                for waits in self._waiting.values():
                    _settle(waits, fault=fault)
                return
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
