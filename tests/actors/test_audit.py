import pytest

from hc_ray.domain.errors import DatasetError, VerifierError
from hc_ray.domain.task import Environment, Task
from hc_ray_actors.jobs.audit import _task
from hc_ray_actors.jobs.audit_subjects import Subject


@pytest.mark.parametrize("fault", [VerifierError("the sandbox is gone"), DatasetError("t: it has no solution")])
async def test_a_task_that_cannot_be_looked_at_is_unmeasured_and_ends_no_audit(fault):
    async def look_at(task, state, tests, repeats):
        raise fault

    task = Task(name="t", digest="ab" * 32, instruction="Do it.", environment=Environment())
    evidence, bits, lost = await _task(look_at, Subject(task=task))
    assert (evidence.unmeasured, bits, lost) == (str(fault), {}, 1)
