from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from hc_ray.cli.text import plan_data, tell_plan, tell_trial
from hc_ray.domain.config import SweepConfig
from hc_ray.domain.task import Environment, RefusedTask, Task
from hc_ray.statistics.estimators import minimal_detectable_effect
from tests.fakes.screen import said


class Planned(BaseModel, extra="allow"):
    """What the verbs read of ``hc_ray_actors.driver.plan.Plan``."""


def plan(tasks: int = 8, refused: int = 0, **more: Any) -> Any:
    config = more.pop("config", SweepConfig())
    taken = tuple(Task(name=f"task-{i}", digest=str(i), instruction="x", environment=Environment())
                  for i in range(tasks))  # fmt: skip
    bad = tuple(RefusedTask(name=f"bad-{i}", reason="RUN steps need Docker") for i in range(refused))
    trials = tuple(SimpleNamespace(name=f"{task.name}__{agent}") for task in taken for agent in config.agents)
    fields = {
        "out": "runs/x", "config": config, "configs": (), "arms": len(set(config.agents) - {"oracle", "nop"}),
        "taken": taken, "refused": bad, "trials": trials, "done": 0, "estimated_tokens": 40000,
        "estimated_seconds": 320.0, "minimal_effect": minimal_detectable_effect(tasks), "sandbox": "bwrap",
        "sandbox_why": "no Docker socket answers", "place": "laptop", "nodes": (), "notes": ("no holdout is fixed",),
    }  # fmt: skip
    return Planned(**(fields | more))


def told(*args: Any, **kwargs: Any) -> str:
    return said(tell_plan, plan(*args, **kwargs))


def test_the_plan_says_what_is_taken_there_already_what_it_costs_and_what_it_could_see():
    text = told()
    for part in ("8 to run, 0 refused", "24 = 8 tasks x 3 agents", "40,000 tokens", "5 min 20 s if all are used, end",
                 "0.95 in blind", "bwrap: no Docker socket answers", "laptop", "no holdout is fixed"):  # fmt: skip
        assert part in text
    assert "3 tasks are too few" in told(tasks=3)
    assert "at least two of raw, best_of_n and hc" in told(config=SweepConfig(agents=("hc", "oracle")))
    assert "time not yet known" in told(estimated_seconds=None)
    assert "none needed" in told(config=SweepConfig(agents=("oracle", "nop"))) and "; 5 already done" in told(done=5)


def test_refused_tasks_are_named_with_their_reason_a_long_list_is_cut_aloud_and_json_names_all():
    text = told(refused=7)
    assert "bad-0" in text and "RUN steps need Docker" in text
    assert "bad-5" not in text and "and 2 more" in text
    assert "bad-6" in said(tell_plan, plan(refused=7), whole=True)
    data = plan_data(plan(refused=1))
    assert len(data["taken"]) == 8 and len(data["trials"]) == 24
    assert data["refused"] == [{"name": "bad-0", "reason": "RUN steps need Docker"}]
    assert data["config"]["budget"]["tokens"] == SweepConfig().budget.tokens


def test_a_trial_names_its_sandbox():
    result = {"agent_result": {"metadata": {"turns": 1}, "n_input_tokens": 5, "n_output_tokens": 6},
              "verifier_result": {"rewards": {"reward": 1.0}}}  # fmt: skip
    assert "bwrap: Docker lacks x:1" in said(
        tell_trial, result, {"sandbox": "bwrap", "sandbox_why": "Docker lacks x:1"}
    )


@pytest.mark.parametrize(("cause", "told"), [("failed", "verdict fail"), ("timeout", "verdict fail: timeout")])
def test_a_failed_trial_names_the_cause_where_it_is_another_than_the_tests(cause, told):
    result = {"agent_result": {"metadata": {"turns": 1, "cause": cause}, "n_input_tokens": 5, "n_output_tokens": 6},
              "verifier_result": {"rewards": {"reward": 0.0}}}  # fmt: skip
    lines = said(tell_trial, result, {"sandbox": "bwrap", "sandbox_why": ""}).splitlines()
    assert told in [" ".join(line.split()) for line in lines]
