"""What a sweep will cost: tokens by its budgets, seconds by the rate that was last measured here."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from hc_ray.domain.config import AgentName, RoleName
from hc_ray.domain.trial import TrialKey
from hc_ray.machine.paths import data_root

WITHOUT_MODEL: frozenset[AgentName] = frozenset({"oracle", "nop"})
"""Agents that ask no model."""
FALLBACK_RATE = 120.0
"""Tokens per second (prompt and completion) assumed until a sweep on this machine has measured its own."""


def expected_tokens(trials: Iterable[TrialKey]) -> int:
    """Tokens that trials are expected to cost at most: each its budget, or one prompt and answer. A suite that several
    of them share is written once."""
    total, written = 0, set()
    for key in trials:
        if key.agent == "raw":
            total += 300 + key.solver.max_answer_tokens
        elif key.agent not in WITHOUT_MODEL:
            total += key.budget.tokens
        if key.agent == "hc":
            testgen = key.solver.testgen
            suite = (key.task_digest, key.seed, testgen, key.models.get("tester"))
            total -= testgen.budget_tokens if suite in written else 0
            written.add(suite)
    return total


def expected_seconds(tokens: int, trials: int, models: Mapping[RoleName, Any]) -> float:
    rate = FALLBACK_RATE
    if models:
        rate = measured_rate(models["solver"][2]) or FALLBACK_RATE
    return tokens / rate + trials * 1.5


def measured_rate(model_digest: str) -> float | None:
    """Tokens per second that the last sweep with this model reached on this machine; None before the first."""
    try:
        return float(json.loads((data_root() / "rates.json").read_text())[model_digest])
    except (OSError, ValueError, KeyError):
        return None


def remember_rate(model_digest: str, tokens_per_second: float) -> None:
    """Keep a sweep's rate for the next plan's estimate."""
    path = data_root() / "rates.json"
    try:
        rates = json.loads(path.read_text())
    except (OSError, ValueError):
        rates = {}
    rates[model_digest] = round(tokens_per_second, 1)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(rates, indent=1))
    temporary.replace(path)
