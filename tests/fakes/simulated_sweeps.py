"""Sweeps in worlds whose truth is known: how often the estimators' intervals cover it, their tests raise an alarm, and
effects are seen."""

from functools import cache
from typing import Any

import numpy as np

from hc_ray.statistics import estimators

SHARES = tuple(round(0.1 * i, 1) for i in range(1, 10))
"""True pass rates that a coverage is averaged over."""
SPREADS = {"tasks alike": 4.0, "tasks apart": 0.8}
"""How many trials the beta distribution of the tasks' difficulty is worth: the fewer, the more tasks that always or
never pass."""


def coverage(tasks: int, seeds: int, spread: float, *, simulations: int) -> float:
    """How often the interval of a rate holds the true one: ``simulations`` sweeps for each of the true rates."""
    chance = np.random.default_rng([tasks, seeds, simulations])
    inside = 0
    for share in SHARES:
        for _ in range(simulations):
            hard = chance.beta(share * spread, (1 - share) * spread, tasks)
            found = estimators.rate(chance.binomial(1, hard[:, None], (tasks, seeds)).tolist())
            inside += found.low is not None and found.high is not None and found.low <= share <= found.high
    return inside / simulations / len(SHARES)


@cache
def population(spread: float, effect: float) -> tuple[Any, Any, float, float, float]:
    """Pass rates of many tasks under two configs, their mean difference, the mean variance of one trial within a task,
    and the standard deviation of the tasks' differences."""
    chance = np.random.default_rng(1)
    middle, own = chance.beta(spread / 2, spread / 2, 200_000), chance.choice([-0.1, 0.1], 200_000)
    a, b = np.clip(middle + (effect + own) / 2, 0, 1), np.clip(middle - (effect + own) / 2, 0, 1)
    return a, b, float((a - b).mean()), float((a * (1 - a) + b * (1 - b)).mean() / 2), float((a - b).std())


def promised(tasks: int, seeds: int, spread: float) -> tuple[float, float]:
    """The world whose effect is the smallest that such a sweep promises to see in it, and that effect."""
    low, high = 0.0, 2.0
    for _ in range(12):
        middle = (low + high) / 2
        *_, delta, within, between = population(spread, middle)
        told = estimators.minimal_detectable_effect(tasks, seeds, within_variance=within, between=between)
        low, high = (middle, high) if told is None or delta < told else (low, middle)
    return high, population(spread, high)[2]


def detected(tasks: int, seeds: int, spread: float, effect: float, *, simulations: int) -> tuple[float, float]:
    """The shares of paired sweeps with p < 0.05, and of intervals that hold the true difference."""
    a, b, delta, *_ = population(spread, effect)
    chance = np.random.default_rng([tasks, seeds, simulations, 7])
    alarms = inside = 0
    for number in range(simulations):
        chosen = chance.integers(0, len(a), tasks)
        sides = [chance.binomial(1, side[chosen][:, None], (tasks, seeds)).tolist() for side in (a, b)]
        found = estimators.paired(*({str(i): one for i, one in enumerate(side)} for side in sides), seed=number)
        assert found.p is not None and found.low is not None and found.high is not None
        alarms += found.p < 0.05
        inside += found.low <= delta <= found.high
    return alarms / simulations, inside / simulations
