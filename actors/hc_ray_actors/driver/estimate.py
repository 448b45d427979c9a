"""Estimates a sweep's cost: tokens from its budgets, seconds from the rate last measured on this machine."""

from collections.abc import Iterable, Mapping
from typing import Any

from hc_ray.domain.config import RoleName
from hc_ray.domain.profile import lineage_tokens
from hc_ray.domain.trial import WITHOUT_MODEL, TrialKey
from hc_ray.engines.speed import known_speed
from hc_ray.machine.whole_files import recall, remember

FALLBACK_RATE = 120.0
"""Tokens per second (prompt plus completion) to assume until a sweep or bench has measured the rate on this machine."""


def expected_tokens(trials: Iterable[TrialKey]) -> int:
    """The most tokens that trials should cost: each its budget, or for ``raw`` one lineage or one prompt and answer. A
    suite that several share counts once."""
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
    """From the rate of the last sweep with this model on this machine, or else from the engine's speed at its knee,
    assuming that half of the tokens are completions."""
    rate = FALLBACK_RATE
    if models:
        engine, _, digest = models["solver"]
        speed = known_speed(engine)
        rate = recall("rates", digest) or (speed and 1 / speed.seconds(0.5, 0.5)) or FALLBACK_RATE
    return tokens / rate + trials * 1.5


def remember_rate(model_digest: str, tokens_per_second: float) -> None:
    """Store a sweep's rate for the next plan's estimate."""
    remember("rates", model_digest, round(tokens_per_second, 1))
