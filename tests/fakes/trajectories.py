"""``trajectory.json`` as it is written, and what of it is not ATIF."""

import json
from pathlib import Path
from typing import Any

import jsonschema

from hc_ray.domain.config import AgentName, SolverConfig
from hc_ray.domain.trial import TrialKey
from hc_ray.search.trial_outcome import TrialOutcome
from hc_ray_actors.driver.trajectory import trajectory

ATIF = json.loads((Path(__file__).with_name("atif-1.8.schema.json")).read_text())
CHECKER = jsonschema.Draft202012Validator(ATIF)


def faults(told: dict[str, Any]) -> list[str]:
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
