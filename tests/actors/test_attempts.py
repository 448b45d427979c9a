import asyncio

import pytest

from hc_ray.domain.config import RetryConfig
from hc_ray.domain.errors import (
    ActorError,
    ControlError,
    DatasetError,
    EngineError,
    LeakError,
    SandboxError,
    StoreError,
    VerifierError,
)
from hc_ray.domain.trial import Attempt
from hc_ray_actors.attempts import LONGEST, Failed, Fault, backoff, fault_of, persist


class Trouble:
    """Fails as often as it is told, and remembers what was done about it."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.notes: list[Attempt] = []
        self.waits: list[float] = []
        self.mended = 0

    async def work(self) -> str:
        if self.faults:
            raise self.faults.pop(0)
        return "done"

    async def mend(self) -> None:
        self.mended += 1

    async def pause(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def persist(self, retries: RetryConfig | None = None) -> str:
        return await persist(
            self.work,
            stage="solve",
            who="trial",
            retries=retries or RetryConfig(),
            now=lambda: "now",
            note=self.notes.append,
            mend=self.mend,
            pause=self.pause,
        )


@pytest.mark.parametrize(("error", "kind"), [
    (EngineError("dead"), "infrastructure"),
    (SandboxError("no daemon"), "infrastructure"),
    (VerifierError("no runner"), "infrastructure"),
    (ActorError("killed"), "infrastructure"),
    (StoreError("gone"), "infrastructure"),
    (OSError(28, "No space left on device"), "infrastructure"),
    (MemoryError(), "infrastructure"),
    (ControlError("its reference fails"), "reference"),
    (DatasetError("no such task"), "user"),
    (KeyError("x"), "bug"),
    (LeakError("a canary"), "bug"),
])  # fmt: skip
def test_each_fault_is_of_one_kind(error: Exception, kind: str):
    assert fault_of(error).kind == kind


def test_a_bug_is_told_with_its_traceback_and_a_known_fault_without():
    try:
        raise KeyError("x")
    except KeyError as error:
        assert "test_a_bug_is_told" in fault_of(error).trace
    assert fault_of(EngineError("dead")).trace == ""


async def test_what_succeeds_the_third_time_leaves_the_evidence_of_two_attempts():
    trouble = Trouble(EngineError("one"), EngineError("two"))
    assert await trouble.persist() == "done"
    assert [(note.number, note.error, note.error_type) for note in trouble.notes] == [
        (1, "one", "EngineError"),
        (2, "two", "EngineError"),
    ]
    assert [note.again_after_sec for note in trouble.notes] == [round(wait, 3) for wait in trouble.waits]
    assert trouble.mended == 2


async def test_the_last_attempt_raises_what_it_met_and_says_that_it_was_the_last():
    trouble = Trouble(*(EngineError(str(n)) for n in range(9)))
    with pytest.raises(EngineError, match="3"):
        await trouble.persist(RetryConfig(attempts=4))
    assert len(trouble.notes) == 4 and trouble.notes[-1].again_after_sec is None


async def test_a_reference_that_fails_is_looked_at_once_more():
    trouble = Trouble(*(ControlError("fails") for _ in range(9)))
    with pytest.raises(ControlError):
        await trouble.persist()
    assert len(trouble.notes) == 2 and trouble.mended == 0


@pytest.mark.parametrize("error", [DatasetError("never"), KeyError("a bug")])
async def test_what_would_be_the_same_again_is_not_tried_again(error: Exception):
    trouble = Trouble(error, error)
    with pytest.raises(type(error)):
        await trouble.persist()
    assert len(trouble.notes) == 1 and trouble.waits == []


async def test_a_cancellation_is_no_failure():
    class Cancelled(Trouble):
        async def work(self) -> str:
            raise asyncio.CancelledError

    trouble = Cancelled()
    with pytest.raises(asyncio.CancelledError):
        await trouble.persist()
    assert trouble.notes == []


async def test_a_fault_that_an_actor_reported_keeps_its_evidence():
    fault = Fault(kind="infrastructure", type="EngineError", text="dead", prompt_tokens=70, completion_tokens=5)
    trouble = Trouble(Failed(fault))
    await trouble.persist()
    assert (trouble.notes[0].error_type, trouble.notes[0].prompt_tokens, trouble.notes[0].completion_tokens) == (
        "EngineError",
        70,
        5,
    )


def test_the_back_off_doubles_up_to_its_limit_with_a_jitter_that_is_always_the_same():
    retries = RetryConfig(backoff_sec=2.0)
    waits = [backoff(retries, number, "a") for number in range(1, 9)]
    for number, wait in enumerate(waits):
        plain = min(LONGEST, 2.0 * 2**number)
        assert plain <= wait <= 1.5 * plain
    assert waits == [backoff(retries, number, "a") for number in range(1, 9)]
    assert waits != [backoff(retries, number, "b") for number in range(1, 9)]
