"""What a sweep will cost: tokens by its budgets, seconds by the rate that was last measured here."""

from collections.abc import Iterable, Mapping
from typing import Any

from hc_ray.domain.config import RoleName
from hc_ray.domain.profile import lineage_tokens
from hc_ray.domain.trial import WITHOUT_MODEL, TrialKey
from hc_ray.engines.speed import known_speed
from hc_ray.machine.whole_files import recall, remember

FALLBACK_RATE = 120.0
"""Tokens per second (prompt and completion) assumed until a sweep or a bench on this machine has measured its own."""


def expected_tokens(trials: Iterable[TrialKey]) -> int:
    """Tokens that trials are expected to cost at most: each its budget, or one lineage or one prompt and
    answer (raw). A suite that several of them share is written once."""
    total, written = 0, set()
    for key in trials:
        if key.agent == "raw":
            loop = key.solver.agent_style == "loop"
            total += lineage_tokens(key.budget) if loop else 300 + key.solver.max_answer_tokens
        elif key.agent not in WITHOUT_MODEL:
            total += key.budget.tokens
        if key.agent == "hc":
            testgen = key.solver.testgen
            suite = (key.task_digest, key.seed, testgen, key.models.get("tester"))
            total -= testgen.budget_tokens if suite in written else 0
            written.add(suite)
    return total


def expected_seconds(tokens: int, trials: int, models: Mapping[RoleName, Any]) -> float:
    """By the rate that the last sweep with this model reached on this machine; before the first by the engine's speed
    at its knee, half of the tokens being answers."""
    rate = FALLBACK_RATE
    if models:
        engine, _, digest = models["solver"]
        speed = known_speed(engine)
        rate = recall("rates", digest) or (speed and 1 / speed.seconds(0.5, 0.5)) or FALLBACK_RATE
    return tokens / rate + trials * 1.5


def remember_rate(model_digest: str, tokens_per_second: float) -> None:
    """Keep a sweep's rate for the next plan's estimate."""
    remember("rates", model_digest, round(tokens_per_second, 1))
