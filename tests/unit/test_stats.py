import math
import random
import time
from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.statistics import estimators
from tests.fakes import simulated_sweeps as simulated


@pytest.mark.parametrize(("passes", "n", "low", "high"), [(27, 89, 0.218, 0.405), (6, 20, 0.145, 0.519)])
def test_wilson_gives_the_known_intervals(passes: int, n: int, low: float, high: float) -> None:
    estimate = estimators.wilson(passes, n)
    assert (round(estimate.low or 0, 3), round(estimate.high or 0, 3)) == (low, high)


@pytest.mark.parametrize("spread", simulated.SPREADS.values())
@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_intervals_of_twenty_tasks_cover_the_truth_as_often_as_they_say(seeds: int, spread: float) -> None:
    # With a normal's quantile instead of Student's, repeats cover less than this.
    assert 0.9455 <= simulated.coverage(20, seeds, spread, simulations=1000) <= 0.97


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_minimal_detectable_effect_is_seen_in_four_of_five_sweeps_and_none_in_one_of_twenty(seeds: int) -> None:
    effect, delta = simulated.promised(20, seeds, 0.8)
    power, covered = simulated.detected(20, seeds, 0.8, effect, simulations=500)
    assert power >= 0.77 and covered >= 0.93 and delta < 0.5
    assert simulated.detected(20, seeds, 0.8, 0.0, simulations=500)[0] <= 0.06


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_equals_the_share_of_subsets_that_hold_a_success(case: tuple[int, int, int]) -> None:
    n, passes, k = case
    passed = [True] * passes + [False] * (n - passes)
    expected = sum(any(pool) for pool in combinations(passed, k)) / comb(n, k)
    assert estimators.pass_at_k(n, passes, k) == pytest.approx(expected)
    assert estimators.best_at_k(passed, passed, k) == pytest.approx(expected)


def test_best_at_k_averages_over_ties_and_efficiency_is_unknown_where_nothing_can_be_selected() -> None:
    passed = [True, False, False, True]
    assert estimators.best_at_k(passed, [0.0] * 4, 2) == pytest.approx(0.5)
    best = estimators.best_at_k(passed, [0.9, 0.5, 0.5, 0.4], 3)
    assert 0.5 < best < estimators.pass_at_k(4, sum(passed), 3) == 1.0
    assert estimators.selection_efficiency(best, 0.5, 1.0) == pytest.approx((best - 0.5) / 0.5)
    assert estimators.selection_efficiency(1.0, 1.0, 1.0) is None
    assert estimators.selection_efficiency(None, 0.2, 0.5) is None
    assert estimators.selection_efficiency(0.2, 0.4, 0.8) == pytest.approx(-0.5)


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), max_size=14))
def test_on_single_trials_sign_flip_and_mcnemar_agree(differences: list[float]) -> None:
    exact = estimators.mcnemar(differences.count(1.0), differences.count(-1.0))
    assert estimators.sign_flip(differences) == pytest.approx(exact)
    assert estimators.sign_flip([1.0] * 40, draws=100) == 1 / 101, "never 0"
    assert estimators.sign_flip([1.0] * 15 + [-1.0] * 8) == pytest.approx(estimators.mcnemar(15, 8), abs=0.01)


def test_a_paired_comparison_uses_common_tasks_only() -> None:
    a = {"t1": [1.0], "t2": [1.0], "t3": [1.0], "only-a": [0.0]}
    b = {"t1": [0.0], "t2": [1.0], "t3": [0.0], "only-b": [1.0]}
    result = estimators.paired(a, b)
    assert (result.n, result.test) == (3, "exact McNemar")
    assert result.delta == pytest.approx(2 / 3) and result.p == pytest.approx(0.5)
    assert estimators.paired({}, b).delta is None


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.integers(0, n), st.just(n))))
def test_the_interval_of_paired_shares_holds_the_difference_and_mirrors(case: tuple[int, int, int]) -> None:
    only_a, rest, n = case
    only_b = min(rest, n - only_a)
    low, high = estimators.paired_shares(only_a, only_b, n)
    assert -1 <= low <= (only_a - only_b) / n <= high <= 1
    assert estimators.paired_shares(only_b, only_a, n) == pytest.approx((-high, -low))


def test_a_few_discordant_pairs_leave_zero_inside_the_interval_and_no_difference_still_has_width():
    # Two of eight: exact McNemar says p = 0.5, so an interval that begins at zero would contradict it.
    low, high = estimators.paired_shares(2, 0, 8)
    assert low < -0.1 and high > 0.5 and estimators.paired_shares(12, 1, 20)[0] > 0
    same = {f"t{i}": [1.0] for i in range(8)}
    result = estimators.paired(same, same)
    assert (result.delta, result.p) == (0.0, 1.0)
    assert result.low is not None and result.high is not None and result.low < -0.1 and result.high > 0.1


@pytest.mark.parametrize(("tasks", "seeds", "effect"), [(20, 1, 0.38), (20, 3, 0.23), (89, 1, 0.16), (89, 5, 0.08)])
def test_the_minimal_detectable_effect_matches_the_published_table_and_too_few_tasks_show_none(tasks, seeds, effect):
    assert estimators.minimal_detectable_effect(tasks, seeds) == pytest.approx(effect, abs=0.005)
    assert estimators.minimal_detectable_effect(estimators.FEWEST_TASKS - 1) is None
    assert estimators.mcnemar(estimators.FEWEST_TASKS - 1, 0) > 0.05 > estimators.mcnemar(estimators.FEWEST_TASKS, 0)


def test_the_a_a_check_rarely_raises_an_alarm_needs_repeats_and_takes_many_tasks_together() -> None:
    chance = random.Random(3)
    groups = [[float(chance.random() < 0.4) for _ in range(6)] for _ in range(20)]
    alarms = estimators.false_alarm_rate(groups, repeats=100)
    assert alarms is not None and alarms <= 0.12 and estimators.false_alarm_rate([[1.0], [0.0]]) is None
    began = time.process_time()
    assert estimators.false_alarm_rate([[1.0, 0.0], [1.0, 1.0, 0.0]] * 20_000) is not None
    assert time.process_time() - began < 10, "minutes where each sign of each task is drawn by itself"


def test_the_gap_of_two_rates_has_an_interval_wider_than_either() -> None:
    dev, holdout = estimators.wilson(20, 40), estimators.wilson(4, 10)
    gap = estimators.difference_of(dev, holdout)
    assert gap.value == pytest.approx(0.1) and gap.low is not None and gap.high is not None
    assert math.isclose(gap.low, 0.1 - math.hypot(0.5 - dev.low, holdout.high - 0.4))  # type: ignore[operator]
    assert estimators.difference_of(dev, estimators.NOT_MEASURED) == estimators.NOT_MEASURED


def test_efficiency_and_mean_shares_look_at_tasks_and_claim_no_certainty_where_all_are_alike() -> None:
    mixed = estimators.efficiency([(1.0, 0.5, 1.0), (0.0, 0.25, 1.0), (1.0, 0.5, 1.0), (0.0, 0.0, 0.0)])
    assert mixed.value == pytest.approx((0.5 - 0.3125) / (0.75 - 0.3125))
    assert mixed.low is not None and mixed.high is not None and mixed.low < 0.42 < 0.43 < mixed.high
    alike = estimators.efficiency([(1.0, 0.5, 1.0)] * 4)
    assert (alike.value, alike.low) == (1.0, None)
    lone = estimators.efficiency([(0.5, 0.6, 1.0), (1.0, 1.0, 1.0)])  # one task has room: every resample says the same
    assert lone.value == pytest.approx(-0.25) and lone.low is None
    assert estimators.efficiency([(1.0, 1.0, 1.0)]) == estimators.efficiency([]) == estimators.NOT_MEASURED
    assert estimators.mean_of_shares([[0.5], [0.5]]) == estimators.wilson(1.0, 2)
    assert estimators.mean_of_shares([[], []]) == estimators.NOT_MEASURED
    nearly = estimators.mean_of_shares([[0.5], [0.500001], [0.5], [0.5]])  # worth four trials, as equal shares are
    equal = estimators.wilson(2.0, 4)
    assert (nearly.low or 1) <= (equal.low or 0) and (nearly.high or 0) >= (equal.high or 1)
