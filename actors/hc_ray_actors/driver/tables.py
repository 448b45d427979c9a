"""``tables/*.parquet``: what stands in the trials' folders, as rows that a data frame can read. Derived, and rebuilt
whole each time."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hc_ray.domain.suite import Suite
from hc_ray.domain.value import canonical_json
from hc_ray.stores.sweep_directory import SweepStore, parquet, parquet_of, read_parquet

Read = Callable[[SweepStore, str], Iterator[dict[str, Any]]]
"""The rows of one trial, given its folder."""

COLUMNS = {
    "candidates": ("trial", "id", "round", "slot", "parent", "seed", "temperature", "form", "plan", "digest",
                   "duplicate_of", "malformed", "prompt_tokens", "completion_tokens", "engine_seconds"),
    "tests": ("trial", "id", "category", "subject", "input", "expectation", "confidence", "weight", "admitted",
              "reason"),
    "matrix": ("trial", "candidate", "test", "category", "outcome", "observed", "detail"),
    "turns": ("trial", "owner", "purpose", "seed", "temperature", "prompt_tokens", "completion_tokens"),
}  # fmt: skip
"""Table → its columns; ``trials`` has whatever the report's rows have."""
KINDS = {
    **dict.fromkeys(("round", "slot", "seed", "prompt_tokens", "completion_tokens"), "int64"),
    **dict.fromkeys(("temperature", "engine_seconds", "confidence", "weight"), "double"),
    "admitted": "bool",
}
"""Columns that hold no text."""
BATCH = 4_000
"""Rows that are in memory at once, or those of one trial."""


def write(store: SweepStore, trials: Sequence[Mapping[str, Any]]) -> None:
    """Write every table. ``trials`` are the report's rows."""
    store.write("tables/trials.parquet", parquet([_flat(row) for row in trials], () if trials else ("trial",)))
    names = sorted(store.finished())
    for table, read in (("candidates", _candidates), ("tests", _tests), ("matrix", _matrix), ("turns", _turns)):
        kinds = {name: KINDS.get(name, "string") for name in COLUMNS[table]}
        store.write(f"tables/{table}.parquet", parquet_of(_batches(store, names, read), kinds))


def _batches(store: SweepStore, names: Sequence[str], read: Read) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for name in names:
        rows += ({"trial": name, **row} for row in read(store, f"trials/{name}/agent"))
        if len(rows) >= BATCH:
            yield rows
            rows = []
    if rows:
        yield rows


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values as JSON text: a column has one type."""
    return {name: canonical_json(value) if isinstance(value, dict | list) else value for name, value in row.items()}


def _candidates(store: SweepStore, folder: str) -> Iterator[dict[str, Any]]:
    if data := store.find(f"{folder}/candidates.json"):
        yield from json.loads(data)


def _tests(store: SweepStore, folder: str) -> Iterator[dict[str, Any]]:
    if not (data := store.find(f"{folder}/suite.json")):
        return
    suite = Suite.model_validate_json(data)
    verdicts = {verdict.id: verdict for verdict in suite.gate}
    for test in (*suite.tests, *suite.dropped):
        verdict = verdicts.get(test.id)
        yield {
            **test.model_dump(mode="json", include={"id", "category", "input", "confidence", "weight"}),
            "subject": test.subject.kind,
            "expectation": canonical_json(test.expectation.model_dump(mode="json")),
            "admitted": verdict.admitted if verdict else None,
            "reason": verdict.reason if verdict else None,
        }


def _matrix(store: SweepStore, folder: str) -> Iterator[dict[str, Any]]:
    if data := store.find(f"{folder}/matrix.parquet"):
        yield from read_parquet(data)


def _turns(store: SweepStore, folder: str) -> Iterator[dict[str, Any]]:
    if not (data := store.find(f"{folder}/trajectory.json")):
        return
    for subagent in json.loads(data)["subagent_trajectories"]:
        for step in subagent["steps"]:
            if metrics := step.get("metrics"):
                yield {
                    "owner": subagent["trajectory_id"],
                    "purpose": subagent["extra"]["purpose"],
                    "prompt_tokens": metrics["prompt_tokens"],
                    "completion_tokens": metrics["completion_tokens"],
                    **metrics["extra"],
                }
