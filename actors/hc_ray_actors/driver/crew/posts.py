"""One actor's post in a sweep: who stands there now, how another is put there, and whether it can be given work.

A post that fails rests, and is looked at again after a while (probation); meanwhile others of its kind do the work::

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
"""An actor that is started anew more often than this in so many seconds is not started any more."""
ANSWER_SECONDS = 20.0
"""How long an actor may take to say that it is well. It waits for no work there, only for its machine."""
PULSE_SECONDS = 10.0
"""Between two looks whether an actor's process, or a server that it started, hangs."""
SILENT_SECONDS = 60.0
"""A process that leaves a call that takes a moment unanswered for so long hangs, and is ended; so is a server that
leaves every look of so long unanswered."""
START_SECONDS = 90.0
"""How long an actor's process may take to come up: its slots may just be taken by somebody else."""
POLL_SECONDS, LONGEST = 1.0, 60.0
"""A post that rests is looked at again after so many seconds, doubled up to ``LONGEST``; every ``POLL_SECONDS`` where
nobody else does its work."""
STRIKES, WITHIN = 3, 60.0
"""A post that is named as the cause of so many failures in so many seconds rests, although it says that it is well."""

T = TypeVar("T")

FAULTS = (HcRayError, OSError, MemoryError)
"""What a machine may do to an actor; anything else is a bug."""

State = Literal["starting", "ready", "resting", "spent", "gone"]
Make = Callable[["Post"], Any]
"""Puts an actor on the post's node, or names the node first. May raise ``HcRayError``."""
Begin = Callable[["Post"], Awaitable[None]]
"""Makes the post's actor fit for work. May raise ``HcRayError``."""


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
        """``what``: the actor, for a reader; its method ``stop`` ends what it started. ``number``: among those of its
        kind that are alike."""
        roster.posts.append(self)
        self.kind, self.what, self.node, self.number = kind, what, node, number
        self.state: State = "starting"
        self.why = ""
        """Why it is not ready."""
        self.actor: Any = None
        self.units = 0
        """Slots that its actor holds."""
        self.busy = 0
        """Calls that are under way."""
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
        """How a fault names it (``HcRayError.where``)."""
        return f"{self.kind}@{self.node}"

    async def open(self) -> None:
        """Put the first actor there. Raises what hindered it; an infrastructure's fault lets the post rest besides."""
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
        """Have the actor do something; what fails bears the post's name."""
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
        """As ``call``, of what takes a moment. An actor that hangs is ended, so that all who wait for it learn that it
        died."""
        actor = self.actor
        try:
            return await _within(SILENT_SECONDS, self.call(work))
        except TimeoutError:
            with contextlib.suppress(Exception):
                self._roster.kill(actor)
            raise ActorError(f"{self.what} said nothing for {SILENT_SECONDS:g} s, and was ended") from None

    @property
    def looked_at(self) -> "asyncio.Future[None] | None":
        """The look that is under way: what the post was before may hold no more."""
        return None if self._checking is None or self._checking.done() else self._checking

    @property
    def _alone(self) -> bool:
        """No other post of its kind is ready."""
        return not any(other is not self for other in self._roster.ready(self.kind))

    def strike(self, text: str) -> None:
        """It was named as the cause of a failure, and has been looked at."""
        now = time.monotonic()
        self._strikes.append(now)
        often = len(self._strikes) == STRIKES and now - self._strikes[0] < WITHIN
        if self.state == "ready" and often and not self._alone:
            self._rest(text)

    def check(self) -> Awaitable[None]:
        """See whether it is well, and start it anew if it died. One look is for all who ask while it has not begun; it
        is in doubt from this call on."""
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
                fault = await _within(ANSWER_SECONDS, self.actor.fault())
            except TimeoutError:
                fault = f"{self.what} does not answer within {ANSWER_SECONDS:g} s"
            except UserError as error:
                return self._end("spent", f"{self.what} does not come up again: {error}")
            except FAULTS as error:
                fault = f"{self.what} does not come up again: {error}"
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

    async def _renew(self) -> None:
        now = time.monotonic()
        if len(self._renewals) == RESTARTS and now - self._renewals[0] < PERIOD:
            failed = self.why if "does not come up" in self.why else ""
            self._end("spent", failed or f"{self.what} died {RESTARTS + 1} times within {PERIOD / 60:g} minutes")
            raise ActorError(self.why)
        await self.dismiss()
        self.renewed += 1
        try:
            self.actor = self._make(self)
        except BaseException:
            self.renewed -= 1  # nobody was started: there is no room for one at present
            raise
        self._renewals.append(now)
        await self._start()
        if self.state == "ready":
            self._roster.told(self)  # as before, but elsewhere

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
            with contextlib.suppress(HcRayError):  # it is dead or away, and whoever needs it finds out
                if await self.heard(lambda actor: actor.alive()):
                    well = time.monotonic()
                elif time.monotonic() - well >= SILENT_SECONDS:  # a busy server may miss a look
                    await self.check()  # a server of it hangs, and who asks that one would wait for long
            await asyncio.sleep(PULSE_SECONDS)

    async def dismiss(self) -> None:
        """End its actor, dead or alive, and all that it started."""
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
        """Its node is no more."""
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
    """What ``work`` comes to in its time; else ``TimeoutError``. Not ``asyncio.wait_for``: that passes over a
    cancellation that comes in the moment in which the work ends, and the look would go on after its sweep."""
    async with asyncio.timeout(seconds):
        return await asyncio.ensure_future(work)
