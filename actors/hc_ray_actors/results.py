"""What a trial and a sweep leave on disk (DESIGN 5): the record that a trial fills, its commit, and what is derived."""

import datetime
import importlib.metadata
import json
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hc_ray import __version__, report
from hc_ray.adapters.sweep_store import SweepStore, parquet
from hc_ray.candidate import Submission
from hc_ray.home import configs_dir
from hc_ray.solve.outcome import TrialOutcome
from hc_ray.task import Task
from hc_ray.trial import (
    AgentInfo,
    AgentResult,
    ExceptionInfo,
    Phase,
    TrialKey,
    TrialResult,
    VerifierResult,
    score,
)
from hc_ray.value import digest_of
from hc_ray_actors import tables
from hc_ray_actors.plan import WITHOUT_MODEL, Plan, comparable
from hc_ray_actors.trajectory import trajectory


def now() -> str:
    """ISO 8601 in UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat()


class Record:
    """One trial as the driver sees it: filled step by step, turned into ``result.json`` at the end."""

    def __init__(self, key: TrialKey, task: Task, plan: Plan, limits: Mapping[str, str]) -> None:
        self.key, self.task, self.plan = key, task, plan
        self._limits = dict(limits)
        self._started = now()
        self.submissions: list[Submission] = []
        self.verdicts: list[Any] = []
        self.outcome: TrialOutcome | None = None
        self._fault: ExceptionInfo | None = None
        self._submitted_at: str | None = None

    def submitted(self, submission: Submission | None) -> None:
        if submission is not None:
            self.submissions.append(submission)
        self._submitted_at = self._submitted_at or now()

    def judged(self, verdict: Any) -> None:
        self.verdicts.append(verdict)

    def ended(self, outcome: TrialOutcome | None) -> None:
        self.outcome = outcome

    def failed(self, kind: str, message: str, trace: str = "") -> None:
        """A failure outside the sandbox: the trial is unscored, whatever was judged before."""
        self._fault = ExceptionInfo(
            exception_type=kind, exception_message=message, exception_traceback=trace, occurred_at=now()
        )

    @property
    def passed(self) -> bool | None:
        """The headline is the first verdict's."""
        if self._fault is not None or not self.verdicts:
            return None
        return bool(self.verdicts[0].passed)

    def result(self) -> TrialResult:
        outcome, passed = self.outcome, self.passed
        first = self.verdicts[0] if self.verdicts else None
        return TrialResult(
            task_name=self.key.task,
            trial_name=self.key.name,
            task_checksum=self.key.task_digest,
            agent_info=AgentInfo(name=self.key.agent, version=__version__, model_info=self._model_info()),
            agent_result=AgentResult(
                n_input_tokens=outcome.prompt_tokens if outcome else self._nothing(),
                n_output_tokens=outcome.completion_tokens if outcome else self._nothing(),
                metadata=self._metadata(first, passed),
            ),
            verifier_result=None if passed is None else VerifierResult(rewards={"reward": 1.0 if passed else 0.0}),
            exception_info=self._fault,
            started_at=self._started,
            finished_at=now(),
            agent_execution=Phase(started_at=self._started, finished_at=self._submitted_at),
            verifier=Phase(started_at=first.started_at, finished_at=first.finished_at) if first else None,
        )

    def _nothing(self) -> int | None:
        """Tokens of a trial without an outcome: none for an agent without a model, unknown for a broken one."""
        return 0 if self.key.agent in WITHOUT_MODEL else None

    def _model_info(self) -> dict[str, Any] | None:
        if not self.key.models:
            return None
        engine, _, _ = self.plan.models["solver"]
        return {"name": engine.label, "provider": engine.kind}

    def _metadata(self, first: Any, passed: bool | None) -> dict[str, Any]:
        key, outcome = self.key, self.outcome
        turns = lineage_turns(outcome) if outcome else 0
        progress = outcome.progress if outcome else None
        common = {
            "agent": key.agent,
            "config_hash": key.solver.hash,
            "split": self.plan.split,
            "seed": key.seed,
            "trial_key": key.digest,
            "score": score(passed, turns, progress),
            "turns": turns,
            "bits": [bool(verdict.passed) for verdict in self.verdicts] if key.models else [],
            "sandbox": key.sandbox,
            "grading": first.mode if first else None,
            "network": key.network,
            "limits": self._limits,
            "witness": first.witness if first else None,
            "cause": first.cause if first else None,
            "left_behind": list(first.left_behind) if first else [],
            "timeout_multiplier": self.plan.config.budget.timeout_multiplier,
            "budget_tokens": self.plan.config.budget.tokens,
            "submission": self.submissions[0].digest if self.submissions else None,
        }
        if outcome is None:
            return {**common, "engine_seconds": 0.0 if key.agent in WITHOUT_MODEL else None, "self_pass": None}
        return {**common, **outcome_metadata(outcome)}


def outcome_metadata(outcome: TrialOutcome) -> dict[str, Any]:
    """What ``result.json`` says of the search itself."""
    suite = outcome.suite
    return {
        "self_attempts": outcome.turns,
        "self_tests": None if suite is None else {
            "generated": len(suite.tests) + len(suite.dropped),
            "admitted": len(suite.tests),
        },
        "suite_key": suite.key if suite else None,
        "suite_hash": suite.hash if suite else None,
        "self_pass": outcome.self_pass,
        "progress": outcome.progress,
        "engine_seconds": round(outcome.engine_seconds, 3),
        "candidates": [
            {
                "id": candidate.id,
                "round": candidate.round,
                "slot": candidate.slot,
                "parent": candidate.parent,
                "temperature": candidate.temperature,
                "form": candidate.form,
                "plan": candidate.plan,
                "seed": candidate.seed,
                "tokens": candidate.prompt_tokens + candidate.completion_tokens,
                "digest": candidate.digest,
                "duplicate_of": candidate.duplicate_of,
                "malformed": candidate.malformed,
                "passed": _passed(outcome, candidate.id),
            }
            for candidate in outcome.candidates
        ],
        "selection": outcome.selection.model_dump(mode="json") if outcome.selection else None,
        "stop_reason": outcome.stop_reason,
        "notes": list(outcome.notes),
    }  # fmt: skip


def lineage_turns(outcome: TrialOutcome) -> int:
    """Answers of the solver model on the submitted lineage: the chosen candidate and those it was repaired from. The
    search's width is in ``self_attempts``, and does not make a score worse."""
    parents = {candidate.id: candidate.parent for candidate in outcome.candidates}
    count, here = 0, outcome.chosen
    while here is not None and here in parents:
        count, here = count + 1, parents[here]
    return count or min(outcome.turns, 1)


def _passed(outcome: TrialOutcome, candidate: str) -> int | None:
    """Self-tests that a candidate passed; None where none was run on it."""
    if outcome.matrix is None or candidate not in outcome.matrix.candidates:
        return None
    return outcome.matrix.passed(candidate)


def files(record: Record, result: TrialResult) -> dict[str, bytes]:
    """A trial's files by their paths in its folder; ``result.json`` is the last."""
    found = {"config.json": _json(record.key.model_dump(mode="json"))}
    outcome = record.outcome
    if outcome is not None:
        found["agent/trajectory.json"] = _json(trajectory(record.key, outcome, result))
        found["agent/candidates.json"] = _json([one.model_dump(mode="json") for one in outcome.candidates])
        if outcome.suite is not None:
            found["agent/suite.json"] = outcome.suite.model_dump_json(indent=1).encode()
        if outcome.matrix is not None:
            found["agent/matrix.parquet"] = parquet(matrix_rows(outcome), MATRIX_COLUMNS)
    if record.submissions:
        found["artifacts/submission.tar"] = record.submissions[-1].tar
    if result.exception_info is not None:
        found["exception.txt"] = _evidence(result.exception_info).encode()
    found["result.json"] = result.model_dump_json(indent=1).encode()
    return found


def plain(record: Record, packed: Mapping[str, bytes]) -> list[bytes]:
    """What a scanner can read of a trial's files: the matrix as JSON (parquet is compressed), and no submission of the
    oracle, which may hold its solution."""
    kept = [data for path, data in packed.items() if not path.endswith((".parquet", ".tar"))]
    if record.outcome is not None:
        kept += [_json(matrix_rows(record.outcome)), _json([one.model_dump(mode="json") for one in _asked(record)])]
    if record.key.agent not in WITHOUT_MODEL:
        kept += [submission.tar for submission in record.submissions]
    return kept


def _asked(record: Record) -> tuple[Any, ...]:
    return record.outcome.exchanges if record.outcome else ()


def commit(store: SweepStore, record: Record, packed: Mapping[str, bytes]) -> None:
    """Write a trial's folder, and its suite where other trials find it; ``result.json`` comes last and makes the trial
    exist."""
    if record.outcome is not None and record.outcome.suite is not None:
        shared = f"suites/{record.outcome.suite.key}.json"
        if not store.exists(shared):
            store.write(shared, packed["agent/suite.json"])
    for path, data in packed.items():
        store.write(f"trials/{record.key.name}/{path}", data)


MATRIX_COLUMNS = ("candidate", "test", "category", "outcome", "observed", "detail")


def matrix_rows(outcome: TrialOutcome) -> list[dict[str, Any]]:
    """The pass matrix as one row a cell."""
    matrix = outcome.matrix
    if matrix is None:
        return []
    categories = {test.id: test.category for test in outcome.matrix_tests}
    return [
        {
            "candidate": candidate,
            "test": test,
            "category": categories.get(test),
            "outcome": cell.outcome,
            "observed": cell.observed,
            "detail": cell.detail,
        }
        for candidate, row in zip(matrix.candidates, matrix.cells, strict=True)
        for test, cell in zip(matrix.tests, row, strict=True)
    ]


PLACEMENT = {"concurrency", "sandbox_slots", "mlflow_uri"}
"""Settings that a resume may change, kept for one that names none."""


def write_sweep(store: SweepStore, plan: Plan, holdout_looks: int) -> None:
    """``sweep.json``: written once; a resume finds it there."""
    if store.exists("sweep.json"):
        return
    config = comparable(plan.config)
    identity = {"config": config, "dataset": plan.dataset, "began": now()}
    store.write(
        "sweep.json",
        _json(
            {
                "schema_version": 1,
                "sweep_id": digest_of(identity)[:16],
                "started_at": identity["began"],
                "config": config,
                "placement": plan.config.model_dump(mode="json", include=PLACEMENT),
                "dataset": plan.dataset,
                "split": plan.split,
                "holdout_looks": holdout_looks,
                "tasks": [{"name": task.name, "digest": task.digest} for task in plan.taken],
                "refused": [task.model_dump() for task in plan.refused],
                "sealed_digest": plan.sealed_digest,
                "models": {
                    role: {
                        "engine": engine.model_dump(mode="json"),
                        "profile": profile.model_dump(mode="json"),
                        "digest": digest,
                    }
                    for role, (engine, profile, digest) in plan.models.items()
                },
                "sandbox": plan.sandbox,
                "sandbox_why": plan.sandbox_why,
                "place": plan.place,
                "planned_trials": len(plan.trials),
                "versions": versions(),
            }
        ),
    )


def versions() -> dict[str, str | None]:
    """What the results were made with; the commit only in a checkout that knows it."""
    found: dict[str, str | None] = {"hc-ray": __version__, "python": platform.python_version()}
    for package in ("ray", "mlflow", "xllamacpp", "docker", "pytest"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    found["git_sha"] = _git_sha()
    return found


def _git_sha() -> str | None:
    checkout = configs_dir().parent
    if not (checkout / ".git").exists() or shutil.which("git") is None:
        return None
    asked = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or None


def derive(store: SweepStore) -> dict[str, Any]:
    """Rebuild report and tables from the committed trials."""
    summary: dict[str, Any] = report.write(store)
    tables.write(store, summary["trials"])
    return summary


def count_unscored(summary: Mapping[str, Any]) -> int:
    return sum(config["unscored"] for config in summary["configs"])


def default_tracking_uri(out: str) -> str | None:
    """SQLite beside the sweep's folder, shared by sweeps of the same parent so that they can be compared; None where
    the sweep directory is not on this machine's disk."""
    return None if "://" in out else f"sqlite:///{Path(out).absolute().parent / 'mlflow.db'}"


def tokens(result: TrialResult) -> int:
    return (result.agent_result.n_input_tokens or 0) + (result.agent_result.n_output_tokens or 0)


def _evidence(fault: ExceptionInfo) -> str:
    return f"{fault.occurred_at} {fault.exception_type}: {fault.exception_message}\n{fault.exception_traceback}"


def _json(data: Any) -> bytes:
    return json.dumps(data, indent=1, ensure_ascii=False).encode()
