"""What an audit leaves in the sweep directory: sums with intervals, and of dev tasks each suite and each pool. No name
of a hidden test, no line of a reference, no mutant."""

from collections.abc import Mapping
from typing import Any

from hc_ray_actors.jobs.audit_subjects import Audit, AuditedTrial, Outcome
from hc_ray_actors.verifiers import audit as figures

SCHEMA_VERSION = 1

DEFINITIONS = {
    "validity": "share of judging tests that the reference solution passes in all of three runs",
    "triviality": "share of tests (guards excluded) that the untouched environment, empty files or an idle stub pass",
    "discrimination": "share of tests that some, but not all, candidates of the sweep pass",
    "flakiness": "share of tests whose outcome differs within three runs on the reference or untouched environment",
    "fault_detection": "share of the candidates that fail the hidden tests and some valid test of the suite too",
    "false_rejection": "share of the candidates that pass the hidden tests, but fail some test of the suite",
    "overlap": "share of hidden tests for which some self-test reaches a Matthews correlation of "
    f"{figures.COVERED:g} over the reference and the candidates. Limits: the hidden tests must use pytest "
    f"and there must be {figures.FEWEST_STATES} end states; a hidden test that no end state fails is left out; two "
    "tests that no end state distinguishes cover each other",
}


def summarise(audit: Audit, outcome: Outcome) -> dict[str, Any]:
    """``audit.json``, but for its clock."""
    measured = [one for one in outcome.evidence if not one.unmeasured]
    pools, states = pools_of(audit, outcome), [state for one in measured for state in one.seen]
    summary: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "split": audit.split,
        "sandbox": audit.backend,
        "trials": len(audit.trials),
        "tests_changed": audit.tests_changed,
        "definitions": DEFINITIONS,
        "tasks": {
            "audited": len(outcome.evidence),
            "measured": len(measured),
            "with_overlap": sum(bool(figures.informative(one)) for one in measured),
            "lost_end_states": outcome.lost,
        },
        "faults": {
            "candidates_failing": sum(one.kind == "candidate" and one.passed is False for one in states),
            "candidates_passing": sum(one.kind == "candidate" and one.passed is True for one in states),
        },
        "whole": figures.stages(outcome.evidence).model_dump(mode="json"),
        "disagreeing_verdicts": sum(bool(pool["disagrees"]) for pool in pools),
    }
    if audit.split == "dev":
        summary["unmeasured"] = {one.task: one.unmeasured for one in outcome.evidence if one.unmeasured}
        summary["suites"] = [
            {"task": one.task, "key": suite.key, **figures.stages([alone]).model_dump(mode="json")}
            for one in outcome.evidence
            for suite in one.suites
            for alone in [one.model_copy(update={"suites": (suite,)})]
        ]
        summary["pools"] = pools
    return summary


def pools_of(audit: Audit, outcome: Outcome) -> list[dict[str, Any]]:
    """Every trial that has candidates, each candidate with its real verdict: what ``report --replay`` reads."""
    return [_pool(trial, outcome.verdicts.get(trial.task, {})) for trial in audit.trials if trial.candidates]


def _pool(trial: AuditedTrial, bits: Mapping[str, bool | None]) -> dict[str, Any]:
    """One without a file is the untouched workspace. ``disagrees``: whether what was handed in, graded again from its
    files, got another verdict than its trial; None where the trial had several verdicts, or none."""
    candidates = [{"id": identity, "passed": bits.get(digest)} for identity, digest in trial.candidates]
    chosen = next((one["passed"] for one in candidates if one["id"] == trial.chosen), None)
    known = chosen is not None and trial.passed is not None and trial.verdicts == 1
    told = {"trial": trial.name, "task": trial.task, "seed": trial.seed, "chosen": trial.passed}
    return {**told, "disagrees": chosen != trial.passed if known else None, "candidates": candidates}
