import json
import pickle

from hc_ray.domain.config import SolverConfig
from hc_ray.domain.trial import TrialKey
from hc_ray_actors.tracker import prompts_in
from tests.fakes.sweepdir import MemoryStore


def key(seed: int = 0) -> TrialKey:
    return TrialKey(
        task="pack/double", task_digest="d" * 64, agent="hc", solver=SolverConfig(), seed=seed,
        models={"solver": "m"}, prompts={"solver": "p"}, sandbox="bwrap", grading="isolated",
    )  # fmt: skip


def test_a_key_that_another_version_kept_still_says_what_shaped_the_prompts():
    stored = key().model_dump(mode="json")
    older = {**stored, "older": 1, "solver": {**stored["solver"], "hint": "Mind the edges.", "attempts": 3}}
    store = MemoryStore()
    store.write("trials/t/config.json", json.dumps(older).encode())
    (prompts,) = prompts_in(store, [{"trial": "t", "config_hash": "c"}])["c"]
    assert prompts.role == "solver" and "Mind the edges." in prompts.text


def test_a_copy_with_another_seed_has_another_name_and_an_asked_key_is_the_value_it_was_in_any_process():
    one = key()
    name, digest = one.name, one.digest
    other = one.model_copy(update={"seed": 1})
    assert (other.name, other.digest) == (key(1).name, key(1).digest) and other.name != name and other.digest != digest
    assert one.model_copy().name == name
    one, other = key(), key()
    before = one.model_dump_json()
    assert one.name and one == other
    assert one.model_dump_json() == before and repr(one) == repr(other)
    arrived = pickle.loads(pickle.dumps(one))
    assert arrived == one and arrived.name == one.name == f"pack_double__{one.digest[:8]}"
    assert TrialKey.model_validate_json(before).name == one.name
