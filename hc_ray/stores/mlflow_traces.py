"""A trial's trajectory as the spans of a trace: the trial, in it what was asked for tests and for each candidate, in
these the single requests. When a search turned is known from the journal; a request has the times of its search."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from hc_ray.domain.journal import events_of
from hc_ray.domain.ports import Store
from hc_ray.domain.value import Value
from hc_ray.stores.mlflow_story import milliseconds

Turns = Mapping[str, float]
"""``testgen`` or a round's candidates (``c3``) → when that was done, in seconds since 1970."""


class Span(Value):
    """One span; its times are in nanoseconds since 1970."""

    id: str
    parent: str | None
    name: str
    kind: str
    start: int
    end: int
    inputs: Any
    outputs: Any
    attributes: dict[str, Any] = {}


def turns_of(store: Store, where: str = "") -> Mapping[str, Turns]:
    """By trial of the sweep in the folder ``where``; of a trial that began anew the later times count."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for event in events_of(store, b'"action"', where=where):
        if event["name"] == "suite":
            found[event["trial"]]["testgen"] = event["at"]
        elif event["name"] == "round":
            found[event["trial"]][f"c{event['detail']['number']}"] = event["at"]
    return found


def spans_of(store: Store, row: Mapping[str, Any], turns: Turns) -> tuple[Span, ...]:
    """Of a committed trial, by its row in the report; the first one is the trial. None where it left no trajectory."""
    try:
        told = json.loads(store.read(f"{row.get('where', '')}trials/{row['trial']}/agent/trajectory.json"))
    except FileNotFoundError:
        return ()
    start, end = (milliseconds(row[name]) * 1_000_000 for name in ("started_at", "finished_at"))
    steps = told["steps"]
    seen = {name: row[name] for name in ("trial", "agent", "seed", "passed", "self_pass", "score", "stop_reason")}
    spans = [Span(id="trial", parent=None, name=row["task"], kind="AGENT", start=start, end=end,
                  inputs=_text(steps[:1]), outputs=_text(steps[1:][-1:]), attributes=seen)]  # fmt: skip
    marks = sorted(int(at * 1e9) for at in turns.values())
    for part in told.get("subagent_trajectories", []):
        owner, until = part["trajectory_id"], end
        if at := turns.get(owner.split(".")[0]):
            until = min(max(start, int(at * 1e9)), end)
        since = max((mark for mark in marks if start <= mark < until), default=start) if until < end else start
        requests = list(_requests(part["steps"], owner, since, until))
        purpose = part.get("extra", {}).get("purpose", "")
        spans.append(
            Span(id=owner, parent="trial", name=owner, kind="CHAIN", start=since, end=until, inputs=purpose,
                 outputs=_text(part["steps"][-1:]))
        )  # fmt: skip
        spans += requests
    return tuple(spans)


def _requests(steps: Iterable[Mapping[str, Any]], owner: str, start: int, end: int) -> Iterable[Span]:
    """One span per answer; its input is the text since the previous answer."""
    said: list[dict[str, str]] = []
    for step in steps:
        if step["source"] != "agent":
            said.append({"role": step["source"], "content": _text([step])})
            continue
        if metrics := step.get("metrics"):
            counts = metrics.get("prompt_tokens") or 0, metrics.get("completion_tokens") or 0
            usage = dict(zip(("input_tokens", "output_tokens", "total_tokens"), (*counts, sum(counts)), strict=True))
            answer = {"choices": [{"message": {"role": "assistant", "content": _text([step])}}]}
            yield Span(
                id=f"{owner} {step['step_id']}", parent=owner, name=step.get("model_name") or "answer",
                kind="CHAT_MODEL", start=start, end=end, inputs={"messages": said}, outputs=answer,
                attributes={**(metrics.get("extra") or {}), "mlflow.chat.tokenUsage": usage},
            )  # fmt: skip
            said = []
        for result in (step.get("observation") or {}).get("results", []):
            if result.get("content"):
                said.append({"role": "tool", "content": str(result["content"])})


def _text(steps: Iterable[Mapping[str, Any]]) -> str:
    """A step's text; empty if it has none."""
    return "\n".join(str(step.get("message") or "") for step in steps)
