"""``trajectory.json`` is valid ATIF: by the schema of Harbor's own classes (``data/``), and by the rules that no schema
says; every trial's candidates stand in it as subagents."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hc_ray.domain.config import AgentName, SolverConfig
from hc_ray.domain.prompt import Completion, Message, Prompt
from hc_ray.domain.trial import TrialKey
from hc_ray.search.trial_outcome import Exchange, TrialOutcome
from hc_ray_actors.driver.trajectory import SCHEMA, trajectory
from tests.unit.test_orchestrate import RIGHT, WRONG, Bench, scripted

ATIF = json.loads((Path(__file__).parent / "data" / "atif-1.8.schema.json").read_text())
CHECKER = jsonschema.Draft202012Validator(ATIF)


def faults(told: dict[str, Any]) -> list[str]:
    """What is wrong with a trajectory; empty for a valid one."""
    found = [f"{error.json_path}: {error.message[:200]}" for error in CHECKER.iter_errors(told)]
    subagents = told.get("subagent_trajectories") or []
    names = [one.get("trajectory_id") for one in subagents]
    found += ["ids of subagents are not unique"] if len(set(names)) < len(names) else []
    for step in told["steps"]:
        for result in (step.get("observation") or {}).get("results", []):
            refs = [ref.get("trajectory_id") for ref in result.get("subagent_trajectory_ref") or []]
            found += [f"{ref} resolves to no subagent" for ref in refs if ref not in names]
            calls = [call["tool_call_id"] for call in step.get("tool_calls") or []]
            if result.get("source_call_id") not in (None, *calls):
                found.append("a result of no call")
    if [step["step_id"] for step in told["steps"]] != list(range(1, len(told["steps"]) + 1)):
        found.append("steps are not numbered from 1")
    return found + [fault for one in subagents for fault in faults(one)]


def told_of(outcome: TrialOutcome, agent: AgentName = "hc", model: str | None = "small") -> dict[str, Any]:
    key = TrialKey(task="t", task_digest="a" * 64, agent=agent, solver=SolverConfig(), seed=0, models={}, prompts={},
                   sandbox="fake", grading="isolated")  # fmt: skip
    # As it is written: through JSON, nulls included.
    return json.loads(json.dumps(trajectory(key, outcome, model)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("agent", ["raw", "best_of_n", "hc"])
async def test_every_agents_trajectory_is_valid_atif_with_its_candidates_as_subagents(agent: AgentName) -> None:
    outcome = await Bench(scripted(WRONG, RIGHT)).solve(agent, SolverConfig(max_answer_tokens=60, max_rounds=2))
    told = told_of(outcome, agent)
    assert faults(told) == [] and told["schema_version"] == SCHEMA
    subagents = {one["trajectory_id"]: one for one in told["subagent_trajectories"]}
    assert {one.id for one in outcome.candidates} <= set(subagents)
    assert [one["extra"]["chosen"] for name, one in subagents.items() if name == outcome.chosen] == [True]
    scores = outcome.selection.scores if outcome.selection else {}
    assert {name: one["extra"]["score"] for name, one in subagents.items() if name in scores} == dict(scores)
    answers = [step["message"] for one in subagents.values() for step in one["steps"] if step.get("llm_call_count")]
    assert sorted(answers) == sorted(one.completion.text for one in outcome.exchanges)


def test_a_trial_that_came_to_nothing_is_valid_too() -> None:
    assert faults(told_of(TrialOutcome(instruction="Do it."), model=None)) == []


def test_what_tools_were_called_stands_in_the_steps_and_words_put_into_a_mouth_are_marked() -> None:
    asked = (Message(role="user", content="u"), Message(role="assistant", content="a"),
             Message(role="user", content="v"))  # fmt: skip
    prompt = Prompt(role="solver", purpose="turn", messages=asked)
    answers = ("```write a.py\nx\n```", "no action")
    exchanges = tuple(Exchange(owner=f"c1.{i}", prompt=prompt, completion=Completion(text=one))
                      for i, one in enumerate(answers))  # fmt: skip
    told = told_of(TrialOutcome(instruction="Do it.", exchanges=exchanges))
    assert faults(told) == []
    steps, silent = (one["steps"] for one in told["subagent_trajectories"])
    assert steps[1]["is_copied_context"] and "llm_call_count" not in steps[1]
    assert steps[3]["tool_calls"] == [{"tool_call_id": "call-4-1", "function_name": "write",
                                       "arguments": {"argument": "a.py", "body": "x\n"}}]  # fmt: skip
    assert "tool_calls" not in silent[3]


BREAKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "an unknown key": lambda told: told.update(score=1),
    "an unknown version": lambda told: told.update(schema_version="ATIF-v9"),
    "no steps": lambda told: told.update(steps=[]),
    "a model that is the user": lambda told: told["steps"][0].update(model_name="m"),
    "an unknown source": lambda told: told["steps"][0].update(source="tester"),
    "metrics without a call": lambda told: told["steps"][1].update(metrics={"prompt_tokens": 1}),
    "a gap in the numbers": lambda told: told["steps"][1].update(step_id=5),
    "a subagent without a name": lambda told: told["subagent_trajectories"][0].pop("trajectory_id"),
    "a subagent twice": lambda told: told["subagent_trajectories"].append(told["subagent_trajectories"][0]),
    "a fault in a subagent": lambda told: told["subagent_trajectories"][0]["steps"][0].update(odd=1),
    "a reference to nothing": lambda told: told["subagent_trajectories"].pop(),
}


@pytest.mark.parametrize("what", BREAKS)
def test_the_check_sees_what_is_no_atif(what: str) -> None:
    prompt = Prompt(role="solver", purpose="candidate", text="u")
    exchange = Exchange(owner="c1.0", prompt=prompt, completion=Completion(text="a"))
    told = told_of(TrialOutcome(instruction="Do it.", exchanges=(exchange,)))
    broken = copy.deepcopy(told)
    BREAKS[what](broken)
    assert faults(told) == [] and faults(broken) != []
