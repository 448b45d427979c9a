"""One trial for a reader: what was asked, which tests were believed, how each candidate did, why one was chosen, and
the verdict. It reads a trial's folder and nothing sealed."""

import difflib
import io
import json
import tarfile
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import IO, Any

from hc_ray.errors import OutputError
from hc_ray.page import NOT_MEASURED
from hc_ray.ports import Store
from hc_ray.report import row_of
from hc_ray.trial import TrialResult

ReadTable = Callable[[bytes], list[dict[str, Any]]]
"""Reads the rows of a Parquet file: the caller brings it, since one module owns pyarrow."""
LETTERS = {"pass": "pass", "fail": "fail", "error": "error", "skipped": "skip", "timeout": "time"}


def find_trial(store: Store, name: str) -> str:
    """The full name of a trial from a part of it. Raises ``OutputError`` where none or several match."""
    names = sorted({path.split("/")[1] for path in store.list("trials") if path.endswith("/result.json")})
    if name in names:
        return name
    matching = [candidate for candidate in names if name in candidate]
    if len(matching) == 1:
        return matching[0]
    if matching:
        known = ", ".join(f"{candidate} ({_agent(store, candidate)})" for candidate in matching[:4])
        raise OutputError(f"{name}: {len(matching)} trials match: {known}{', ...' if len(matching) > 4 else ''}")
    near = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {near[0]}?" if near else f" ({len(names)} finished trials here; hc-ray report lists them)"
    raise OutputError(f"{name}: no finished trial of that name{hint}")


def _agent(store: Store, trial: str) -> str:
    row = row_of(TrialResult.model_validate_json(store.read(f"trials/{trial}/result.json")))
    return f"{row['agent']}, seed {row['seed']}" if row["seed"] else str(row["agent"])


def describe(store: Store, trial: str, *, read_table: ReadTable) -> dict[str, Any]:
    """Everything ``show --json`` prints. Parts that a trial does not have (an ``oracle`` has no suite) are None."""
    folder = f"trials/{trial}"
    result = TrialResult.model_validate_json(store.read(f"{folder}/result.json"))
    metadata = result.agent_result.metadata
    trajectory = _json(store, f"{folder}/agent/trajectory.json")
    selection = metadata.get("selection")
    return {
        "schema_version": 1,
        **row_of(result),
        "cause": row_of(result)["cause"] or metadata.get("cause"),
        "instruction": _instruction(trajectory),
        "suite": told_suite(_json(store, f"{folder}/agent/suite.json")),
        "matrix": _matrix(store, f"{folder}/agent/matrix.parquet", read_table),
        "candidates": _candidates(store, folder, metadata, selection),
        "selection": selection,
        "submission": _members(store, f"{folder}/artifacts/submission.tar"),
        "exchanges": _exchanges(trajectory),
        "left_behind": metadata.get("left_behind") or [],
        "limits": metadata.get("limits"),
    }


def _json(store: Store, path: str) -> Any:
    try:
        return json.loads(store.read(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise OutputError(f"{path} cannot be read: {error}") from None


def _instruction(trajectory: Mapping[str, Any] | None) -> str | None:
    steps = (trajectory or {}).get("steps") or []
    return next((str(step["message"]) for step in steps if step.get("source") == "user"), None)


def told_suite(suite: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A suite's JSON with each test's fate beside it, admitted ones first."""
    if suite is None:
        return None
    verdicts = {verdict["id"]: verdict for verdict in suite.get("gate", [])}
    kept = {test["id"] for test in suite.get("tests", [])}
    tests = [
        {
            **test,
            "admitted": test["id"] in kept,
            "reason": verdicts.get(test["id"], {}).get("reason"),
        }
        for test in (*suite.get("tests", []), *suite.get("dropped", []))
    ]
    return {
        "tests": tests,
        "requirements": suite.get("requirements", []),
        "uncertainties": suite.get("uncertainties", []),
    }


def _matrix(store: Store, path: str, read_table: ReadTable) -> dict[str, Any] | None:
    try:
        rows = read_table(store.read(path))
    except FileNotFoundError:
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
    """The candidates in the order in which they came, each with its files; for a repair, the change to its parent."""
    stored = {one["id"]: one for one in _json(store, f"{folder}/agent/candidates.json") or []}
    scores = (selection or {}).get("scores") or {}
    shown = []
    for summary in metadata.get("candidates") or []:
        full = stored.get(summary["id"], {})
        parent = stored.get(summary.get("parent") or "", {})
        shown.append(
            {
                **summary,
                "chosen": summary["id"] == (selection or {}).get("chosen"),
                "selection_score": scores.get(summary["id"]) if isinstance(scores, Mapping) else None,
                "files": full.get("files"),
                "diff": _diff(parent.get("files"), full.get("files")) if parent else None,
            }
        )
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
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return [f"/{member.name}" for member in archive if not member.isdir()]
    except tarfile.TarError as error:
        raise OutputError(f"{path} cannot be read: {error}") from None


def _exchanges(trajectory: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Every question and answer, in the order of the trajectory."""
    return [
        {"of": part["trajectory_id"], "purpose": (part.get("extra") or {}).get("purpose"), "source": step["source"],
         "message": step["message"]}
        for part in (trajectory or {}).get("subagent_trajectories") or []
        for step in part["steps"]
    ]  # fmt: skip


def tell(trial: Mapping[str, Any], *, verbose: bool = False, stream: IO[str] | None = None) -> None:
    """Print what ``describe`` found. ``verbose`` adds every prompt and answer."""
    from hc_ray import terminal

    def say(text: str, style: str | None = None) -> None:
        terminal.say(text, stream=stream, style=style)

    say(f"{trial['trial']}", "bold")
    say(f"{trial['agent']}, seed {trial['seed']}, {trial['split']}, sandbox {trial['sandbox'] or NOT_MEASURED}")
    terminal.heading("Instruction", stream=stream)
    say(trial["instruction"] or "not stored for this agent")
    tell_suite(trial["suite"], stream)
    _tell_candidates(trial, stream)
    terminal.heading("Why this one", stream=stream)
    say(_why(trial))
    terminal.heading("Verdict", stream=stream)
    say(_verdict(trial), {True: "bold green", False: "bold red", None: "bold yellow"}[trial["passed"]])
    say(_cost(trial), "dim")
    if verbose:
        terminal.heading("Asked and answered", stream=stream)
        for exchange in trial["exchanges"]:
            say(f"── {exchange['of']} · {exchange['purpose'] or ''} · {exchange['source']}", "cyan")
            say(exchange["message"])


def tell_suite(suite: Mapping[str, Any] | None, stream: IO[str] | None = None) -> None:
    """Print the tests with the gate's reasons."""
    from hc_ray import terminal

    if suite is None:
        terminal.heading("Self-tests", stream=stream)
        terminal.say("none: this agent writes no tests", stream=stream)
        return
    admitted = sum(test["admitted"] for test in suite["tests"])
    terminal.heading(f"Self-tests: {admitted} admitted of {len(suite['tests'])} generated", stream=stream)
    rows = [
        (
            "yes" if test["admitted"] else "no",
            test["id"],
            test["category"],
            _asks(test),
            test["reason"] or "no reason given",
        )
        for test in suite["tests"]
    ]
    if rows:
        terminal.table(("in", "id", "category", "asks", "gate says"), rows, stream=stream)


def _asks(test: Mapping[str, Any]) -> str:
    """``double(2) → 4`` and the like, on one line."""
    expectation = test["expectation"]
    expected = {
        "value": expectation.get("value", ""),
        "rejected": "must be rejected",
        "property": f"{expectation.get('name', '')} {expectation.get('argument', '')}".strip(),
        "unknown": "anything (compared between candidates)",
    }[expectation["kind"]]
    given = test["input"] or test["stdin"] or test["subject"]["path"]
    line = f"{given} → {expected}".replace("\n", "\\n")
    return line if len(line) <= 70 else line[:67] + "..."


def _tell_candidates(trial: Mapping[str, Any], stream: IO[str] | None) -> None:
    from hc_ray import terminal

    candidates: Sequence[Mapping[str, Any]] = trial["candidates"]
    terminal.heading(f"Candidates: {len(candidates)}", stream=stream)
    if not candidates:
        terminal.say("none: this agent asks no model", stream=stream)
        return
    total = len(trial["matrix"]["tests"]) if trial["matrix"] else 0
    columns = ("", "id", "parent", "form", "plan", "T", "tokens", "self-tests", "score", "note")
    rows = [_candidate_row(one, total) for one in candidates]
    terminal.table(columns, rows, stream=stream, numbers=("T", "tokens", "self-tests", "score"))
    own = [one for one in candidates if not one.get("duplicate_of")]
    _tell_matrix(trial["matrix"], {one["id"] for one in own}, stream)
    for one in own:
        mark = " (submitted)" if one["chosen"] else ""
        if one["diff"]:
            terminal.heading(f"{one['id']}{mark}: change to {one['parent']}", stream=stream)
            terminal.say(one["diff"], stream=stream)
            continue
        for path, text in (one["files"] or {}).items():
            terminal.heading(f"{one['id']}{mark}: {path}", stream=stream)
            terminal.say(text.rstrip("\n"), stream=stream)


def _tell_matrix(matrix: Mapping[str, Any] | None, shown: Collection[str], stream: IO[str] | None) -> None:
    """Only the candidates in ``shown``: a duplicate's column would repeat another's."""
    from hc_ray import terminal

    if matrix is None or not matrix["tests"]:
        return
    terminal.heading("Pass matrix: self-tests down, candidates across", stream=stream)
    columns = [(name, row) for name, row in zip(matrix["candidates"], matrix["cells"], strict=True) if name in shown]
    rows = []
    for index, test in enumerate(matrix["tests"]):
        cells = [row[index] for _, row in columns]
        failure = next((cell["detail"] for cell in cells if cell and cell["outcome"] != "pass" and cell["detail"]), "")
        words = ["not run" if cell is None else LETTERS[cell["outcome"]] for cell in cells]
        rows.append((test, *words, failure.strip().splitlines()[-1][:80] if failure.strip() else ""))
    terminal.table(("test", *(name for name, _ in columns), "first failure"), rows, stream=stream)


def _candidate_row(one: Mapping[str, Any], tests: int) -> tuple[Any, ...]:
    passed = "not run" if one.get("passed") is None else f"{one['passed']}/{tests}"
    score = "" if one["selection_score"] is None else f"{one['selection_score']:.2f}"
    asked = [one.get(name) for name in ("form", "plan", "temperature", "tokens")]
    return ("*" if one["chosen"] else "", one["id"], one.get("parent"), *asked, passed, score, _note(one))


def _note(candidate: Mapping[str, Any]) -> str:
    if candidate.get("malformed"):
        return f"no file in the answer: {candidate['malformed']}"
    return f"same as {candidate['duplicate_of']}" if candidate.get("duplicate_of") else ""


def _why(trial: Mapping[str, Any]) -> str:
    selection = trial["selection"]
    if selection is None:
        files = ", ".join(trial["submission"] or []) or "nothing"
        return f"nothing was selected; the submission changes: {files}"
    why = str(selection.get("why") or "no reason recorded").removeprefix(f"{selection.get('selector')}: ")
    return f"{selection.get('chosen') or 'none'} by {selection.get('selector')}: {why}"


def _verdict(trial: Mapping[str, Any]) -> str:
    word = {True: "passed", False: "failed", None: "unscored"}[trial["passed"]]
    cause = f": {trial['cause']}" if trial["cause"] and trial["passed"] is not True else ""
    witness = f"; second witness: {trial['witness']}" if trial["witness"] else ""
    return f"{word}{cause} ({trial['grading'] or 'not graded'}{witness})"


def _cost(trial: Mapping[str, Any]) -> str:
    def number(name: str, unit: str) -> str:
        return f"{unit} {NOT_MEASURED}" if trial[name] is None else f"{trial[name]:,.0f} {unit}"

    score = NOT_MEASURED if trial["score"] is None else f"{trial['score']:.0f}"
    stop = f", stopped: {trial['stop_reason']}" if trial["stop_reason"] else ""
    return (
        f"score {score}, {number('turns', 'turns')}, {number('tokens', 'tokens')}, {number('seconds', 'seconds')}{stop}"
    )
