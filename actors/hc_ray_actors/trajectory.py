"""A trial's ``trajectory.json``: ATIF (Agent Trajectory Interchange Format, Harbor) 1.7, each candidate as a subagent
trajectory. What the model was asked and answered stands there in full; scores go to ``extra``."""

from typing import Any

from hc_ray import __version__
from hc_ray.prompt import Prompt
from hc_ray.solve.outcome import Exchange, TrialOutcome
from hc_ray.trial import TrialKey, TrialResult

SCHEMA = "ATIF-v1.7"


def trajectory(key: TrialKey, outcome: TrialOutcome, result: TrialResult) -> dict[str, Any]:
    """The whole trial. The root's steps are its stages; a candidate's exchanges stand in its own trajectory."""
    model = (result.agent_info.model_info or {}).get("name")
    agent = {"name": f"hc-ray/{key.agent}", "version": __version__, "model_name": model}
    groups: dict[str, list[Exchange]] = {}
    for exchange in outcome.exchanges:
        groups.setdefault(exchange.owner, []).append(exchange)
    subagents = [
        {
            "schema_version": SCHEMA,
            "session_id": key.name,
            "trajectory_id": owner,
            "agent": agent,
            "steps": _steps(exchanges, model),
            "extra": {"purpose": exchanges[0].prompt.purpose},
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
            "model_name": model,
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
    for exchange in exchanges:
        for source, text in _asked(exchange.prompt):
            steps.append({"step_id": len(steps) + 1, "source": source, "message": text})
        completion = exchange.completion
        steps.append(
            {
                "step_id": len(steps) + 1,
                "source": "agent",
                "model_name": model,
                "message": completion.text,
                "metrics": {
                    "prompt_tokens": completion.prompt_tokens,
                    "completion_tokens": completion.completion_tokens,
                    "extra": {"seed": exchange.prompt.seed, "temperature": exchange.prompt.temperature},
                },
            }
        )
    return steps


def _asked(prompt: Prompt) -> list[tuple[str, str]]:
    """Source and text of what was asked; a completion prompt is the user's text."""
    if prompt.text is not None:
        return [("user", prompt.text)]
    sources = {"system": "system", "user": "user", "assistant": "agent"}
    return [(sources[message.role], message.content) for message in prompt.messages]
