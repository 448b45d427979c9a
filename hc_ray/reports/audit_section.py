"""A stored audit as rows of figures, the same in the terminal and the HTML report. It is for people only: no prompt
and no search over configs may see it."""

import json
from collections.abc import Mapping
from typing import Any

from hc_ray.domain.ports import Store
from hc_ray.reports.page import NOT_MEASURED, Section, interval_of

AUDIT_FILE = "audit.json"
SHOWN = ("whole", "tasks", "faults", "split", "trials", "tests_changed", "definitions", "disagreeing_verdicts")


def suite_quality(store: Store) -> dict[str, Any] | None:
    """The part of ``audit.json`` that the report keeps; None if the sweep was not audited."""
    try:
        audit = json.loads(store.read(AUDIT_FILE))
    except (FileNotFoundError, ValueError):
        return None
    return {name: audit[name] for name in SHOWN if name in audit} if isinstance(audit, dict) else None


def share_text(share: Mapping[str, Any]) -> str:
    """``0.40 [0.21, 0.62] 8/20``: the mean over tasks with its interval, and the raw count."""
    raw = f" {share['hits']}/{share['of']}" if "of" in share and share["value"] is not None else ""
    return interval_of(share) + raw


def quality_section(audit: Mapping[str, Any] | None) -> Section:
    """An audit's figures for the self-tests, before and after the gate."""
    title = "Self-test quality"
    if audit is None:
        said = f"{NOT_MEASURED}: run hc-ray audit, which checks the self-tests against the hidden tests"
        return Section(title, after=(said,))
    whole = audit["whole"]
    rows = [("judging tests", *(str(whole[stage]["judging"]) for stage in whole))]
    measures = tuple(audit["definitions"])
    rows += [(_named(measure), *(share_text(whole[stage][measure]) for stage in whole)) for measure in measures]
    tasks, faults = audit["tasks"], audit["faults"]
    after = [
        f"{tasks['measured']} of {tasks['audited']} tasks measured, with {faults['candidates_failing']} failing and "
        f"{faults['candidates_passing']} passing candidates; overlap measured on {tasks['with_overlap']} of them. "
        "Each figure is a mean over tasks with its 95 % interval, then the raw count."
    ]
    if disagreeing := audit.get("disagreeing_verdicts"):
        after.append(f"{disagreeing} submissions got a different verdict when graded again")
    return Section(title, ("self-tests", *whole), rows, after=after)


def definitions_section(audit: Mapping[str, Any]) -> Section:
    """The meaning of each of these figures."""
    terms = [(_named(measure), meaning) for measure, meaning in audit["definitions"].items()]
    return Section("Definitions of self-test quality", ("", ""), terms)


def _named(measure: str) -> str:
    return measure.replace("_", " ")
