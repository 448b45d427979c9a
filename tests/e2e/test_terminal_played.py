"""The terminal dataset, played: a scripted engine that acts out each task's reference as a loop of actions. What stands
between a model that knows the answer and a pass (prompts, actions, sandboxes, submission, grading) must lose nothing.
One task each time (in Docker: tests/e2e/test_agent_user_graded.py); as a proof all tasks outside of the holdout, in
bubblewrap those that it takes, in Docker the others and some of these."""

import pytest

from hc_ray.reports.report import rows_of
from hc_ray.stores.sweep_directory import SweepStore
from tests.fakes.sandbox_home import data_home
from tests.fakes.sweeps import swept
from tests.fakes.terminal_tasks import DATASET, NAMES, PLAYED, builds_an_image

CHOSEN = ("*/tidy-site-tree",)
IN_DOCKER = tuple(f"*/{name}" for at, name in enumerate(NAMES) if at % 12 == 0 or builds_an_image(name))
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("backend", "include", "least"), [
    pytest.param("bwrap", CHOSEN, 1, id="one", marks=pytest.mark.part),
    pytest.param("bwrap", (), 15, id="bwrap", marks=pytest.mark.proof),
    pytest.param("docker", IN_DOCKER, 5, id="docker", marks=[pytest.mark.docker, pytest.mark.proof]),
])  # fmt: skip
def test_a_model_that_plays_the_references_passes_every_task(backend, include, least, tmp_path):
    with data_home():
        plan, summary = swept(tmp_path / "out", DATASET, sandbox=backend, include=include, **PLAYED)
    assert not summary.interrupted
    rows = rows_of(SweepStore(str(tmp_path / "out")))
    assert {row["task"]: row["passed"] for row in rows} == dict.fromkeys((task.name for task in plan.taken), True)
    assert len(rows) >= least and all(row["turns"] == 5 for row in rows)
