"""How far a sweep is, read from its directory: committed trials, the journal's last events, and the owner's lease."""

import json
import time
from typing import Any

from hc_ray.domain.events import EngineUse, PostState, SlotUse
from hc_ray.domain.ports import Store
from hc_ray.machine.owner import is_alive, machine
from hc_ray.reports.crew_view import CrewView, as_data
from hc_ray.reports.report import read_sweep

TOLD: dict[str, type[PostState | SlotUse | EngineUse]] = {
    "post_state": PostState, "slot_use": SlotUse, "engine_use": EngineUse,
}  # fmt: skip
SILENT = 60.0
"""Seconds without a renewed lease after which an owner on another machine counts as gone."""


def status_of(store: Store) -> dict[str, Any]:
    """``status --json``. ``owner`` is ``running``, ``ended`` or ``gone`` (killed; ``sweep --resume`` goes on)."""
    sweep = read_sweep(store)
    done = {path.split("/")[1] for path in store.list("trials") if path.endswith("/result.json")}
    owner = _owner(store)
    events = _events(store)
    last = events[-1] if events else None
    return {
        "schema_version": 1,
        "planned": sweep.get("planned_trials"),
        "done": len(done),
        "owner": owner,
        **_crew(events),
        "running": _running(events, done) if owner == "running" else [],
        "last_event": None
        if last is None
        else {"type": last["type"], "seconds_ago": round(time.time() - last["at"], 1)},
        "errors": [{"trial": e["trial"], "text": e["text"]} for e in events if e["type"] == "error"][-5:],
    }


def _owner(store: Store) -> str | None:
    """None where no sweep was ever started here."""
    try:
        lease = json.loads(store.read("lease.json"))
    except (FileNotFoundError, ValueError):
        return None
    if lease.get("released"):
        return "ended"
    if lease.get("machine") == machine():
        return "running" if is_alive(str(lease.get("owner"))) else "gone"
    return "running" if time.time() - float(lease.get("renewed_at") or 0) < SILENT else "gone"


def _events(store: Store) -> list[dict[str, Any]]:
    """The events of the journal, oldest first; a segment that is being rewritten is skipped."""
    events = []
    for path in store.list("events"):
        for line in store.read(path).decode().splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue
    return events


def _crew(events: list[dict[str, Any]]) -> dict[str, Any]:
    view = CrewView()
    for event in events:
        if kind := TOLD.get(event["type"]):
            view.take(kind.model_validate(event))
    return as_data(view)


def _running(events: list[dict[str, Any]], done: set[str]) -> list[dict[str, Any]]:
    trials: dict[str, dict[str, Any]] = {}
    for event in events:
        name = str(event.get("trial"))
        if event["type"] == "trial_start":
            trials[name] = {
                "trial": name, "task": event["task"], "agent": event["agent"], "config": event.get("config", ""),
                "seed": event["seed"], "turn": None, "best": None, "since": event["at"],
            }  # fmt: skip
        elif event["type"] == "trial_complete":
            trials.pop(name, None)
        elif name in trials and event["type"] == "heartbeat":
            trials[name]["turn"] = event["turn"]
            trials[name]["best"] = event["progress"] if event["best"] is not None else trials[name]["best"]
    return [
        {**trial, "seconds": round(time.time() - trial.pop("since"), 1)}
        for name, trial in trials.items()
        if name not in done
    ]
