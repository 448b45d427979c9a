"""Fail or unscored, and what is retried.

A trial is *unscored* only for failures seen outside the sandbox. Everything that a candidate can cause is data, and
becomes a *fail* with its cause.

========================================================  ====================  =======================================
what is seen                                              by                    what becomes of the trial
========================================================  ====================  =======================================
a candidate's code crashes, loops, fills its disk, eats   ``Sandbox.exec``      data: a failed candidate, a failed test
its memory, kills its own init, breaks what runs inside   (``ExecResult``)
files that cannot be written where an answer names them   ``ValueError``        data: the candidate's row is errors
what is handed in is too large, or no plain files         ``ValueError``,       fail: ``submission_refused``; the
                                                          ``Refused``           untouched workspace is graded
the trusted set is changed                                ``blind.trusted``     fail: ``tampered``
no reward file, an empty or unreadable one                ``blind.verdict``     fail: ``no_verdict``, ``empty_verdict``,
                                                                                ``malformed_verdict``
``test.sh`` runs past its limit                           ``blind.verdict``     fail: ``timeout``
the grader inside is killed or broken by the submission   ``blind.verdict``     fail: ``verifier_lost``
the second witness disagrees or is silent                 ``blind.verdict``     fail: ``witness_disagrees``,
                                                                                ``witness_absent``
the trial's own wall time, turns or tokens are spent      ``solve``             what it has is handed in and graded
--------------------------------------------------------  --------------------  ---------------------------------------
the Docker daemon stops, restarts, refuses, is full       ``SandboxError``      tried again, then unscored
an image that cannot be pulled or built in its time       ``SandboxError``      tried again once for all trials of the
                                                                                task, then unscored
an engine that dies, refuses or is silent                 ``EngineError``       started anew, tried again, then unscored
a verifier's sandbox, runner or sealed files              ``VerifierError``     the stored submission is graded again,
                                                                                then unscored
a task whose own reference does not pass                  ``ControlError``      looked at once more, then unscored
a process of the sweep that dies or hangs                 ``ActorError``        started anew, tried again, then unscored
files, memory or sockets of the machine itself            ``OSError``,          tried again, then unscored
                                                          ``MemoryError``
a task or setting that this machine cannot take           ``UserError``         unscored at once: it would be the same
anything else                                             a bug of hc-ray       unscored at once, with its traceback
the sweep directory cannot be written                     ``StoreError``        the sweep stops; a resume goes on
a canary where none may be                                ``LeakError``         the run fails
========================================================  ====================  =======================================

A verdict is never asked for twice: a later failure costs the trial its continuation, not its verdict.
"""

import datetime
import hashlib
import traceback
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from hc_ray.domain.config import RetryConfig
from hc_ray.domain.errors import ControlError, HcRayError, InfrastructureError, UserError
from hc_ray.domain.trial import Attempt, Stage
from hc_ray.domain.value import Value

Kind = Literal["infrastructure", "reference", "user", "bug"]
LONGEST = 60.0
"""The longest back-off in seconds, without jitter."""
CONTROLS = 2
"""A reference that did not pass is tried a second time: on a busy machine it may have been too slow."""

T = TypeVar("T")


class Fault(Value):
    """A failure outside the sandbox, as sent from an actor to the driver and stored in ``result.json``."""

    kind: Kind
    type: str
    text: str
    trace: str = ""
    where: str = ""
    """Name of the post that failed, if known."""


class Failed(Exception):
    """A fault that an actor reported as a value. Only the driver raises it; it never crosses processes."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault

    def __reduce__(self) -> tuple[type["Failed"], tuple[Fault]]:
        return type(self), (self.fault,)


def fault_of(error: Exception) -> Fault:
    """Classify an exception by the table above."""
    if isinstance(error, Failed):
        return error.fault
    kind: Kind = "bug"
    if isinstance(error, ControlError):
        kind = "reference"
    elif isinstance(error, InfrastructureError | OSError | MemoryError):
        kind = "infrastructure"
    elif isinstance(error, UserError):
        kind = "user"
    told = isinstance(error, InfrastructureError | UserError)
    trace = "" if told else "".join(traceback.format_exception(error))
    where = error.where if isinstance(error, HcRayError) else ""
    return Fault(
        kind=kind, type=type(error).__name__, text=str(error) or type(error).__name__, trace=trace, where=where
    )


def limit(kind: Kind, retries: RetryConfig) -> int:
    """Total number of attempts for a kind of fault."""
    return {"infrastructure": retries.attempts, "reference": min(CONTROLS, retries.attempts)}.get(kind, 1)


def backoff(retries: RetryConfig, number: int, who: str) -> float:
    """Seconds between the ``number``-th attempt and the next: doubled each time, plus up to half of that as jitter,
    derived from ``who``, so that attempts that failed together are not repeated together."""
    share = int.from_bytes(hashlib.sha256(f"{who}:{number}".encode()).digest()[:4]) / (1 << 32)
    return min(LONGEST, retries.backoff_sec * 2.0 ** (number - 1)) * (1 + share / 2)


async def persist(
    work: Callable[[], Awaitable[T]],
    *,
    stage: Stage,
    who: str,
    retries: RetryConfig,
    note: Callable[[Attempt], None],
    mend: Callable[[Fault], Awaitable[None]],
    pause: Callable[[float], Awaitable[None]],
) -> T:
    """Repeat ``work`` until it succeeds; when no attempts are left, raise the last one's exception.

    ``note`` receives each failed attempt; ``mend`` repairs what it can (if it raises, no attempt follows); ``pause``
    waits. A cancellation is not a failure."""
    number = 0
    while True:
        number += 1
        try:
            return await work()
        except Exception as error:
            fault = fault_of(error)
            again = number < limit(fault.kind, retries)
            wait = backoff(retries, number, f"{who}:{stage}") if again else None
            note(attempt_of(fault, stage, number, wait))
            if fault.kind == "infrastructure":
                await mend(fault)
            if wait is None:
                raise
            await pause(wait)


def now() -> str:
    """The current time in UTC, as ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat()


def attempt_of(fault: Fault, stage: Stage, number: int, wait: float | None) -> Attempt:
    """The record of a failed attempt."""
    return Attempt(
        stage=stage,
        number=number,
        error_type=fault.type,
        error=fault.text,
        trace=fault.trace,
        at=now(),
        again_after_sec=None if wait is None else round(wait, 3),
    )
