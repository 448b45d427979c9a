"""How well self-tests predict the hidden tests: how they order trials (within-task AUROC), how far their pass share can
be trusted (calibration), and how results depend on how they were generated.

A trial's self-test score is the share of its suite that its submission passes."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from hc_ray.domain.value import counted, digest_of
from hc_ray.domain.variants import labels
from hc_ray.reports.arms import grouped
from hc_ray.reports.page import NOT_MEASURED, Section, interval_of
from hc_ray.statistics import estimators

EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Lower edges of the calibration bins; "all tests passed" is a bin of its own."""
TESTGEN = "solver.testgen."

Row = Mapping[str, Any]
Judged = tuple[float, bool]
"""Self-test score and verdict."""


def self_to_blind(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One part per split, over the trials that have both a self-test score and a verdict."""
    judged = [row for row in rows if row["progress"] is not None and row["passed"] is not None]
    splits = grouped(judged, lambda row: row["split"])
    return [{"split": split, **_of_split(own)} for split, own in sorted(splits.items())]


def _of_split(rows: Sequence[Row]) -> dict[str, Any]:
    tasks = grouped(rows, lambda row: row["task"])
    bins = grouped(rows, lambda row: max(edge for edge in EDGES if row["progress"] >= edge))
    points = grouped(rows, lambda row: (row["label"], row["task"]))
    return {
        "trials": len(rows),
        "tasks": len(tasks),
        "auroc": auroc([[(row["progress"], row["passed"]) for row in own] for own in tasks.values()]).model_dump(),
        "bins": [
            {"from": edge, "self": fmean(row["progress"] for row in own), "trials": len(own),
             "blind_pass": estimators.rate(by_task(own, "passed")).model_dump()}
            for edge, own in sorted(bins.items())
        ],
        "points": [
            {"label": label, "task": task, "trials": len(own), "self": fmean(row["progress"] for row in own),
             "blind": fmean(row["passed"] for row in own)}
            for (label, task), own in sorted(points.items())
        ],
    }  # fmt: skip


def auroc(groups: Sequence[Sequence[Judged]]) -> estimators.Estimate:
    """The chance that, of a passing and a failing trial of the same task, the passing one scores higher; ties count
    half. The interval resamples tasks; ``n`` counts tasks with both outcomes."""
    found = []
    for group in groups:
        right, wrong = (sorted(score for score, passed in group if passed is side) for side in (True, False))
        if right and wrong:
            won = sum(bisect_left(wrong, one) + bisect_right(wrong, one) for one in right) / 2
            found.append((won, float(len(right) * len(wrong))))
    return estimators.resampled(found, lambda sums: sums[0] / sums[1])


def by_testgen(rows: Sequence[Row], declared: Sequence[Row]) -> list[dict[str, Any]]:
    """Blind pass rate of ``hc`` by test generation settings and split; configs that share them count as one."""
    known: dict[str, Row] = {}
    of_hash: dict[str, str] = {}
    for one in declared:
        settings = {key: value for key, value in one["settings"].items() if key.startswith(TESTGEN)}
        of_hash[one["hash"]] = digest_of(settings)
        known[of_hash[one["hash"]]] = settings
    named = dict(zip(known, labels(list(known.values()), (TESTGEN.rstrip("."),)), strict=True))
    scored = [
        row for row in rows if row["agent"] == "hc" and row["passed"] is not None and row["config_hash"] in of_hash
    ]
    groups = grouped(scored, lambda row: (of_hash[row["config_hash"]], row["split"]))
    return [
        {"testgen": named[digest] or "the same in all configs", "split": split,
         "configs": len({row["config_hash"] for row in own}), "trials": len(own),
         "blind_pass": estimators.rate(by_task(own, "passed")).model_dump()}
        for (digest, split), own in groups.items()
    ]  # fmt: skip


def reliance_section(summary: Row) -> Section:
    """The calibration table, one sentence per split, and one per way of generating tests."""
    parts = summary["self_to_blind"]
    said = [
        f"{part['split']}: within-task AUROC {interval_of(part['auroc'])}, on {counted(part['auroc']['n'], 'task')} "
        f"with both passes and fails; {counted(part['trials'], 'trial')} of {counted(part['tasks'], 'task')} in all."
        for part in parts
    ]
    said += [
        f"Tests generated with {one['testgen']}, {one['split']}: blind pass {interval_of(one['blind_pass'])}."
        for one in summary["by_testgen"]
        if len({other["testgen"] for other in summary["by_testgen"]}) > 1
    ]
    rows = [
        (part["split"], f"{one['self']:.2f}", one["trials"], interval_of(one["blind_pass"]))
        for part in parts
        for one in part["bins"]
    ]
    columns = ("split", "self-tests passed", "trials", "blind pass")
    return Section("Self-tests to blind", columns, rows, after=said or [NOT_MEASURED])


def by_task(rows: Iterable[Row], field: str) -> list[list[float]]:
    """A field of the rows, grouped by task; unknown counts as 0."""
    groups = sorted(grouped(rows, lambda row: str(row["task"])).items())
    return [[float(row[field] or 0) for row in own] for _, own in groups]
