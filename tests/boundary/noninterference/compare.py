"""What two runs of the same trials may differ in when only the hidden tests differ: the clock, the run's own name, and
what a verdict writes after it. Every field that is left out of the comparison stands here by name. What models are
shown is true, so prompts, and the files that repeat what prompts or self-tests said, are compared in normal form
(``tests.fakes.normal_form``); everything else byte for byte."""

import itertools
import json
from typing import Any

from hc_ray.stores.sweep_directory import read_parquet
from tests.fakes.normal_form import of_data, of_request
from tests.fakes.recording import Phase, Seen

CLOCK = {
    "at": "when an event was recorded",
    "elapsed_ms": "how long the trial has run",
    "engine_seconds": "how long the engine took",
    "started_at": "when something began",
    "finished_at": "when something ended",
    "renewed_at": "when the sweep directory's owner last said that it lives",
    "start_time": "when MLflow is told that the sweep began",
    "end_time": "when MLflow is told that it ended",
    "seconds": "how long something took",
    "phases": "what a trial's time went to",
}
"""Fields that only tell the time, wherever they stand."""

ACCOUNTS = {
    "engine_use": "what an engine's slots did every ten seconds, of all trials together",
    "slot_use": "what nodes' slots did every ten seconds, of all trials together",
    "processor_use": "what used the machine's processors",
}
"""Events of the sweep that only account for time."""

IDENTITY = {
    "sweep.json": {
        "sweep_id": "names this run, after when it began",
        "versions.git_sha": "the checkout's commit: somebody may commit between two runs",
        "sealed_digest": "says which hidden tests judged, so that a resume refuses others; no solver reads it",
    },
    "lease.json": {"owner": "the process", "pid": "the process"},
    "tracker": {
        "run_name": "names this run, after when it began",
        "tags.hc_ray.sweep_id": "the same",
        "tags.git_sha": "the checkout's commit",
        "tags.mlflow.source.git.commit": "the checkout's commit",
    },
}
"""Fields that tell which run it was, by file."""

JUDGED = {
    "verifier_result": "the verdict",
    "verifier": "when the verdict was made",
    "agent_result.metadata.score": "the verdict with turns and progress",
    "agent_result.metadata.bits": "the verdict",
    "agent_result.metadata.witness": "what was said beside the verdict, after it",
    "agent_result.metadata.cause": "what was said beside the verdict, after it",
    "agent_result.metadata.left_behind": "what grading did not carry over, after the search",
}
"""Fields of result.json that are the verdict's, written after it and read by no solver."""

JUDGED_EVENTS = {"passed": "the verdict", "score": "the verdict with turns and progress"}
"""Fields of the driver's events after a verdict."""

JUDGED_METRICS = {
    "blind_pass_rate": "the verdicts",
    "blind_pass_rate_low": "the verdicts",
    "blind_pass_rate_high": "the verdicts",
    "blind_pass_rate_unscored_as_fail": "the verdicts",
    "score": "the verdicts with turns and progress",
    "selection_efficiency": "how verdicts and candidates go together",
}
"""Metrics that MLflow is told after the last verdict."""

DERIVED = ("report.json", "report.html", "tables/")
"""Tables of verdicts, made after the last one: only their names are compared."""
DERIVED_TRACKED = {
    "report.html": "the report's page",
    "report.json": "the report",
    "trials.json": "a row a trial, with its verdict",
    "tags.mlflow.note.content": "the report's comparisons of agents",
    **dict.fromkeys((f"{part}.{name}" for part in ("tags", "attributes") for name in ("passed", "score")), "a trace"),
}
"""The same at the tracker."""


TRUE = {
    "trajectory.json": "what was asked and answered",
    "matrix.parquet": "what the self-tests said of each candidate",
}
"""Files that repeat what models were shown: compared in normal form."""


def without(data: Any, paths: set[str], at: str = "") -> Any:
    """Plain data without the clock's fields and without those at dotted ``paths``."""
    if isinstance(data, dict):
        kept = {name: (value, f"{at}.{name}".lstrip(".")) for name, value in data.items() if name not in CLOCK}
        return {name: without(value, paths, here) for name, (value, here) in kept.items() if here not in paths}
    return [without(one, paths, at) for one in data] if isinstance(data, list) else data


def comparable(path: str, data: bytes) -> Any:
    """A file as it has to be equal: byte for byte, or without the fields that are named above."""
    if path.startswith((*DERIVED, "events/")):
        return None  # Events are compared trial by trial: the trials share the journal, in the order of arrival.
    path = "lease.json" if path.startswith("epochs/0") else path  # claimed with a lease's words
    name = path.rsplit("/", 1)[-1]
    if path.endswith(".parquet") and name in TRUE:
        rows = read_parquet(data)
        return data if (told := of_data(rows)) == rows else told
    if not path.endswith(".json"):
        return data
    kept = without(json.loads(data), set(IDENTITY.get(path, {})) | set(JUDGED if name == "result.json" else ()))
    return of_data(kept) if name in TRUE else kept


def tracked(calls: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """What the tracker was told, as it has to be equal."""
    left_out = {*IDENTITY["tracker"], *DERIVED_TRACKED, *(f"metrics.{name}" for name in JUDGED_METRICS)}
    kept = []
    for call, told in calls:
        if call.startswith("log_text") and call.rsplit(" ", 1)[-1] in DERIVED_TRACKED:
            told = None
        told = without(told, left_out)  # texts, tables and traces repeat what models were shown
        kept.append((call, of_data(told) if call.startswith(("log_text", "log_spans", "start_trace")) else told))
    return kept


def asked(phase: Phase) -> list[bytes]:
    """What the engine was asked, in normal form; sorted, since requests of a round are sent side by side."""
    return sorted(map(of_request, phase.requests))


def events(phase: Phase) -> Any:
    return [without(event, set()) for event in phase.events if event["type"] not in ACCOUNTS]


def leaks(one: Seen, other: Seen, *, scored: bool = True) -> list[str]:
    """What differs between two runs up to the first verdicts, and what differs after them beside the fields named
    above: one line each, empty where nothing does. Without ``scored`` a trial's files and what the tracker was told of
    them are left out: a trial that got no verdict has other ones."""
    if set(one.phases) != set(other.phases):
        return ["names of trials"]
    found = []
    for trial in one.phases:
        before, after = one.phases[trial][0], other.phases[trial][0]
        told = (asked(before), asked(after))
        if not (trial or scored):
            # After a missing verdict actors are started anew, and probe the engine again.
            told = (sorted(set(told[0])), sorted(set(told[1])))
        found += [f"{trial}: requests"] * (told[0] != told[1])
        found += [f"{trial}: sandboxes"] * (before.sandboxes != after.sandboxes)
        found += [f"{trial}: journal"] * (events(before) != events(after))
        path = f"trials/{trial}/artifacts/submission.tar"
        found += [f"{trial}: submission"] * (scored and one.files.get(path) != other.files.get(path))
    found += [f"public: {path}" for path in _differing(one.public, other.public)]
    if scored:
        drivers = [
            {
                trial: [without(event, set(JUDGED_EVENTS)) for event in told if event["type"] not in ACCOUNTS]
                for trial, told in run.driver_events.items()
            }
            for run in (one, other)
        ]
        found += ["driver's events"] * (drivers[0] != drivers[1])
        stored = [{path: comparable(path, data) for path, data in run.files.items()} for run in (one, other)]
        found += [f"file: {path}" for path in _differing(*stored)]
        found += ["tracker"] * (tracked(one.tracked) != tracked(other.tracked))
    return found


def shown(one: Seen, other: Seen) -> str:
    """Where each trial first differs before its first verdict, for whoever has to find out why."""
    lines = []
    for trial in sorted(set(one.phases) & set(other.phases)):
        before, after = one.phases[trial][0], other.phases[trial][0]
        for what, pair in (
            ("event", (events(before), events(after))),
            ("request", (asked(before), asked(after))),
            ("sandbox", (before.sandboxes, after.sandboxes)),
        ):
            for here, there in itertools.zip_longest(*pair):
                if here != there:
                    lines.append(f"{trial} {what}:\n  {str(here)[:1500]}\n  {str(there)[:1500]}")
                    break
    for path in _differing(one.files, other.files):
        if path.startswith("trials/") and path.endswith(".parquet") and path in one.files and path in other.files:
            tables = (of_data(read_parquet(run.files[path])) for run in (one, other))
            first = next((pair for pair in itertools.zip_longest(*tables) if pair[0] != pair[1]), "the same rows")
            lines.append(f"{path}: {first}")
    return "\n".join(lines)


def _differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return [path for path in sorted({*one, *other}) if path not in one or path not in other or one[path] != other[path]]
