import pickle

import pytest

from hc_ray.domain import trial
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.trial import TrialKey
from hc_ray.domain.value import Value


@pytest.fixture
def hashed(monkeypatch):
    """What was hashed, in order."""
    seen = []
    digest_of = trial.digest_of

    def counted(data):
        seen.append(data)
        return digest_of(data)

    monkeypatch.setattr(trial, "digest_of", counted)
    return seen


def key(seed: int = 0) -> TrialKey:
    return TrialKey(
        task="pack/double", task_digest="d" * 64, agent="hc", solver=SolverConfig(), seed=seed,
        models={"solver": "m"}, prompts={"solver": "p"}, sandbox="bwrap", grading="isolated",
    )  # fmt: skip


def test_a_key_is_hashed_once_however_often_and_in_whatever_process_it_is_asked_for(hashed):
    one = key()
    assert len({(one.name, one.digest) for _ in range(50)}) == 1 and one.name == f"pack_double__{one.digest[:8]}"
    assert len(hashed) == 1

    class Asks(Value):
        key: TrialKey

    one = key()
    name = one.name
    hashed.clear()
    arrived = pickle.loads(pickle.dumps(one))
    assert (arrived, arrived.name, Asks(key=arrived).key.name) == (one, name, name) and not hashed


def test_a_copy_with_another_seed_has_another_name_and_an_asked_key_is_the_value_it_was():
    one = key()
    name, digest = one.name, one.digest
    other = one.model_copy(update={"seed": 1})
    assert (other.name, other.digest) == (key(1).name, key(1).digest) and other.name != name and other.digest != digest
    assert one.model_copy().name == name
    one, other = key(), key()
    before = one.model_dump_json()
    assert one.name and one == other
    assert one.model_dump_json() == before and repr(one) == repr(other)
    assert TrialKey.model_validate_json(before).name == one.name
