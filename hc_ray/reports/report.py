"""The generalisation report of a sweep directory: pass rates with intervals, paired comparisons, criteria.

It reads only ``sweep.json``, the trials' ``result.json`` and a stored audit, through ``ports.Store``. What was not
measured is None, never 0. It prints nothing: ``page`` and the command line render it."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from hc_ray.domain.errors import OutputError
from hc_ray.domain.ports import Store
from hc_ray.domain.trial import WITHOUT_MODEL, TrialKey, TrialResult
from hc_ray.domain.value import digest_of
from hc_ray.reports.arms import arm_of, declared_by, grouped, name_configs, together
from hc_ray.reports.audit_section import suite_quality
from hc_ray.reports.comparison import comparisons_of, criteria_of
from hc_ray.reports.engine_use import engine_use
from hc_ray.reports.self_to_blind import by_task, by_testgen, self_to_blind
from hc_ray.reports.sweep_page import html as html
from hc_ray.statistics import estimators

SCHEMA_VERSION = 1
T = TypeVar("T")


def summarise(store: Store) -> dict[str, Any]:
    """The data of ``report --json``. Raises ``OutputError`` if the store holds no sweep."""
    sweep, rows = read_sweep(store), rows_of(store)
    declared = declared_by(sweep, rows)
    whole = _summary(sweep, rows, declared, [key for one in declared for key in one["changes"]])
    return whole | {"suite_quality": suite_quality(store), "engine_use": engine_use(store, sweep)}


def summarise_several(stores: Mapping[str, Store], *, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One summary of several sweeps of a dataset, keyed by directory name, without audits and engine use, which stay
    in each sweep's report. ``names``: config hash → name. Raises ``OutputError``."""
    sweeps, rows = {}, {}
    for name, store in stores.items():
        try:
            sweeps[name], rows[name] = read_sweep(store), rows_of(store)
        except OutputError as error:
            raise OutputError(f"{name}: {error}") from None
    sweep, kept, declared = together(sweeps, rows)
    if names is not None:
        declared = [{**one, "name": names.get(one["hash"], one["name"])} for one in declared]
    whole = _summary(sweep, kept, declared, [])
    about = whole["sweep"] | {name: sweep[name] for name in ("directories", "repeated")}
    return whole | {"sweep": about, "suite_quality": None, "engine_use": None}


def _summary(
    sweep: Mapping[str, Any], rows: list[dict[str, Any]], declared: Sequence[dict[str, Any]], changes: Sequence[str]
) -> dict[str, Any]:
    name_configs(rows, declared, changes)
    order = {one["hash"]: number for number, one in reversed(list(enumerate(declared)))}
    groups = sorted(grouped(rows, arm_of).items(), key=lambda item: (item[0][2], _rank(item[0][0]), order[item[0][1]]))
    configs = [figures_of(group) for _, group in groups]
    comparisons, compared = comparisons_of(rows, configs, declared)
    return {
        "schema_version": SCHEMA_VERSION,
        "sweep": _sweep(sweep, rows) | {"configs": list(declared)}, "configs": configs,
        "comparisons": comparisons, "compared": compared, "criteria": criteria_of(configs),
        "self_to_blind": self_to_blind(rows), "by_testgen": by_testgen(rows, declared),
        "holdout_looks": sweep.get("holdout_looks"), "bits": sum(len(row["bits"]) for row in rows), "trials": rows,
        "replay": None,
    }  # fmt: skip


def leave(store: Store, summary: Mapping[str, Any], page: Callable[[Mapping[str, Any]], str] = html) -> None:
    """Write ``report.json`` and ``report.html``."""
    store.write("report.json", json.dumps(summary, indent=1).encode())
    store.write("report.html", page(summary).encode())


def read_sweep(store: Store) -> dict[str, Any]:
    """Read ``sweep.json``. Raises ``OutputError`` if it is missing or damaged."""
    if (sweep := stored_json(store, "sweep.json")) is None:
        raise OutputError("no sweep.json: this is not a sweep directory, or it was removed while it was in use")
    if not isinstance(sweep, dict) or not isinstance(sweep.get("config"), dict):
        raise OutputError("sweep.json is damaged: it does not hold a sweep's settings")
    return sweep


def stored_json(store: Store, path: str) -> Any:
    """The JSON in a file of the sweep; None if the file is missing. Raises ``OutputError`` if it is damaged."""
    return _stored(path, lambda: json.loads(store.read(path)))


def stored_rows(store: Store, path: str) -> list[dict[str, Any]] | None:
    """The rows of a table of the sweep; None if the file is missing. Raises ``OutputError`` if it is damaged."""
    return _stored(path, lambda: store.rows(path))


def _stored(path: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise OutputError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


def rows_of(store: Store) -> list[dict[str, Any]]:
    """One flat row per committed trial, sorted by name. A trial without ``result.json`` is not committed."""
    rows = [row_of(result_of(store, name)) for name in finished(store)]
    return sorted(rows, key=lambda row: str(row["trial"]))


def finished(store: Store) -> list[str]:
    """Names of the committed trials, sorted."""
    return sorted(store.holding("result.json"))


def result_of(store: Store, trial: str) -> TrialResult:
    """The result of a committed trial. Raises ``OutputError`` if it is damaged."""
    path = f"trials/{trial}/result.json"
    try:
        return TrialResult.model_validate_json(store.read(path))
    except ValueError as error:
        why = f"({str(error).splitlines()[0]}); resume the sweep or climb, or delete this file"
        raise OutputError(f"{path} is damaged {why}") from None


def key_of(store: Store, trial: str) -> TrialKey:
    """The key of a committed trial; ignores fields of other versions."""
    return TrialKey.model_validate_json(store.read(f"trials/{trial}/config.json"), extra="ignore")


def row_of(result: TrialResult) -> dict[str, Any]:
    """One trial as a flat row for the report, the tracker and the tables."""
    metadata = result.agent_result.metadata
    counts = (result.agent_result.n_input_tokens, result.agent_result.n_output_tokens)
    known = [count for count in counts if count is not None]
    return {
        "trial": result.trial_name, "task": result.task_name, "task_digest": result.task_checksum,
        "agent": metadata.get("agent") or result.agent_info.name,
        "config_hash": metadata.get("config_hash") or "", "split": metadata.get("split") or "dev",
        "seed": metadata.get("seed") or 0, "passed": result.passed, "cause": _cause(result),
        "weak_suite": (metadata.get("self_tests") or {}).get("weak"),
        **{name: (metadata.get("selection") or {}).get(name) for name in ("silent", "chosen")},
        **{name: metadata.get(name) for name in ("self_pass", "progress", "score", "turns", "engine_seconds")},
        "tokens": sum(known) - (metadata.get("shared_tokens") or 0) if known else None,
        "all_tokens": sum(known) if known else None,
        "started_at": result.started_at, "finished_at": result.finished_at,
        "seconds": result.seconds, "bits": list(metadata.get("bits") or []),
        "candidates": len(metadata["candidates"]) if "candidates" in metadata else None,
        "empty": all(one.get("malformed") for one in made) if (made := metadata.get("candidates")) else None,
        **{name: metadata.get(name)
           for name in ("sandbox", "grading", "network", "witness", "timeout_multiplier", "stop_reason", "solution")},
        "failed_attempts": len(metadata.get("failed_attempts") or []),
    }  # fmt: skip


def _cause(result: TrialResult) -> str | None:
    """Why a trial is unscored, in one line; None if it is scored."""
    if result.passed is not None:
        return None
    if result.exception_info is None:
        return "no verdict"
    lines = result.exception_info.exception_message.strip().splitlines()
    return f"{result.exception_info.exception_type}: {lines[0] if lines else 'no message'}"


AGENT_ORDER = ("raw", "best_of_n", "hc", "oracle", "nop")


def _rank(agent: str) -> int:
    return AGENT_ORDER.index(agent) if agent in AGENT_ORDER else len(AGENT_ORDER)


def figures_of(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All figures of an agent's trials under one config in one split."""
    agent, config_hash, split = arm_of(rows[0])
    scored = [row for row in rows if row["passed"] is not None]
    tried = [row for row in scored if row["self_pass"] is not None]
    with_progress = [row for row in scored if row["progress"] is not None]
    tokens, engine_seconds = _total(rows, "tokens"), _total(rows, "engine_seconds")
    passes = sum(row["passed"] for row in scored)
    return {
        "agent": agent, "config": rows[0].get("config"), "label": rows[0].get("label"), "config_hash": config_hash,
        "split": split, "tasks": len({row["task"] for row in rows}), "trials": len(rows),
        "unscored": len(rows) - len(scored), "retried": sum(row["failed_attempts"] > 0 for row in scored),
        "unscored_causes": _counted(row["cause"] for row in rows), "passes": passes,
        "blind_pass": estimators.rate(by_task(scored, "passed")).model_dump(),
        "blind_pass_unscored_as_fail": estimators.rate(by_task(rows, "passed")).model_dump(),
        "self_pass": estimators.rate(by_task(tried, "self_pass")).model_dump(),
        "weak_suites": sum(bool(row["weak_suite"]) for row in rows),
        "silent": sum(bool(row["silent"]) for row in rows),
        "empty": sum(bool(row["empty"]) for row in rows),
        "unasked": 0 if agent in WITHOUT_MODEL else sum(row["tokens"] == 0 for row in scored),
        "self_progress": estimators.mean_of_shares(by_task(with_progress, "progress")).model_dump(),
        "aa_false_alarms": estimators.false_alarm_rate(by_task(scored, "passed")),
        **_pool(scored),
        "tokens": tokens,
        "tokens_per_trial": None if tokens is None else tokens / len(rows),
        "tokens_per_pass": None if tokens is None or not passes else tokens / passes,
        "engine_seconds": engine_seconds,
        "seconds": _total(rows, "seconds"), "turns": _mean_of(rows, "turns"), "score": _mean_of(scored, "score"),
        "bits": sum(len(row["bits"]) for row in rows),
        **{name: _only(rows, name) for name in ("timeout_multiplier", "sandbox", "grading", "network")},
        "witness": _counted(row["witness"] for row in scored),
    }  # fmt: skip


def _pool(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """pass@k, best@k and oracle@k, with a task's seeds as its pool, since only those attempts all have a blind verdict.
    best@k picks by the share of self-tests passed. Tasks with fewer than k scored trials are left out."""
    tasks = grouped(rows, lambda row: row["task"])
    largest = min((len(pool) for pool in tasks.values()), default=0)
    verdicts = [[bool(row["passed"]) for row in pool] for pool in tasks.values()]
    scores = [_known(pool, "progress") for pool in tasks.values()]
    measured = all(row["progress"] is not None for row in rows)
    curves: dict[str, dict[str, float | None]] = {"pass_at_k": {}, "best_at_k": {}, "oracle_at_k": {}}
    for k in (k for k in (1, 2, 3, 4, 5, 8, 10, 16, 32, 64) if k <= largest):
        curves["pass_at_k"][str(k)] = _average([estimators.pass_at_k(len(v), sum(v), k) for v in verdicts])
        curves["oracle_at_k"][str(k)] = curves["pass_at_k"][str(k)]
        best = [estimators.best_at_k(*pool, k) for pool in zip(verdicts, scores, strict=True)] if measured else []
        curves["best_at_k"][str(k)] = _average(best)
    last = str(max((int(k) for k in curves["pass_at_k"]), default=0))
    efficiency = estimators.selection_efficiency(
        curves["best_at_k"].get(last), curves["pass_at_k"].get("1"), curves["oracle_at_k"].get(last)
    )
    return {**curves, "selection_efficiency": efficiency}


def _known(rows: Iterable[Mapping[str, Any]], field: str) -> list[float]:
    return [row[field] for row in rows if row[field] is not None]


def _total(rows: Sequence[Mapping[str, Any]], field: str) -> float | None:
    """A sum over all trials; None unless every trial has a value, so that a gap never looks like a saving."""
    known = _known(rows, field)
    return sum(known) if known and len(known) == len(rows) else None


def _average(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _mean_of(rows: Iterable[Mapping[str, Any]], field: str) -> float | None:
    """The mean of a field over the rows that have it; None if none does."""
    return _average(_known(rows, field))


def _only(rows: Iterable[Mapping[str, Any]], field: str) -> Any:
    """The value that all trials share, or else the list of those that occur."""
    seen = sorted({row[field] for row in rows if row[field] is not None}, key=str)
    return (seen[0] if len(seen) == 1 else seen) if seen else None


def _counted(values: Iterable[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(value for value in values if value is not None).items()))


def models_of(config: Mapping[str, Any]) -> str | None:
    """The solver's model, and the models of roles with their own engine; for a scripted engine, its script."""

    def name(engine: Mapping[str, Any]) -> str:
        return str(engine.get("script" if engine.get("kind") == "scripted" else "model"))

    own = [f"{role}: {name(engine)}" for role, engine in (config.get("roles") or {}).items()]
    return "; ".join([name(config["engine"]), *own]) if config.get("engine") else None


def _sweep(sweep: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sweep's settings and counts, for the head of the report and for the tracker."""
    config = sweep.get("config") or {}
    agents = {*(config.get("agents") or ()), *(row["agent"] for row in rows)}
    return {
        "id": sweep.get("sweep_id") or digest_of(sweep)[:16],
        "dataset": config.get("dataset"), "split": sweep.get("split") or config.get("split"),
        # A check of the harness uses no model, whatever the settings say; this also holds before the first trial.
        "model": models_of(config) if agents - WITHOUT_MODEL or not agents else None,
        "config": config, "task_digests": sorted({*(task["digest"] for task in sweep.get("tasks") or ()),
                                               *(str(row["task_digest"]) for row in rows)}),
        "tasks": len({row["task"] for row in rows}), "tuned_on": sweep.get("tuned_on") or [], "trials": len(rows),
        "planned_trials": sweep.get("planned_trials"), "versions": sweep.get("versions") or {},
        "git_sha": sweep.get("git_sha") or (sweep.get("versions") or {}).get("git_sha"),
        "started_at": sweep.get("started_at"),
    }  # fmt: skip
