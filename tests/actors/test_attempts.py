import pytest

from hc_ray.domain import errors
from hc_ray.domain.config import RetryConfig
from hc_ray_actors.attempts import LONGEST, backoff, fault_of


@pytest.mark.parametrize(("kind", "faults"), [
    ("infrastructure", [errors.EngineError("dead"), errors.SandboxError("no daemon"), errors.VerifierError("no runner"),
                        errors.ActorError("killed"), errors.StoreError("gone"), OSError(28, "No space left on device"),
                        MemoryError()]),
    ("reference", [errors.ControlError("its reference fails")]),
    ("user", [errors.DatasetError("no such task")]),
    ("bug", [KeyError("x"), errors.LeakError("a canary")]),
])  # fmt: skip
def test_each_fault_is_of_one_kind_and_a_known_one_is_told_without_a_traceback(kind, faults):
    assert [fault_of(error).kind for error in faults] == [kind] * len(faults)
    assert fault_of(faults[0]).trace == "" or kind == "bug"


def test_the_back_off_doubles_up_to_its_limit_with_a_jitter_that_is_always_the_same():
    retries = RetryConfig(backoff_sec=2.0)
    waits = [backoff(retries, number, "a") for number in range(1, 9)]
    for number, wait in enumerate(waits):
        plain = min(LONGEST, 2.0 * 2**number)
        assert plain <= wait <= 1.5 * plain
    assert waits == [backoff(retries, number, "a") for number in range(1, 9)]
    assert waits != [backoff(retries, number, "b") for number in range(1, 9)]
