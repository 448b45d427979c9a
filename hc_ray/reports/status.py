"""A sweep's progress, read from its directory: committed trials, the journal's last events, and the owner's lease."""

import time
from collections.abc import Iterable, Set
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter

from hc_ray.domain.events import ErrorEvent, Event
from hc_ray.domain.ports import Store
from hc_ray.machine.cleanup import FAR
from hc_ray.machine.lease import LEASE, Held, heard
from hc_ray.machine.owner import is_alive
from hc_ray.reports.progress import SweepState
from hc_ray.reports.report import finished, read_sweep

_TRIAL, _ERROR = b'{"trial":"', b'"type":"error"'
"""The prefix of a journal line about a trial, and the mark of an error's line."""


def status_of(store: Store) -> dict[str, Any]:
    """The data of ``status --json``. ``owner`` is ``running``, ``ended`` or ``gone`` (killed; ``sweep --resume``
    continues)."""
    sweep = read_sweep(store)
    done = set(finished(store))
    owner, now = _owner(store)
    events, last = _events(store, {name.encode() for name in done})
    state = _told(events)
    running = [
        {"trial": name, **asdict(trial), "seconds": round(max(0.0, now - trial.started), 1)}
        for name, trial in state.running.items()
        if name not in done
    ]
    return {
        "schema_version": 1,
        "planned": sweep.get("planned_trials"),
        "done": len(done),
        "owner": owner,
        "nodes": [node.model_dump() for node in state.crew.nodes],
        "engines": state.crew.engines,
        "running": running if owner == "running" else [],
        "last_event": last and {"type": last.type, "seconds_ago": round(max(0.0, now - last.at), 1)},
        "errors": [{"trial": e.trial, "text": e.text} for e in events if isinstance(e, ErrorEvent)][-5:],
    }


def _owner(store: Store) -> tuple[str | None, float]:
    """The owner, None if no sweep was ever started here; and the time. For a sweep on another machine, that is the time
    by that machine's clock at its last renewal of the lease, some seconds ago."""

    def read() -> Held | None:
        try:
            return Held.model_validate_json(store.read(LEASE))
        except (FileNotFoundError, ValueError):
            return None

    if (held := read()) is None:
        return None, time.time()
    if held.released:
        return "ended", time.time()
    far = abs(time.time() - held.renewed_at) > FAR
    lives = is_alive(held.owner) if held.here else not far and heard(held, read)
    there = read() if lives and not held.here else None
    return "running" if lives else "gone", there.renewed_at if there else time.time()


def _events(store: Store, done: Set[bytes]) -> tuple[list[Event], Event | None]:
    """The journal's events, oldest first, without those of ``done`` trials except errors; and its last event. Parses
    only these, since a large sweep has millions. Skips a line that is being rewritten."""
    events, kinds, lines = list[Event](), TypeAdapter[Event](Event), list[bytes]()

    def read(line: bytes) -> list[Event]:
        try:
            return [kinds.validate_json(line)]
        except ValueError:
            return []

    for path in store.list("events"):
        for line in (lines := store.read(path).splitlines()):
            if line[len(_TRIAL) : line.find(b'"', len(_TRIAL))] not in done or _ERROR in line:
                events += read(line)
    return events, next((one for line in reversed(lines) for one in read(line)), None)


def _told(events: Iterable[Event]) -> SweepState:
    """The sweep's state after these events, by the journal's clock."""
    now = 0.0
    state = SweepState(total=0, now=lambda: now)
    for event in events:
        now = event.at
        state.take(event)
    return state
