"""``trajectory.json`` is valid ATIF: by the schema of Harbor's own classes, and by the rules that no schema
says; every trial's candidates stand in it as subagents."""

import pytest

from hc_ray.domain.config import AgentName, SolverConfig
from hc_ray.domain.prompt import Completion, Message, Prompt
from hc_ray.search.trial_outcome import Exchange, TrialOutcome
from hc_ray_actors.driver.trajectory import SCHEMA
from tests.fakes.trajectories import faults, told_of
from tests.fakes.trial import RIGHT, WRONG, Bench, scripted


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
