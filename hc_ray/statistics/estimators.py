"""Estimators, intervals and paired tests. The task is the unit of randomisation: repeats of a task are
resampled with it. Everything random takes a seed, so that a report printed twice says the same.

numpy and scipy are imported inside the functions that need them: the command line imports this module at no cost."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hc_ray.domain.value import Value

RESAMPLES = 4000
Z95 = 1.959963984540054
"""Two-sided 5 %."""
FEWEST_TASKS = 6
"""With fewer tasks, no sign-flip or McNemar p can fall below 5 %: 2 · 0.5⁵ is 0.0625."""


class Estimate(Value):
    """A number with its 95 % interval; ``n`` counts tasks. All None if nothing was measured."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0


NOT_MEASURED = Estimate()


def wilson(passes: float, n: int, z: float = Z95) -> Estimate:
    """Wilson's score interval of a share. 27 of 89 gives 0.218 to 0.405."""
    return _score(passes / n, n, z, tasks=n) if n > 0 else NOT_MEASURED


def _score(share: float, n: float, z: float, *, tasks: int) -> Estimate:
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))
    return Estimate(value=share, low=low, high=high, n=tasks)


def rate(groups: Sequence[Sequence[float]]) -> Estimate:
    """A pass rate: the mean of the tasks' mean outcomes (each 0 … 1). Wilson's interval for one trial a task, else that
    of clustered shares."""
    filled = [group for group in groups if group]
    single = all(len(group) == 1 for group in filled)
    return wilson(sum(map(sum, filled)), len(filled)) if single else mean_of_shares(filled)


def mean_of_shares(groups: Sequence[Sequence[float]]) -> Estimate:
    """The mean of tasks' mean shares: Wilson's interval of as many trials as the spread over tasks is worth, of no more
    than there were, with Student's quantile (Korn and Graubard 1998). A bootstrap's percentiles cover too rarely for 20
    tasks and for rates near 0 or 1 (docs/results.md). Tasks that are all alike say nothing of their spread: they are
    worth a trial each."""
    filled = [group for group in groups if group]
    if not filled:
        return NOT_MEASURED
    means = [sum(group) / len(group) for group in filled]
    share, count = sum(means) / len(means), len(means)
    spread = sum((mean - share) ** 2 for mean in means)
    if len(set(means)) < 2 or share * (1 - share) == 0:
        return wilson(sum(means), count)
    from scipy.special import stdtrit

    worth = min(sum(map(len, filled)), share * (1 - share) * count * (count - 1) / spread)
    return _score(share, worth, float(stdtrit(count - 1, 0.975)), tasks=count)


def mean_difference(differences: Sequence[float], *, seed: int = 0) -> tuple[float, float]:
    """95 % interval of the mean of tasks' differences (-1 … 1): the percentiles of resampled tasks, stretched about the
    mean for few tasks (Hesterberg 2015, "expanded percentile"), since resamples vary by the spread over n, not n - 1,
    and their quantiles are a normal's, not Student's. For 20 tasks by a tenth. Where all are equal there is nothing to
    resample: Wilson's bound of 0 of n stands in."""
    import numpy as np
    from scipy.special import stdtrit

    each, count = np.asarray(differences, dtype=float), len(differences)
    value = sum(differences) / count
    if len(set(differences)) < 2:
        half = wilson(0, count).high or 1.0
        return max(-1.0, value - half), min(1.0, value + half)
    drawn = each[np.random.default_rng(seed).integers(0, count, (RESAMPLES, count))].mean(axis=1)
    stretch = math.sqrt(count / (count - 1)) * float(stdtrit(count - 1, 0.975)) / Z95
    low, high = (value + (float(end) - value) * stretch for end in np.quantile(drawn, [0.025, 0.975]))
    return max(-1.0, low), min(1.0, high)


def pass_at_k(n: int, passes: int, k: int) -> float:
    """Unbiased pass@k from ``n`` samples with ``passes`` successes: 1 - C(n-c, k) / C(n, k). Needs 1 ≤ k ≤ n. Of a
    pool it is also the chance that ``k`` of its samples hold a right one: the ceiling of every selector (oracle@k)."""
    return 1.0 - math.comb(n - passes, k) / math.comb(n, k)


def best_at_k(passed: Sequence[bool], scores: Sequence[float], k: int) -> float:
    """The chance that of ``k`` samples drawn without replacement from a pool the one with the highest score is right,
    averaged over ties. Exact: those with equal scores are equally likely to be drawn. Needs 1 ≤ k ≤ n."""
    levels: dict[float, list[bool]] = {}
    for bit, score in zip(passed, scores, strict=True):
        levels.setdefault(score, []).append(bit)
    right, less = 0.0, 0
    for _, level in sorted(levels.items()):
        upto = less + len(level)
        right += (math.comb(upto, k) - math.comb(less, k)) * sum(level) / len(level)
        less = upto
    return right / math.comb(len(passed), k)


def selection_efficiency(chosen: float | None, mean: float | None, oracle: float | None) -> float | None:
    """(chosen - mean) / (oracle - mean); None if the pool leaves nothing to select."""
    if chosen is None or mean is None or oracle is None or oracle - mean < 1e-12:
        return None
    return (chosen - mean) / (oracle - mean)


def efficiency(rows: Sequence[tuple[float, float, float]]) -> Estimate:
    """Selection efficiency of tasks' ``(chosen, mean, oracle)``."""
    import numpy as np

    def of(total: Any) -> Any:
        chosen, mean, oracle = total
        room = oracle - mean
        return (chosen - mean) / np.where(room > 1e-12, room, np.nan)

    return resampled(rows, of)


def resampled(terms: Sequence[tuple[float, ...]], of: Callable[[Any], Any], *, resamples: int = 1000) -> Estimate:
    """A figure of sums over tasks. The interval resamples tasks, all terms of one together; resamples that have no such
    figure (0 / 0) are left out."""
    import numpy as np

    if not terms:
        return NOT_MEASURED
    each = np.asarray(terms)
    drawn = each[np.random.default_rng(0).integers(0, len(terms), (resamples, len(terms)))].sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        value, several = float(of(each.sum(axis=0))), of(drawn.T)
    if not np.isfinite(value):
        return NOT_MEASURED
    low, high = np.quantile(several[np.isfinite(several)], [0.025, 0.975])
    if np.isclose(low, high):
        # Tasks that are all alike resample to themselves: that is no certainty.
        return Estimate(value=value, n=len(terms))
    return Estimate(value=value, low=min(value, float(low)), high=max(value, float(high)), n=len(terms))


def sign_flip(differences: Sequence[float], *, seed: int = 0, draws: int = 20000) -> float:
    """Two-sided p of paired per-task differences: the share of sign assignments whose mean is at least as far from 0.
    Exact up to 14 non-zero differences, else by ``draws`` random assignments (never 0)."""
    moved = [difference for difference in differences if difference]
    if not moved:
        return 1.0
    seen = abs(sum(moved)) - 1e-12
    if len(moved) <= 14:
        sums = [0.0]
        for difference in moved:
            sums = [value + sign * difference for value in sums for sign in (1, -1)]
        return float(sum(abs(value) >= seen for value in sums) / len(sums))
    import numpy as np

    # Of differences that are equal only the number of those with a plus matters, so that many tasks cost no more.
    sizes, counts = np.unique(np.abs(moved).round(12), return_counts=True)
    plus = np.random.default_rng(seed).binomial(counts, 0.5, (draws, len(counts)))
    extreme = int((np.abs((2 * plus - counts) @ sizes) >= seen).sum())
    return (extreme + 1) / (draws + 1)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided McNemar p: ``only_a`` pairs where only a passed, ``only_b`` where only b did."""
    if not only_a + only_b:
        return 1.0
    from scipy.special import bdtr  # ``scipy.stats`` takes a second of processor time to import

    return min(1.0, 2.0 * float(bdtr(min(only_a, only_b), only_a + only_b, 0.5)))


def paired_shares(only_a: int, only_b: int, n: int) -> tuple[float, float]:
    """95 % interval of the difference of two shares of the same ``n`` tasks (Bonett and Price 2012: Wald with one pair
    added to each discordant count). A bootstrap of a handful of pairs is far too narrow."""
    share_a, share_b = (only_a + 1) / (n + 2), (only_b + 1) / (n + 2)
    centre = share_a - share_b
    half = Z95 * math.sqrt((share_a + share_b - centre * centre) / (n + 2))
    return max(-1.0, centre - half), min(1.0, centre + half)


class Paired(Value):
    """a - b over common tasks, with a 95 % interval and the p of the named test."""

    delta: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    test: str = "none"
    n: int = 0


def paired(a: Mapping[str, Sequence[float]], b: Mapping[str, Sequence[float]], *, seed: int = 0) -> Paired:
    """Compare two agents, given task → outcomes in the order of their common seeds. Leaves out tasks that one side
    lacks. Uses exact McNemar for one trial per task; for repeats, a sign-flip permutation of the tasks' mean
    differences and a bootstrap over tasks."""
    common = sorted(task for task in a if a[task] and b.get(task))
    if not common:
        return Paired()
    single = all(len(a[task]) == 1 and len(b[task]) == 1 for task in common)
    differences = [sum(a[task]) / len(a[task]) - sum(b[task]) / len(b[task]) for task in common]
    delta = sum(differences) / len(differences)
    if single and all(outcome in (0.0, 1.0) for task in common for outcome in (*a[task], *b[task])):
        only_a, only_b = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
        low, high = paired_shares(only_a, only_b, len(common))
        p, test = mcnemar(only_a, only_b), "exact McNemar"
    else:
        p, test = sign_flip(differences, seed=seed), "sign-flip permutation"
        low, high = mean_difference(differences, seed=seed)
    return Paired(delta=delta, low=low, high=high, p=p, test=test, n=len(common))


def difference_of(a: Estimate, b: Estimate) -> Estimate:
    """a - b of two independent rates, with the interval made of theirs (Newcombe's square-and-add)."""
    if a.value is None or b.value is None or None in (a.low, a.high, b.low, b.high):
        return NOT_MEASURED
    assert a.low is not None and a.high is not None and b.low is not None and b.high is not None
    delta = a.value - b.value
    return Estimate(
        value=delta,
        low=delta - math.hypot(a.value - a.low, b.high - b.value),
        high=delta + math.hypot(a.high - a.value, b.value - b.low),
        n=min(a.n, b.n),
    )


def minimal_detectable_effect(
    tasks: int, seeds: int = 1, *, within_variance: float = 0.12, between: float = 0.12
) -> float | None:
    """The smallest true difference of two pass rates that ``paired`` sees with 80 % power at 5 %: for one seed by exact
    McNemar's own power, else by Student's quantiles and one and a half steps of the difference, since the sign-flip
    permutation counts ties against it (simulations in docs/results.md).

    ``within_variance``: the tasks' mean p(1-p); ``between``: standard deviation of a task's true difference. The
    defaults give 0.38 for 20 tasks and 0.16 for 89 at one seed. None where no difference could be significant."""
    if tasks < FEWEST_TASKS or seeds < 1:
        return None
    variance = between**2 + 2 * within_variance / seeds
    import numpy as np
    from scipy.special import bdtr, bdtrik, stdtrit

    if seeds > 1:
        quantiles = float(stdtrit(tasks - 1, [0.975, 0.8]).sum())
        return min(1.0, quantiles * math.sqrt(variance / tasks) + 1.5 / (tasks * seeds))
    pairs = np.arange(tasks + 1)
    # Of so many discordant pairs the most that may speak for the other side.
    most = np.where(0.5**pairs <= 0.025, np.floor(bdtrik(0.025, pairs, 0.5)), -1)

    def power(effect: float) -> float:
        discordant = max(effect, min(1.0, variance + effect * effect))
        chances = np.diff(bdtr(pairs, tasks, discordant), prepend=0.0)
        seen = bdtr(np.maximum(most, 0), pairs, (1 - effect / discordant) / 2)
        return float(np.where(most >= 0, chances * seen, 0.0).sum())

    low, high = 0.01, 1.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= 0.8 else (middle, high)
    return high


def false_alarm_rate(groups: Sequence[Sequence[float]], *, seed: int = 0, repeats: int = 200) -> float | None:
    """A/A check: each task's repeats (0 or 1) are halved at random, and the halves compared like two configs.
    The share of comparisons with p < 0.05: about 0.05 at most if the test is honest. None without repeats of a task."""
    import numpy as np

    size = np.array([len(group) for group in groups if len(group) >= 2], dtype=int)
    passes = np.array([sum(group) for group in groups if len(group) >= 2], dtype=int)
    if not len(size):
        return None
    chance, half = np.random.default_rng(seed), size // 2
    alarms = 0
    for repeat in range(repeats):
        first = chance.hypergeometric(passes, size - passes, half)
        second = chance.hypergeometric(passes - first, size - half - (passes - first), half)
        alarms += sign_flip(((first - second) / half).tolist(), seed=repeat, draws=2000) < 0.05
    return alarms / repeats
