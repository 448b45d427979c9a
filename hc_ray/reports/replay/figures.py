"""The figures of a replay: pass rates of each agent under each selector with intervals, the ceiling of its pools, and
paired differences at equal tokens.

Rates use only pools in which every candidate is graded; with partial verdicts, only selectors that agree with the run
would be measured."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from hc_ray.domain.config import SelectorName
from hc_ray.domain.ports import Store
from hc_ray.domain.suite import Unknown
from hc_ray.reports.arms import grouped
from hc_ray.reports.comparison import paired_by_task
from hc_ray.reports.replay.pools import SELECTORS, SOLVING, Pool, choose, cut, read_pools
from hc_ray.reports.self_to_blind import Judged, auroc
from hc_ray.statistics import estimators

SIZES = (1, 2, 4, 8, 16, 32, 64)
BASELINE_SELECTOR: SelectorName = "mbr"
"""The selector of ``best_of_n`` in comparisons, fixed beforehand."""

AS_RUN = "as run"
"""The label of a trial's own submission, from its whole pool."""


def replay(store: Store, selector: SelectorName | None) -> dict[str, Any]:
    """The data of ``report --replay --json``. With ``selector`` None, comparisons use the trials' own choices for
    ``hc``."""
    pools = read_pools(store)
    reference = _reference_tokens(pools)
    level = [pool if reference is None or pool.agent == "hc" else cut(pool, reference.get(pool.key)) for pool in pools]
    groups, uncut = (grouped(some, lambda pool: (pool.agent, pool.config_hash, pool.split)) for some in (level, pools))
    return {
        "schema_version": 1,
        "selector": selector,
        "trials": len(pools),
        "graded": sum(pool.graded for pool in level),
        "equal_tokens": reference is not None,
        "agents": [row for key, group in groups.items() for row in _agent_rows(uncut[key], group, selector)],
        "comparisons": _comparisons(groups, selector),
        "auroc": [row for key, group in uncut.items() for row in _auroc(key, group)],
    }


def _reference_tokens(pools: Sequence[Pool]) -> dict[tuple[str, int], int] | None:
    """Tokens that ``hc`` used by task and seed; None unless exactly one config of ``hc`` ran."""
    hc = [pool for pool in pools if pool.agent == "hc"]
    if len({pool.config_hash for pool in hc}) != 1:
        return None
    return {pool.key: pool.tokens for pool in hc if pool.tokens is not None}


def _agent_rows(whole: Sequence[Pool], level: Sequence[Pool], selector: SelectorName | None) -> list[dict[str, Any]]:
    """The trials' own submissions from whole pools, then one row per selector over graded pools at equal tokens."""
    rows = [_row(whole, None)]
    if any(pool.matrix is not None and len(pool.candidates) > 1 for pool in level):
        rows += [_row(level, name) for name in dict.fromkeys((*SELECTORS, selector or SELECTORS[0]))]
    return rows


def _row(group: Sequence[Pool], selector: SelectorName | None) -> dict[str, Any]:
    graded = [pool for pool in group if pool.graded]
    outcomes = _outcomes(graded if selector else group, selector)
    passed = _by_task(outcomes)
    means = _by_task({pool.key: sum(pool.bits) / len(pool.bits) for pool in graded})
    oracle = _by_task({pool.key: any(pool.bits) for pool in graded})
    own = _by_task({key: value for key, value in outcomes.items() if key in {pool.key for pool in graded}})
    joint = [(fmean(own[task]), fmean(means[task]), fmean(oracle[task])) for task in sorted(means) if own.get(task)]
    smallest = min((len(pool.candidates) for pool in graded), default=0)
    return {
        "agent": group[0].agent,
        "config_hash": group[0].config_hash,
        "split": group[0].split,
        "selector": selector or AS_RUN,
        "trials": len(group),
        "measured": len(outcomes),
        "tasks": len({pool.task for pool in group}),
        "candidates": fmean([len(pool.candidates) for pool in group]),
        "tokens": fmean([pool.sampled_tokens for pool in group]),
        "differs": None if selector is None else sum(choose(pool, selector) != pool.chosen for pool in group),
        "blind_pass": estimators.rate(list(passed.values())).model_dump(),
        "mean": estimators.mean_of_shares(list(means.values())).model_dump(),
        "oracle": estimators.rate(list(oracle.values())).model_dump(),
        "oracle_at_k": {str(k): _coverage(graded, k) for k in SIZES if k <= smallest},
        "selection_efficiency": estimators.efficiency(joint).model_dump(),
    }


def _outcomes(pools: Iterable[Pool], selector: SelectorName | None) -> dict[tuple[str, int], bool]:
    """Verdicts of a selector's choices, or with None of the trials' own submissions. Leaves out ungraded choices."""
    found = {pool.key: pool.passed if selector is None else pool.verdict(choose(pool, selector)) for pool in pools}
    return {key: passed for key, passed in found.items() if passed is not None}


def _by_task(values: Mapping[tuple[str, int], float]) -> dict[str, list[float]]:
    groups = grouped(sorted(values), lambda key: key[0])
    return {task: [float(values[key]) for key in keys] for task, keys in groups.items()}


def _coverage(pools: Sequence[Pool], k: int) -> float:
    """The chance that k candidates drawn from a pool include a correct one, averaged over tasks. Since repairs are not
    independent samples, for ``hc`` this is the coverage of its search."""
    shares = _by_task({pool.key: estimators.pass_at_k(len(pool.bits), sum(pool.bits), k) for pool in pools})
    return fmean([fmean(group) for group in shares.values()])


def _comparisons(
    groups: Mapping[tuple[str, str, str], Sequence[Pool]], selector: SelectorName | None
) -> list[dict[str, Any]]:
    """``hc`` against each baseline of its split, ``best_of_n`` against ``raw``, and each selector against its agent's
    default."""
    sides = []
    for (agent, _, split), group in sorted(groups.items(), key=lambda item: -SOLVING.index(item[0][0])):
        graded = [pool for pool in group if pool.graded]
        own: SelectorName | None = BASELINE_SELECTOR if agent == "best_of_n" else selector if agent == "hc" else None
        sides.append((agent, split, own, _outcomes(graded if own else group, own), graded))
    found = []
    for index, (agent, split, own, outcomes, _) in enumerate(sides):
        for other, other_split, theirs, against, _ in sides[index + 1 :]:
            if agent != other and split == other_split:
                labels = {"a": _label(agent, own), "b": _label(other, theirs)}
                found.append({**labels, "split": split, **paired_by_task(outcomes, against)})
    for agent, split, own, outcomes, graded in sides:
        for name in SELECTORS if agent != "raw" else ():
            if name != own:
                labels = {"a": _label(agent, name), "b": _label(agent, own)}
                found.append({**labels, "split": split, **paired_by_task(_outcomes(graded, name), outcomes)})
    return found


def _label(agent: str, selector: SelectorName | None) -> str:
    return f"{agent} by {selector}" if selector else f"{agent} {AS_RUN}"


def _auroc(key: tuple[str, str, str], group: Sequence[Pool]) -> list[dict[str, Any]]:
    """How well the share of self-tests passed separates correct from wrong candidates of the same task. Inputs without
    an expected answer do not count."""
    tasks: dict[str, list[Judged]] = defaultdict(list)
    for pool in group:
        judging = [place for place, test in enumerate(pool.tests) if not isinstance(test.expectation, Unknown)]
        if pool.graded and pool.matrix is not None and judging:
            for name, row in zip(pool.matrix.candidates, pool.matrix.cells, strict=True):
                share = sum(row[place].outcome == "pass" for place in judging) / len(judging)
                tasks[pool.task].append((share, bool(pool.verdicts[name])))
    whose = dict(zip(("agent", "config_hash", "split"), key, strict=True))
    return [{**whose, **auroc(list(tasks.values())).model_dump()}] if tasks else []
