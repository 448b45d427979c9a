import base64
import json
from typing import Any, cast

import pytest

from hc_ray.domain.candidate import NO_TEXT, Candidate
from hc_ray.domain.errors import DatasetError, VerifierError
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.trial import TrialResult
from hc_ray.domain.value import digest_of
from hc_ray_actors.driver.trial_files import DIFFERENCES
from hc_ray_actors.jobs.audit import _task
from hc_ray_actors.jobs.audit_subjects import Subject, _trial
from tests.fakes.sweepdir import MemoryStore, add_trial


@pytest.mark.parametrize("kept", [False, True])
def test_a_candidate_that_is_more_than_text_is_graded_where_its_difference_was_kept(kept):
    texts, more = {"a.py": "A = 1\n"}, {"a.py": "A = 1\n", "a.out": f"{NO_TEXT}a file of 3 bytes, SHA-256 0a)"}
    pool = [
        Candidate(id=f"c1.{slot}", round=1, slot=slot, seed=0, temperature=0.3, form="chat", plan="plain", files=files)
        for slot, files in enumerate((texts, more, {}))
    ]
    store = MemoryStore()
    name = add_trial(store, "t", "hc", True)
    store.write(f"trials/{name}/agent/candidates.json", json.dumps([one.model_dump() for one in pool]).encode())
    result = TrialResult.model_validate_json(store.read(f"trials/{name}/result.json"))
    if kept:
        store.write(f"trials/{name}/{DIFFERENCES}/{digest_of(more)}.tar", b"tar")
    trial, states = _trial(cast(Any, store), name, result)
    assert {digest: state.files for digest, state in states.items()} == {
        digest_of(one): one for one in ((texts, more) if kept else (texts,))
    }
    tars = {digest: state.tar for digest, state in states.items() if state.tar}
    assert tars == ({digest_of(more): base64.b64encode(b"tar").decode()} if kept else {})
    assert [one[1] for one in trial.candidates] == [digest_of(texts), digest_of(more), digest_of({})]


@pytest.mark.parametrize("fault", [VerifierError("the sandbox is gone"), DatasetError("t: it has no solution")])
async def test_a_task_that_cannot_be_looked_at_is_unmeasured_and_ends_no_audit(fault):
    async def look_at(task, state, tests, repeats):
        raise fault

    task = Task(name="t", digest="ab" * 32, instruction="Do it.", environment=Environment())
    evidence, bits, lost = await _task(look_at, Subject(task=task))
    assert (evidence.unmeasured, bits, lost) == (str(fault), {}, 1)
