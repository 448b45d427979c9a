"""One trial as data for ``show``: instruction, self-tests, results of each candidate, the selection and its reason, and
the verdict. Reads a trial's folder and nothing sealed."""

import difflib
from collections.abc import Mapping
from typing import Any

from hc_ray.domain.errors import OutputError
from hc_ray.domain.filetree import unpack
from hc_ray.domain.ports import Store
from hc_ray.reports.report import finished, result_of, row_of, stored_json, stored_rows


def find_trial(store: Store, name: str) -> str:
    """The full name of a trial from a part of it. Raises ``OutputError`` unless exactly one matches."""
    names = finished(store)
    if name in names:
        return name
    matching = [candidate for candidate in names if name in candidate]
    if len(matching) == 1:
        return matching[0]
    if matching:
        known = ", ".join(f"{candidate} ({_agent(store, candidate)})" for candidate in matching[:4])
        raise OutputError(f"{name}: {len(matching)} trials match: {known}{', ...' if len(matching) > 4 else ''}")
    near = difflib.get_close_matches(name, names, 1)
    there = f" ({len(names)} finished trials; hc-ray show OUT lists them)"
    hint = f"; did you mean {near[0]}?" if near else there
    raise OutputError(f"{name}: no finished trial has this name{hint}")


def _agent(store: Store, trial: str) -> str:
    row = row_of(result_of(store, trial))
    return f"{row['agent']}, seed {row['seed']}" if row["seed"] else str(row["agent"])


def describe(store: Store, trial: str) -> dict[str, Any]:
    """The data of ``show --json``. Parts that a trial lacks (``oracle`` has no suite) are None."""
    folder = f"trials/{trial}"
    result = result_of(store, trial)
    metadata = result.agent_result.metadata
    trajectory = stored_json(store, f"{folder}/agent/trajectory.json")
    selection = metadata.get("selection")
    return {
        "schema_version": 1,
        **row_of(result),
        "cause": row_of(result)["cause"] or metadata.get("cause"),
        "instruction": _instruction(trajectory),
        "suite": told_suite(stored_json(store, f"{folder}/agent/suite.json")),
        "matrix": _matrix(store, f"{folder}/agent/matrix.parquet"),
        "candidates": _candidates(store, folder, metadata, selection),
        "selection": selection,
        "submission": _members(store, f"{folder}/artifacts/submission.tar"),
        "exchanges": _exchanges(trajectory),
        "left_behind": metadata.get("left_behind") or [],
        "failed_attempts": metadata.get("failed_attempts") or [],
        "limits": metadata.get("limits"),
    }


def _instruction(trajectory: Mapping[str, Any] | None) -> str | None:
    steps = (trajectory or {}).get("steps") or []
    return next((str(step["message"]) for step in steps if step.get("source") == "user"), None)


def told_suite(suite: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A suite's JSON with the gate's decision on each test, admitted ones first."""
    if suite is None:
        return None
    admitted, dropped = suite.get("tests", []), suite.get("dropped", [])
    reasons = {verdict["id"]: verdict.get("reason") for verdict in suite.get("gate", [])}
    fates = [*((test, True) for test in admitted), *((test, False) for test in dropped)]
    counts: dict[str, list[int]] = {}
    for test, kept in fates:
        of_category = counts.setdefault(test["category"], [0, 0])
        of_category[0] += kept
        of_category[1] += 1
    understood = ("requirements", "assumptions", "uncertainties", "notes", "reflections")
    return {
        "tests": [{**test, "admitted": kept, "reason": reasons.get(test["id"])} for test, kept in fates],
        **{name: suite.get(name) or [] for name in understood},
        "environment": suite.get("environment"),
        "counts": counts,
    }


def _matrix(store: Store, path: str) -> dict[str, Any] | None:
    if (rows := stored_rows(store, path)) is None:
        return None
    candidates = list(dict.fromkeys(row["candidate"] for row in rows))
    tests = list(dict.fromkeys(row["test"] for row in rows))
    cells = {(row["candidate"], row["test"]): row for row in rows}
    return {
        "candidates": candidates,
        "tests": tests,
        "cells": [[cells.get((candidate, test)) for test in tests] for candidate in candidates],
    }


def _candidates(
    store: Store, folder: str, metadata: Mapping[str, Any], selection: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """The candidates in order of creation, each with its files; for a repair, with the diff to its parent."""
    stored = {one["id"]: one for one in stored_json(store, f"{folder}/agent/candidates.json") or []}
    scores = (selection or {}).get("scores") or {}
    shown = []
    for summary in metadata.get("candidates") or []:
        files, parent = stored.get(summary["id"], {}).get("files"), stored.get(summary.get("parent") or "")
        of_selection = {
            "chosen": summary["id"] == (selection or {}).get("chosen"),
            "selection_score": scores.get(summary["id"]) if isinstance(scores, Mapping) else None,
        }
        diff = _diff(parent.get("files"), files) if parent else None
        shown.append({**summary, **of_selection, "files": files, "diff": diff})
    return shown


def _diff(before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> str:
    lines: list[str] = []
    for path in sorted({*(before or {}), *(after or {})}):
        old, new = (before or {}).get(path, ""), (after or {}).get(path, "")
        lines += difflib.unified_diff(old.splitlines(), new.splitlines(), f"parent/{path}", path, lineterm="")
    return "\n".join(lines)


def _members(store: Store, path: str) -> list[str] | None:
    """The paths that a submission changes, as ``/app/x.py``."""
    try:
        data = store.read(path)
    except FileNotFoundError:
        return None
    try:
        return [member.path for member in unpack(data).members if member.kind != "folder"]
    except ValueError as error:
        raise OutputError(f"{path} cannot be read: {error}") from None


def _exchanges(trajectory: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Every prompt and answer, in the order of the trajectory."""
    return [
        {"of": part["trajectory_id"], "purpose": (part.get("extra") or {}).get("purpose"), "source": step["source"],
         "message": step["message"]}
        for part in (trajectory or {}).get("subagent_trajectories") or []
        for step in part["steps"]
    ]  # fmt: skip
