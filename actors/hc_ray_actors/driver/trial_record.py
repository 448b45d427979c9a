"""One trial as the driver records it, step by step, and its ``result.json``."""

import datetime
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Literal

from hc_ray import __version__
from hc_ray.domain.candidate import Submission
from hc_ray.domain.task import Task
from hc_ray.domain.trial import (
    WITHOUT_MODEL,
    AgentInfo,
    AgentResult,
    Attempt,
    ExceptionInfo,
    Phase,
    TrialKey,
    TrialResult,
    VerifierResult,
    score,
)
from hc_ray.search.selection import deciding
from hc_ray.search.trial_outcome import TrialOutcome
from hc_ray_actors.attempts import now
from hc_ray_actors.driver.plan import Plan

Stretch = Literal["solving", "queue for a verdict", "grading", "queue for a slot", "recording"]
"""The phases of a trial's wall time, together with the queues for engines and sandboxes, which are taken out of
solving."""


_TOLD = {"id", "round", "slot", "parent", "temperature", "form", "plan", "seed", "digest", "duplicate_of", "malformed"}
"""The fields of a candidate that a result copies."""


class Record:
    """The driver's record of a trial: filled step by step, and turned into ``result.json`` at the end."""

    def __init__(
        self, key: TrialKey, task: Task, plan: Plan, limits: Mapping[str, str], *, earlier: TrialResult | None = None
    ) -> None:
        """``earlier``: an earlier start's unscored result, whose evidence is carried over."""
        self.key, self.task, self.plan = key, task, plan
        self._limits = dict(limits)
        self._started = now()
        self._environment: Phase | None = None
        self._image: str | None = None
        self._runners: list[str] = []
        self.attempts: list[Attempt] = failed_attempts(earlier) if earlier else []
        self.submissions: list[Submission] = []
        self.verdicts: list[Any] = []
        self.outcome: TrialOutcome | None = None
        self._stored: TrialResult | None = None
        self._fault: ExceptionInfo | None = None
        self._submitted_at: str | None = None
        self._verifier: Phase | None = None
        self._cut_short: str | None = None
        self._seconds: defaultdict[Stretch, float] = defaultdict(float)
        self._entered: tuple[Stretch, float] = ("solving", time.monotonic())
        self._parked = 0.0
        """Seconds spent on verdicts up to the last time that it continued."""

    def environment(self, began: str, image: str | None, runners: Collection[str]) -> None:
        """Note the trial's environment, before it waits for a slot: the image's id (None if the backend has no images)
        and the digests of the nodes' runners (``runner_build.runner_digest``)."""
        self._environment = Phase(started_at=began, finished_at=now())
        self._image, self._runners = image, sorted(set(runners))

    def begin(self) -> None:
        """Start a new attempt: of an earlier one, only the evidence is kept."""
        self._started, self._submitted_at = now(), None
        self._seconds.clear()
        self._entered, self._parked = ("solving", time.monotonic()), 0.0
        self.submissions.clear()
        self.outcome = None

    def enter(self, stretch: Stretch) -> None:
        """Start the next phase of the trial's wall time."""
        before, since = self._entered
        self._entered = (stretch, time.monotonic())
        self._seconds[before] += self._entered[1] - since
        if stretch == "solving":
            self._parked = sum(self._seconds.values()) - self._seconds["solving"]

    def note(self, attempt: Attempt) -> None:
        """Add an attempt that failed outside the sandbox."""
        self.attempts.append(attempt)

    def submitted(self, submission: Submission | None, so_far: TrialOutcome | None = None) -> None:
        if submission is not None:
            self.submissions.append(submission)
        if so_far is not None:
            self.outcome = so_far
        self._submitted_at = self._submitted_at or now()
        self.enter("queue for a verdict")

    def restore(self, stored: TrialResult, submission: Submission) -> None:
        """Take over an earlier start's submission that could not be graded: only its verdict is missing."""
        self._stored = stored
        self._started, self._environment = stored.started_at, stored.environment_setup
        self._submitted_at = stored.agent_execution.finished_at if stored.agent_execution else None
        self.submissions = [submission]

    def judged(self, verdict: Any) -> None:
        self.verdicts.append(verdict)
        self.enter("recording")
        # The verifier reports how long grading took, but not when, since its node's clock may be wrong.
        graded = min(verdict.seconds, self._seconds["queue for a verdict"])
        ended = datetime.datetime.now(datetime.UTC)
        began = ended - datetime.timedelta(seconds=graded)
        self._verifier = self._verifier or Phase(started_at=began.isoformat(), finished_at=ended.isoformat())
        self._seconds["queue for a verdict"] -= graded
        self._seconds["grading"] += graded

    def ended(self, outcome: TrialOutcome | None, changed: Mapping[str, Any]) -> None:
        """End the trial. ``changed``: without a new outcome, the changes to the one that came with the submission."""
        self.outcome = outcome or (self.outcome and self.outcome.model_copy(update=changed))

    def cut_short(self, why: str) -> None:
        """Note a failure after a verdict, which stands, with everything that led to it."""
        self._cut_short = f"the trial could not continue after its verdict: {why}"

    def unscored(self) -> None:
        """Give up: the trial has no verdict, for the last attempt's reason."""
        last = self.attempts[-1]
        self._fault = ExceptionInfo(
            exception_type=last.error_type,
            exception_message=last.error,
            exception_traceback=last.trace,
            occurred_at=last.at,
        )

    def result(self) -> TrialResult:
        """The trial's result, whose headline is the first verdict."""
        first = self.verdicts[0] if self.verdicts else None
        passed = None if first is None else bool(first.passed)
        return TrialResult(
            task_name=self.key.task,
            trial_name=self.key.name,
            task_checksum=self.key.task_digest,
            agent_info=AgentInfo(name=self.key.agent, version=__version__, model_info=self._model_info()),
            agent_result=self._agent_result(first, passed),
            verifier_result=None if passed is None else VerifierResult(rewards={"reward": 1.0 if passed else 0.0}),
            exception_info=self._fault,
            started_at=self._started,
            finished_at=now(),
            environment_setup=self._environment,
            agent_execution=Phase(started_at=self._started, finished_at=self._submitted_at),
            verifier=self._verifier,
        )

    def _model_info(self) -> dict[str, Any] | None:
        if not self.key.models:
            return None
        engine = next(engine for engine, _, digest in self.plan.asked if digest == self.key.models["solver"])
        return {"name": engine.label, "provider": engine.kind}

    def _agent_result(self, first: Any, passed: bool | None) -> AgentResult:
        outcome, stored = self.outcome, self._stored
        if stored is not None:
            before = stored.agent_result
            search, spent = dict(before.metadata), (before.n_input_tokens, before.n_output_tokens)
        elif outcome is not None:
            search = {"turns": lineage_turns(outcome), **outcome_metadata(outcome)}
            spent = (outcome.prompt_tokens, outcome.completion_tokens)
        else:
            # 0 for an agent without a model, unknown for a trial that broke.
            free = self.key.agent in WITHOUT_MODEL
            search = {"turns": 0, "engine_seconds": 0.0 if free else None, "self_pass": None}
            spent = (0, 0) if free else (None, None)
        if self._cut_short:
            search["notes"] = [*search.get("notes", []), self._cut_short]
        told = {**search, **self._metadata(first), "score": score(passed, search["turns"], search.get("progress"))}
        return AgentResult(n_input_tokens=spent[0], n_output_tokens=spent[1], metadata=told)

    def _metadata(self, first: Any) -> dict[str, Any]:
        key = self.key
        ended = (first and first.solution) or (self.submissions and self.submissions[0].ended)
        return {
            "agent": key.agent,
            "config_hash": key.config_hash,
            "split": self.plan.config.split,
            "seed": key.seed,
            "trial_key": key.digest,
            "bits": [bool(verdict.passed) for verdict in self.verdicts] if key.models else [],
            "sandbox": key.sandbox,
            "grading": first.mode if first else None,
            "network": key.network,
            "limits": self._limits,
            "image": self._image,
            "runners": self._runners,
            "witness": first.witness if first else None,
            "cause": first.cause if first else None,
            "left_behind": list(first.left_behind) if first else [],
            "timeout_multiplier": key.budget.timeout_multiplier,
            "budget_tokens": key.budget.tokens,
            "phases": self._phases(),
            "submission": self.submissions[0].digest if self.submissions else None,
            **({"solution": ended} if ended else {}),
            "failed_attempts": [attempt.model_dump(mode="json") for attempt in self.attempts],
        }

    def _phases(self) -> dict[str, float] | None:
        """Seconds per phase of the trial's wall time; None for a trial with two starts."""
        if self._stored is not None:
            return None
        self.enter("recording")
        spent = {str(name): seconds for name, seconds in self._seconds.items()}
        waited = self.outcome.queued_seconds if self.outcome else 0.0  # includes verdicts, subtracted here
        queued = min(waited - self._parked, spent.get("solving", 0.0))
        if queued > 0:
            spent |= {"solving": spent["solving"] - queued, "queue for an engine or a sandbox": queued}
        return {name: round(seconds, 3) for name, seconds in spent.items() if seconds >= 0.001}


def failed_attempts(result: TrialResult) -> list[Attempt]:
    """The failed attempts recorded in a stored result."""
    return [Attempt.model_validate(one) for one in result.agent_result.metadata.get("failed_attempts") or []]


def waits_for_verdict(result: TrialResult) -> bool:
    """Whether an unscored trial had submitted: it lacks only a verdict, and no model need be asked again."""
    attempts = failed_attempts(result)
    return bool(attempts) and attempts[-1].stage in ("control", "grade")


def outcome_metadata(outcome: TrialOutcome) -> dict[str, Any]:
    """The metadata of the search in ``result.json``."""
    suite = outcome.suite
    return {
        "self_attempts": outcome.turns,
        "self_tests": None if suite is None else {
            "generated": len(suite.tests) + len(suite.dropped),
            "admitted": len(suite.tests),
            "guards": sum(test.guard for test in suite.tests),
            "discriminating": sum(test.discriminates and not test.guard and test.expectation.kind != "unknown"
                                  for test in suite.tests),
            "weak": not deciding(suite.tests),
        },
        "suite_key": suite.key if suite else None,
        "suite_hash": suite.hash if suite else None,
        "self_pass": outcome.self_pass,
        "progress": outcome.progress,
        "shared_tokens": outcome.shared_tokens,
        "engine_seconds": round(outcome.engine_seconds, 3),
        "candidates": [
            candidate.model_dump(include=_TOLD) | {
                "tokens": candidate.prompt_tokens + candidate.completion_tokens,
                "passed": _passed(outcome, candidate.id),
            }
            for candidate in outcome.candidates
        ],
        "selection": outcome.selection.model_dump(mode="json") if outcome.selection else None,
        "stop_reason": outcome.stop_reason,
        "subtasks": [part.model_dump(mode="json") for part in outcome.subtasks],
        "unanswered": outcome.unanswered,
        "notes": list(outcome.notes),
    }  # fmt: skip


def lineage_turns(outcome: TrialOutcome) -> int:
    """Answers of the solver model on the submitted lineage: those of the chosen candidate and its ancestors. The width
    of the search is in ``self_attempts`` and does not lower the score."""
    chosen = next((one for one in outcome.candidates if one.id == outcome.chosen), None)
    if chosen is not None and chosen.turns > 1:
        return chosen.turns
    parents = {candidate.id: candidate.parent for candidate in outcome.candidates}
    count, here = 0, outcome.chosen
    while here is not None and here in parents:
        count, here = count + 1, parents[here]
    return count or min(outcome.turns, 1)


def _passed(outcome: TrialOutcome, candidate: str) -> int | None:
    """Number of self-tests that a candidate passed; None if none was run on it."""
    if outcome.matrix is None or candidate not in outcome.matrix.candidates:
        return None
    return outcome.matrix.passed(candidate)


def tokens(result: TrialResult) -> int:
    """Tokens that counted against the budget."""
    told = result.agent_result
    return (told.n_input_tokens or 0) + (told.n_output_tokens or 0) - (told.metadata.get("shared_tokens") or 0)
