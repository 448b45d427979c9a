"""One actor's post in a sweep: the current actor, how to replace it, and whether it can be given work.

A failed post rests and is checked again after a while (probation); meanwhile others of its kind do the work::

    starting ──► ready ◄──► resting ──► spent    its actors die too often
                   └──────────┴───────► gone     its node has left
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from hc_ray.domain.errors import ActorError, HcRayError, InfrastructureError, UserError

if TYPE_CHECKING:
    from hc_ray_actors.driver.crew.roster import Roster

RESTARTS, PERIOD = 5, 600.0
"""An actor is not restarted more often than this within so many seconds."""
ANSWER_SECONDS = 20.0
"""Seconds within which an actor must answer a health check, which waits for its machine but not behind its work."""
PULSE_SECONDS = 10.0
"""Seconds between two checks whether an actor's process, or a server that it started, hangs."""
SILENT_SECONDS = 60.0
"""Seconds after which a process that has not answered a short call counts as hung and is ended; likewise a server that
fails every check for so long."""
START_SECONDS = 90.0
"""Seconds for an actor's process to start; its slots may just have been taken by another."""
POLL_SECONDS, LONGEST = 1.0, 60.0
"""A resting post is checked again after so many seconds, doubled up to ``LONGEST``; every ``POLL_SECONDS`` if no other
post does its work."""
STRIKES, WITHIN = 3, 60.0
"""A post that causes so many failures within so many seconds rests, even if it reports to be healthy."""

T = TypeVar("T")

FAULTS = (HcRayError, OSError, MemoryError)
"""Errors that a machine can cause in an actor; anything else is a bug."""

State = Literal["starting", "ready", "resting", "spent", "gone"]
Make = Callable[["Post"], Any]
"""Starts an actor on the post's node, choosing the node if there is none. May raise ``HcRayError``."""
Begin = Callable[["Post"], Awaitable[None]]
"""Prepares the post's actor for work. May raise ``HcRayError``."""


class Post:
    """A place for one actor."""

    def __init__(
        self,
        roster: "Roster",
        kind: str,
        what: str,
        make: Make,
        begin: Begin,
        *,
        node: str | None = None,
        number: int = 0,
    ) -> None:
        """``what`` describes the actor for display; its method ``stop`` ends what it started. ``number`` distinguishes
        equal posts."""
        roster.posts.append(self)
        self.kind, self.what, self.node, self.number = kind, what, node, number
        self.state: State = "starting"
        self.why = ""
        """Why it is not ready."""
        self.actor: Any = None
        self.units = 0
        """Slots held by its actor."""
        self.busy = 0
        """Calls in progress."""
        self.renewed = 0
        self._begun = False
        self._roster, self._make, self._begin = roster, make, begin
        self._renewals: deque[float] = deque(maxlen=RESTARTS)
        self._strikes: deque[float] = deque(maxlen=STRIKES)
        self._checking: asyncio.Future[None] | None = None
        self._asked = False
        self._probation: asyncio.Future[None] | None = None
        self._pause = POLL_SECONDS

    @property
    def name(self) -> str:
        """Its name in faults (``HcRayError.where``)."""
        return f"{self.kind}@{self.node}"

    async def open(self) -> None:
        """Start the first actor. Raises if that fails; after an infrastructure fault, the post also rests."""
        try:
            self.actor = self._make(self)
            await self._start()
        except UserError as fault:
            self._end("spent", str(fault))
            raise
        except FAULTS as fault:
            self._rest(str(fault))
            raise
        self._set("ready")

    async def call(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Run ``work`` with the actor; exceptions carry the post's name."""
        self.busy += 1
        try:
            if self.actor is None:
                raise ActorError(f"{self.what} died")
            return await work(self.actor)
        except HcRayError as fault:
            fault.where = fault.where or self.name
            raise
        finally:
            self.busy -= 1

    async def heard(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Like ``call``, for short calls. A hung actor is ended, so that everybody who waits for it learns of its
        death."""
        actor = self.actor
        try:
            return await _within(SILENT_SECONDS, self.call(work))
        except TimeoutError:
            with contextlib.suppress(Exception):
                self._roster.kill(actor)
            raise ActorError(f"{self.what} did not answer for {SILENT_SECONDS:g} s and was ended") from None

    @property
    def looked_at(self) -> "asyncio.Future[None] | None":
        """The check in progress, during which the post's state is in doubt."""
        return None if self._checking is None or self._checking.done() else self._checking

    @property
    def _alone(self) -> bool:
        """Whether no other post of its kind is ready."""
        return not any(other is not self for other in self._roster.ready(self.kind))

    def strike(self, text: str) -> None:
        """Count a failure attributed to this post, after a check."""
        now = time.monotonic()
        self._strikes.append(now)
        often = len(self._strikes) == STRIKES and now - self._strikes[0] < WITHIN
        if self.state == "ready" and often and not self._alone:
            self._rest(text)

    def check(self) -> Awaitable[None]:
        """Check its health, and restart it if it died. Calls before the check begins share it; the post is in doubt
        from this call on."""
        self._asked = True
        if self._checking is None or self._checking.done():
            self._checking = self._roster.begin(self._look())
            self._checking.add_done_callback(lambda looked: self._roster.told(self))
            self._roster.told(self)
        return asyncio.shield(self._checking)

    async def _look(self) -> None:
        while self._asked and self.state not in ("starting", "spent", "gone"):
            self._asked = False
            try:
                if self.actor is None or not await self._lives():
                    await self._renew()
                fault = await self._fault()
            except TimeoutError:
                fault = f"{self.what} did not answer within {ANSWER_SECONDS:g} s"
            except UserError as error:
                return self._end("spent", f"{self.what} cannot be restarted: {error}")
            except FAULTS as error:
                fault = f"{self.what} cannot be restarted: {error}"
            if self.state == "spent":
                return
            if fault:
                self._rest(str(fault).splitlines()[0])
            else:
                self._set("ready")

    async def _lives(self) -> bool:
        try:
            return bool(await _within(ANSWER_SECONDS, self.actor.alive()))
        except ActorError:
            return False

    async def _fault(self) -> Any:
        try:
            return await _within(ANSWER_SECONDS, self.actor.fault())
        except ActorError:
            return f"{self.what} died"  # during this check: the next one restarts it

    async def _renew(self) -> None:
        now = time.monotonic()
        if len(self._renewals) == RESTARTS and now - self._renewals[0] < PERIOD:
            failed = self.why if "cannot be restarted" in self.why else ""
            self._end("spent", failed or f"{self.what} died {RESTARTS + 1} times within {PERIOD / 60:g} minutes")
            raise ActorError(self.why)
        await self.dismiss()
        self.renewed += 1
        try:
            self.actor = self._make(self)
        except BaseException:
            self.renewed -= 1  # nothing was started: there is no room at present
            raise
        self._renewals.append(now)
        await self._start()
        if self.state == "ready":
            self._roster.told(self)  # same state, but on another node

    async def _start(self) -> None:
        try:
            await _within(START_SECONDS, self.actor.alive())
            self._roster.begin(self._pulse(self.actor))
            self._begun = True
            await self._begin(self)
        except TimeoutError:
            await self.dismiss()
            raise InfrastructureError(f"{self.what} did not start within {START_SECONDS:g} s") from None
        except BaseException:
            await self.dismiss()
            raise

    async def _pulse(self, actor: Any) -> None:
        await asyncio.sleep(PULSE_SECONDS)
        well = time.monotonic()
        while self.actor is actor:
            with contextlib.suppress(HcRayError):  # it is dead or unreachable; whoever needs it will find out
                if await self.heard(lambda actor: actor.alive()):
                    well = time.monotonic()
                elif time.monotonic() - well >= SILENT_SECONDS:  # a busy server may miss a single check
                    await self.check()  # one of its servers hangs, and its callers would wait for long
            await asyncio.sleep(PULSE_SECONDS)

    async def dismiss(self) -> None:
        """End its actor, dead or alive, and everything that the actor started."""
        actor, self.actor = self.actor, None
        if actor is None:
            return
        if self._begun:
            with contextlib.suppress(Exception):
                await _within(10, actor.stop())
        self._begun = False
        with contextlib.suppress(Exception):
            self._roster.kill(actor)

    def leave(self) -> None:
        """Retire the post: its node has left."""
        self._end("gone", "its node left the cluster")

    def _end(self, state: State, why: str) -> None:
        self._set(state, why)
        if self._probation is not None:
            self._probation.cancel()

    def _rest(self, why: str) -> None:
        self._set("resting", why)
        if self._probation is None or self._probation.done():
            self._probation = self._roster.begin(self._on_probation())

    async def _on_probation(self) -> None:
        while self.state == "resting":
            await asyncio.sleep(POLL_SECONDS if self._alone else self._pause)
            self._pause = min(LONGEST, 2 * self._pause)
            await self.check()

    def _set(self, state: State, why: str = "") -> None:
        if state == "ready":
            self._pause = POLL_SECONDS
        if (state, why) != (self.state, self.why) and self.state not in ("spent", "gone"):
            self.state, self.why = state, why
            self._roster.told(self)


async def _within(seconds: float, work: Awaitable[T]) -> T:
    """Await ``work``, at most ``seconds``; raises ``TimeoutError``. Not ``asyncio.wait_for``, which swallows a
    cancellation that arrives just as the work ends: the check would outlive its sweep."""
    async with asyncio.timeout(seconds):
        return await asyncio.ensure_future(work)
