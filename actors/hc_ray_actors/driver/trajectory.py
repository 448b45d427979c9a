"""A trial's ``trajectory.json`` in Harbor's Agent Trajectory Interchange Format (ATIF) 1.7, each candidate as a
subagent trajectory. It holds all prompts and answers in full; scores go to ``extra``."""

from typing import Any

from hc_ray import __version__
from hc_ray.agent.actions import read_actions, read_calls, spoken
from hc_ray.agent.role import Exchange
from hc_ray.domain.candidate import Candidate
from hc_ray.domain.prompt import Malformed, Prompt
from hc_ray.domain.trial import TrialKey
from hc_ray.reports.arms import grouped
from hc_ray.search.trial_outcome import TrialOutcome

SCHEMA = "ATIF-v1.7"


def trajectory(key: TrialKey, outcome: TrialOutcome, model: str | None) -> dict[str, Any]:
    """The trajectory of a trial. The root's steps are its stages; each candidate's exchanges are in its own trajectory,
    with its score and fate. ``model``: the solver's model name, for display."""
    agent = {"name": f"hc-ray/{key.agent}", "version": __version__, "model_name": model}
    groups = grouped(outcome.exchanges, lambda exchange: exchange.owner)
    subagents: list[dict[str, Any]] = [
        {
            "schema_version": SCHEMA,
            "session_id": key.name,
            "trajectory_id": owner,
            "agent": agent,
            "steps": _steps(exchanges, model),
            "extra": _candidate(owner, outcome) | {"purpose": exchanges[0].prompt.purpose},
        }
        for owner, exchanges in groups.items()
    ]
    refs = [{"trajectory_id": one["trajectory_id"], "session_id": key.name} for one in subagents]
    why = outcome.selection.why if outcome.selection else "nothing to choose from"
    root_steps: list[dict[str, Any]] = [
        {"step_id": 1, "source": "user", "message": outcome.instruction},
        {
            "step_id": 2,
            "source": "agent",
            "llm_call_count": 0,
            "message": f"submitted {outcome.chosen or 'the untouched workspace'}: {why}",
            "observation": {"results": [{"subagent_trajectory_ref": refs}]} if refs else {"results": []},
        },
    ]
    return {
        "schema_version": SCHEMA,
        "session_id": key.name,
        "trajectory_id": "trial",
        "agent": agent,
        "steps": root_steps,
        "final_metrics": {
            "total_prompt_tokens": outcome.prompt_tokens,
            "total_completion_tokens": outcome.completion_tokens,
            "total_steps": len(root_steps),
        },
        "subagent_trajectories": subagents,
        "extra": {"chosen": outcome.chosen, "stop_reason": outcome.stop_reason},
    }


def _steps(exchanges: list[Exchange], model: str | None) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    before: list[tuple[str, str]] = []
    for exchange in exchanges:
        asked = _asked(exchange.prompt)
        # A lineage's history only grows: the previous prompt and its answer have been written already.
        known = next((i for i, (a, b) in enumerate(zip(asked, before, strict=False)) if a != b), len(before))
        known += bool(before) and known == len(before) < len(asked) and asked[known][0] == "agent"
        before = asked
        for source, text in asked[known:]:
            step: dict[str, Any] = {"step_id": len(steps) + 1, "source": source, "message": text}
            # A prefilled answer in a prompt was not a call of the model.
            steps.append(step | ({"is_copied_context": True} if source == "agent" else {}))
        completion = exchange.completion
        steps.append(
            {
                "step_id": len(steps) + 1,
                "source": "agent",
                "model_name": model,
                "llm_call_count": 1,
                "message": completion.text,
                **({"reasoning_content": completion.reasoning} if completion.reasoning else {}),
                **_calls(exchange, len(steps) + 1),
                "metrics": {
                    "prompt_tokens": completion.prompt_tokens,
                    "completion_tokens": completion.completion_tokens,
                    "extra": {"seed": exchange.prompt.seed, "temperature": exchange.prompt.temperature},
                },
            }
        )
    return steps


def _calls(exchange: Exchange, step: int) -> dict[str, Any]:
    """The actions requested in a turn of a lineage."""
    answer = exchange.completion
    if exchange.prompt.purpose != "turn" or answer.finish_reason == "length":
        return {}
    found = read_calls(answer.tool_calls) if answer.tool_calls else read_actions(spoken(answer.text))
    if isinstance(found, Malformed) or not found:
        return {}
    return {
        "tool_calls": [
            {"tool_call_id": f"call-{step}-{i}", "function_name": one.name,
             "arguments": {"argument": one.argument, "body": one.body}}
            for i, one in enumerate(found, start=1)
        ]
    }  # fmt: skip


def _candidate(owner: str, outcome: TrialOutcome) -> dict[str, Any]:
    """A candidate's score and fate; empty for owners that are not candidates, such as the suite."""
    one: Candidate | None = next((each for each in outcome.candidates if each.id == owner), None)
    if one is None:
        return {}
    kept = {"parent", "lineage", "form", "plan", "malformed", "duplicate_of"}
    score = outcome.selection.scores.get(owner) if outcome.selection else None
    return {**one.model_dump(mode="json", include=kept), "score": score, "chosen": owner == outcome.chosen}


def _asked(prompt: Prompt) -> list[tuple[str, str]]:
    """(source, text) of each message of a prompt; a completion prompt counts as the user's text."""
    if prompt.text is not None:
        return [("user", prompt.text)]
    sources = {"system": "system", "user": "user", "assistant": "agent", "tool": "user"}
    return [(sources[message.role], message.content) for message in prompt.messages]
