"""A trial's key, its result (with the fields of Harbor's TrialResult), and its score.

Seeds and sandbox names are SHA-256 of the public digest, the role and the place in the trial; they never depend on
names, times or the order of arrival."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from hc_ray.domain.config import AgentName, BudgetConfig, RoleName, SolverConfig
from hc_ray.domain.value import Value, digest_of

WITHOUT_MODEL: frozenset[AgentName] = frozenset({"oracle", "nop"})
"""Agents that use no model."""


class TrialKey(Value):
    """Everything public that a trial's outcome may depend on. Stored in full in ``config.json``."""

    schema_version: int = 1
    task: str
    task_digest: str
    agent: AgentName
    solver: SolverConfig
    budget: BudgetConfig = BudgetConfig()
    seed: int
    models: dict[RoleName, str]
    """Role → digest of model and profile."""
    prompts: dict[RoleName, str]
    """Role → digest of its prompt templates."""
    sandbox: str
    grading: str
    threshold: float = 1.0
    """The least reward that passes."""
    network: str = "mention"

    @cached_property
    def digest(self) -> str:
        # Exclude the task's name, which is only a label: everything that a solver sees derives from the public digest.
        return digest_of(self.model_dump(mode="json", exclude={"task"}))

    @property
    def config_hash(self) -> str:
        """SHA-256 of everything in which configs of a sweep may differ, and of the prompts: trials with equal hashes
        can be pooled."""
        return config_hash(self.solver, self.budget, self.models, self.prompts)

    @cached_property
    def name(self) -> str:
        """The trial's folder: ``<task[:32]>__<key8>``."""
        return f"{self.task.replace('/', '_')[:32]}__{self.digest[:8]}"

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        copied = super().model_copy(update=update, deep=deep)
        for known in ("digest", "name") if update else ():
            copied.__dict__.pop(known, None)  # drop the original's cached properties
        return copied


def config_hash(
    solver: SolverConfig, budget: BudgetConfig, models: Mapping[RoleName, str], prompts: Mapping[Any, str]
) -> str:
    """``models``: role → digest of model and profile; ``prompts``: role → digest of its templates."""
    return digest_of([solver.hash, digest_of(budget), dict(models), dict(prompts)])


def seed_of(task_digest: str, trial_seed: int, role: str, *place: int | str) -> int:
    """A 31-bit seed for one request; ``place`` is its round, slot, category …"""
    text = "\0".join((task_digest, str(trial_seed), role, *map(str, place)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def sandbox_name(task_digest: str, trial: str, *place: int | str) -> str:
    """A sandbox's name (16 hex digits), equal for equal places in equal trials. ``trial`` is the trial's digest, which
    derives from public data only."""
    text = "\0".join((task_digest, trial, *map(str, place)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class _Open(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class AgentInfo(_Open):
    name: str
    version: str
    model_info: dict[str, Any] | None = None


class AgentResult(_Open):
    n_input_tokens: int | None = None
    n_output_tokens: int | None = None
    cost_usd: float | None = None
    metadata: dict[str, Any] = {}


class VerifierResult(_Open):
    rewards: dict[str, float] | None = None


class ExceptionInfo(_Open):
    exception_type: str
    exception_message: str
    exception_traceback: str = ""
    occurred_at: str


Stage = Literal["environment", "solve", "reference", "control", "grade"]
"""Stages in which a trial can fail outside its sandbox: preparing the task's image, solving, running the reference
solution (``oracle``), the control of the task's reference, grading."""


class Attempt(_Open):
    """One attempt that failed outside the sandbox."""

    stage: Stage
    number: int
    """Number of the attempt, from 1 for each stage and start of the sweep."""
    error_type: str
    error: str
    trace: str = ""
    """Empty if the type says enough."""
    at: str
    """Time of the failure, ISO 8601 in UTC."""
    again_after_sec: float | None = None
    """Seconds until the next attempt; None for the last."""


class Phase(_Open):
    started_at: str | None = None
    finished_at: str | None = None


class TrialResult(_Open):
    """``result.json``, whose write commits the trial. Times are ISO 8601 in UTC; unknown values are null."""

    schema_version: int = 1
    task_name: str
    trial_name: str
    task_checksum: str
    agent_info: AgentInfo
    agent_result: AgentResult
    verifier_result: VerifierResult | None = None
    exception_info: ExceptionInfo | None = None
    started_at: str
    finished_at: str
    environment_setup: Phase | None = None
    agent_execution: Phase | None = None
    verifier: Phase | None = None

    @property
    def passed(self) -> bool | None:
        """The blind verdict; None for an unscored trial."""
        rewards = self.verifier_result.rewards if self.verifier_result else None
        return None if rewards is None else rewards.get("reward") == 1.0

    @property
    def seconds(self) -> float | None:
        """Wall time in seconds, without queues; None if unknown, as for a trial that a later start finished."""
        phases = self.agent_result.metadata.get("phases", {})
        if phases is None:
            return None
        queued: float = sum(seconds for name, seconds in phases.items() if name.startswith("queue "))
        try:
            took = datetime.fromisoformat(self.finished_at) - datetime.fromisoformat(self.started_at)
        except (ValueError, TypeError):
            return None
        return max(0.0, took.total_seconds() - queued)


def score(passed: bool | None, turns: int, progress: float | None) -> float | None:
    """The score of a trial: ``1000 + max(0, 100 − turns)`` for a blind pass, ``99 × self-test progress`` for a fail,
    None when unscored: a crash at turn 0 never beats a slower failure."""
    if passed is None:
        return None
    return 1000.0 + max(0, 100 - turns) if passed else 99.0 * (progress or 0.0)
