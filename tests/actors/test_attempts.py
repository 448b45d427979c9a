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
from hc_ray_actors.attempts import LONGEST, Failed, Fault, backoff, fault_of, persist


class Trouble:
    """Fails as often as it is told, and remembers what was done about it."""

    def __init__(self, *faults):
        self.faults = list(faults)
        self.notes = []
        self.waits = []
        self.mended = 0

    async def work(self):
        if self.faults:
            raise self.faults.pop(0)
        return "done"

    async def mend(self, fault):
        self.mended += 1

    async def pause(self, seconds):
        self.waits.append(seconds)

    async def persist(self, retries=None):
        return await persist(self.work, stage="solve", who="trial", retries=retries or RetryConfig(),
                             note=self.notes.append, mend=self.mend, pause=self.pause)  # fmt: skip


@pytest.mark.parametrize(("kind", "faults"), [
    ("infrastructure", [EngineError("dead"), SandboxError("no daemon"), VerifierError("no runner"),
                        ActorError("killed"), StoreError("gone"), OSError(28, "No space left on device"),
                        MemoryError()]),
    ("reference", [ControlError("its reference fails")]),
    ("user", [DatasetError("no such task")]),
    ("bug", [KeyError("x"), LeakError("a canary")]),
])  # fmt: skip
def test_each_fault_is_of_one_kind(kind, faults):
    assert [fault_of(error).kind for error in faults] == [kind] * len(faults)


def test_a_bug_is_told_with_its_traceback_and_a_known_fault_without():
    try:
        raise KeyError("x")
    except KeyError as error:
        assert "test_a_bug_is_told" in fault_of(error).trace
    assert fault_of(EngineError("dead")).trace == ""


async def test_what_succeeds_the_third_time_leaves_the_evidence_of_two_attempts_one_as_an_actor_reported_it():
    fault = Fault(kind="infrastructure", type="EngineError", text="two")
    trouble = Trouble(EngineError("one"), Failed(fault))
    assert await trouble.persist() == "done" and trouble.mended == 2
    told = [(note.number, note.error, note.error_type) for note in trouble.notes]
    assert told == [(1, "one", "EngineError"), (2, "two", "EngineError")]
    assert [note.again_after_sec for note in trouble.notes] == [round(wait, 3) for wait in trouble.waits]


@pytest.mark.parametrize(("fault", "attempts", "mended"), [
    (EngineError, 4, 4), (ControlError, 2, 0), (DatasetError, 1, 0), (KeyError, 1, 0), (asyncio.CancelledError, 0, 0),
], ids=["the machinery's, as often as allowed", "a reference's, once more", "a user's, never again",
        "a bug, never again", "a cancellation is no failure"])  # fmt: skip
async def test_the_last_attempt_raises_what_it_met_and_says_that_it_was_the_last(fault, attempts, mended):
    trouble = Trouble(*(fault(str(number)) for number in range(9)))
    with pytest.raises(fault, match=str(max(0, attempts - 1))):
        await trouble.persist(RetryConfig(attempts=4))
    assert (len(trouble.notes), trouble.mended, len(trouble.waits)) == (attempts, mended, max(0, attempts - 1))
    assert attempts == 0 or trouble.notes[-1].again_after_sec is None


def test_the_back_off_doubles_up_to_its_limit_with_a_jitter_that_is_always_the_same():
    retries = RetryConfig(backoff_sec=2.0)
    waits = [backoff(retries, number, "a") for number in range(1, 9)]
    for number, wait in enumerate(waits):
        plain = min(LONGEST, 2.0 * 2**number)
        assert plain <= wait <= 1.5 * plain
    assert waits == [backoff(retries, number, "a") for number in range(1, 9)]
    assert waits != [backoff(retries, number, "b") for number in range(1, 9)]
