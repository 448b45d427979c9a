"""The terminal dataset, played: a scripted engine that acts out each task's reference as a loop of actions. What stands
between a model that knows the answer and a pass (prompts, actions, sandboxes, submission, grading) must lose nothing.
One task each time (in Docker: tests/e2e/test_agent_user_graded.py); all tasks outside of the holdout as a proof."""

from pathlib import Path

import pytest

from hc_ray.domain.config import EngineConfig
from hc_ray.machine.paths import configs_dir
from hc_ray.reports.report import rows_of
from hc_ray.stores.sweep_directory import SweepStore
from tests.fakes.sandbox_home import data_home
from tests.fakes.sweeps import swept

DATASET = configs_dir() / "tasks" / "terminal"
CHOSEN = ("*/tidy-site-tree",)
PLAYED = {"agents": ("raw",), "engine": EngineConfig(kind="scripted", script="tests.fakes.plays_reference:answer",
                                                     context_tokens=65_536),
          "solver": {"agent_style": "loop", "max_answer_tokens": 4000}, "budget": {"tokens": 200_000}}  # fmt: skip
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("backend", "include"), [
    pytest.param("bwrap", CHOSEN, id="one", marks=pytest.mark.part),
    pytest.param("bwrap", (), id="bwrap", marks=pytest.mark.proof),
    pytest.param("docker", (), id="docker", marks=[pytest.mark.docker, pytest.mark.proof]),
])  # fmt: skip
def test_a_model_that_plays_the_references_passes_every_task(backend, include, tmp_path, monkeypatch):
    monkeypatch.setenv("HC_PLAYED_DATASET", str(DATASET))
    with data_home():
        plan, summary = swept(tmp_path / "out", DATASET, sandbox=backend, include=include, **PLAYED)
    assert not summary.interrupted
    rows = rows_of(SweepStore(str(tmp_path / "out")))
    assert {row["task"]: row["passed"] for row in rows} == dict.fromkeys((task.name for task in plan.taken), True)
    assert len(rows) >= (1 if include else 15) and all(row["turns"] == 5 for row in rows)


def test_the_script_finds_every_reference():
    folders = [path.parent for path in DATASET.glob("*/task.toml")]
    assert folders and all((Path(folder) / "solution" / "solve.sh").is_file() for folder in folders)
