"""The best configs of one or several sweeps of a dataset, and the best one as a document for ``sweep --from``.

Configs are ranked on dev alone: choosing by holdout results would tune on the holdout. The rate of the chosen config
is biased upwards on the trials that chose it; only fresh trials measure it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hc_ray.domain.errors import OutputError
from hc_ray.domain.ports import Store
from hc_ray.domain.value import digest_of
from hc_ray.reports.comparison import SUBJECTS
from hc_ray.reports.report import summarise, summarise_several

PASSES, PASS_RATE = 3, 0.5
"""The minimum for the best config overall."""
_COUNTS = ("label", "split", "tasks", "trials", "passes", "unscored", "bits", "tokens", "engine_seconds", "seconds")
SHARED = ("dataset", "grading", "network", "pass_threshold", "sandbox", "seeds")
"""Settings that all configs of a sweep share; an export starts with them."""

Found = dict[str, Any]
Stores = Mapping[str, Store]
"""Sweep directory → its store."""


def _merit(one: Found) -> tuple[float, float]:
    """A sort key, greater is better: pass rate, then fewer tokens per trial; unknown tokens rank last."""
    tokens = one["tokens_per_trial"]
    return one["blind_pass"]["value"] or 0.0, -math.inf if tokens is None else -tokens


def best(stores: Stores) -> Found:
    """The data of ``best --json``. Equal configs of several sweeps count as one. Raises ``OutputError`` if there is no
    sweep or no trial to rank, or if the datasets differ."""
    return _best(summarise_several(stores))


def _best(summary: Found) -> Found:
    rows = [row for row in summary["trials"] if row["split"] == "dev" and row["passed"] is not None]
    solving = [one for one in summary["configs"] if one["split"] == "dev" and one["agent"] in SUBJECTS]
    if not solving:
        raise OutputError(f"no finished trial of {', '.join(SUBJECTS)} on dev, so there is no config to rank")
    configs = sorted(solving, key=_merit, reverse=True)
    own = [[row for row in rows if all(row[part] == one[part] for part in ("agent", "config_hash"))] for one in configs]
    return {
        "schema_version": 1,
        "dataset": summary["sweep"]["dataset"],
        "best": next((one for one in configs if one["passes"] >= PASSES and _merit(one)[0] >= PASS_RATE), None),
        "configs": configs,
        "same_tasks": len({frozenset(row["task"] for row in of_one) for of_one in own}) == 1,
        "per_task": [
            max((_on(task, *pair) for pair in zip(configs, own, strict=True)), key=_merit)
            for task in sorted({row["task"] for of_one in own for row in of_one if row["passed"]})
        ],
    }


def _on(task: str, one: Found, rows: Sequence[Found]) -> Found:
    """A config's results on one task."""
    own = [row for row in rows if row["task"] == task]
    passes, tokens = sum(row["passed"] for row in own), [row["tokens"] for row in own]
    rate = {"value": passes / len(own) if own else None}
    mean = sum(tokens) / len(own) if own and None not in tokens else None
    figures = {"passes": passes, "trials": len(own), "blind_pass": rate, "tokens_per_trial": mean}
    return {"task": task, "label": one["label"], "config_hash": one["config_hash"], **figures}


def stats(stores: Stores) -> Found:
    """The data of ``stats --json``: counts of each sweep's trials by agent and config, on any split."""
    sweeps, configs = {}, []
    for out, store in stores.items():
        summary = summarise(store)
        sweeps[out] = {name: summary["sweep"][name] for name in ("dataset", "trials", "planned_trials")}
        configs += [{"sweep": out, **{name: one[name] for name in _COUNTS}} for one in summary["configs"]]
    return {"schema_version": 1, "sweeps": sweeps, "configs": configs}


def exported(stores: Stores) -> Found:
    """The best config overall, as settings by dotted key, with where it was found and a digest. Raises ``OutputError``
    if none is good enough."""
    summary = summarise_several(stores)
    found = _best(summary)
    if (one := found["best"]) is None:
        first, needs = found["configs"][0], f"{PASSES} passes and a pass rate of {PASS_RATE:.0%}"
        says = f"the best, {first['label']}, passed {first['passes']} of {first['trials']}"
        raise OutputError(f"no config reached {needs} on dev; {says}")
    sweep = summary["sweep"]
    own = next(known["settings"] for known in sweep["configs"] if known["hash"] == one["config_hash"])
    shared = {name: sweep["config"][name] for name in SHARED if name in sweep["config"]}
    return sealed(
        config_hash=one["config_hash"],
        found={name: one[name] for name in ("blind_pass", *_COUNTS)},
        among=len(found["configs"]),
        sweeps=sweep["directories"],
        tuned_on=sorted({row["task"] for row in summary["trials"] if row["split"] == "dev"}),
        settings={**shared, "agents": [one["agent"]], **own},
    )


def sealed(**parts: Any) -> Found:
    """A document with its SHA-256, by which ``sweep --from`` detects changes."""
    document = {"schema_version": 1, **parts}
    return {**document, "sha256": digest_of(document)}
