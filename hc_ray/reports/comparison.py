"""The conclusions that a sweep supports: paired comparisons of its agents, and the generalisation criteria (self-test
and blind pass rates on dev and holdout, and the gap between the splits).

"Improved" and "met" are printed only where the whole interval supports them; otherwise the text names the smallest
effect that the sweep could have detected."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from hc_ray.domain.config import OWN
from hc_ray.domain.value import counted
from hc_ray.reports.arms import arm_of, stands_for
from hc_ray.statistics import estimators

SUBJECTS = ("hc", "best_of_n", "raw")
"""The built-in agents to compare, the one under test first; ``oracle`` and ``nop`` check the harness, not a claim."""
SIGNIFICANT = 0.05
HANDFUL = 3
"""Up to this many comparisons per split, p is not corrected for their number: three agents under one config."""

Arm = tuple[str, str, str]
"""Agent, config hash, split."""
Outcomes = Mapping[tuple[str, int], bool]
"""(task, seed) → passed or not."""
Row = Mapping[str, Any]
Config = Mapping[str, Any]
Side = tuple[Config, Mapping[tuple[str, int], Row]]
"""A config's figures, and its scored trials by task and seed."""


def comparisons_of(
    rows: Sequence[Row], configs: Sequence[Config], declared: Sequence[Config]
) -> tuple[list[dict[str, Any]], str]:
    """Compare, within each split, the agents under the same config, and each agent's configs with its first; paired by
    task and seed over trials scored on both sides. Also returns a sentence that explains the comparisons if they are
    more than a few. ``declared``: the configs in the plan's order."""
    scored: dict[Arm, dict[tuple[str, int], Row]] = defaultdict(dict)
    for row in rows:
        if row["passed"] is not None:
            scored[arm_of(row)][row["task"], row["seed"]] = row
    agents = compared_of(configs)
    sides: dict[Arm, Side] = {arm_of(one): (one, scored[arm_of(one)]) for one in configs if one["agent"] in agents}
    found, compared = [], ""
    for split in sorted({split for _, _, split in sides}):
        made = [_comparison(sides[a], sides[b]) for a, b in _pairs(sides, declared, split)]
        if len(made) > HANDFUL:
            _correct(made)
            compared = (
                "Compared: agents under the same config, and each agent's configs with its first. Results use p after "
                "Holm's correction for the number of comparisons."
            )
        found += made
    return found, compared


def compared_of(configs: Iterable[Config]) -> tuple[str, ...]:
    """The agents to compare: the user's own, then the built-in ones."""
    return (*dict.fromkeys(one["agent"] for one in configs if OWN.fullmatch(one["agent"])), *SUBJECTS)


def _pairs(arms: Collection[Arm], declared: Sequence[Config], split: str) -> list[tuple[Arm, Arm]]:
    agents = compared_of([{"agent": agent} for agent, _, _ in arms])
    own = [[(agent, stands_for(one, agent), split) for agent in agents] for one in declared]
    pairs = [pair for of_config in own for pair in combinations(of_config, 2)]
    for of_agent in zip(*own, strict=True):
        there = [arm for arm in dict.fromkeys(of_agent) if arm in arms]
        pairs += [(arm, there[0]) for arm in there[1:]]
    return [pair for pair in dict.fromkeys(pairs) if pair[0] in arms and pair[1] in arms]


def _correct(made: Sequence[dict[str, Any]]) -> None:
    """Apply Holm's correction for the number of comparisons; a difference that does not survive is withdrawn."""
    measured = sorted((one for one in made if one["p"] is not None), key=lambda one: one["p"])
    corrected = 0.0
    for number, one in enumerate(measured):
        corrected = max(corrected, min(1.0, one["p"] * (len(measured) - number)))
        one["p_corrected"] = corrected
        if one["says"] in ("improved", "worse") and corrected >= SIGNIFICANT:
            one["says"] = f"no difference detected (after correction for {len(measured)} comparisons)"


def _comparison(one: Side, other: Side) -> dict[str, Any]:
    (a, of_a), (b, of_b) = one, other
    found = paired_by_task(*({key: row["passed"] for key, row in side.items()} for side in (of_a, of_b)))
    common = of_a.keys() & of_b.keys()
    return {
        "a": a["label"], "b": b["label"], "a_hash": a["config_hash"], "b_hash": b["config_hash"], "split": a["split"],
        **found, "p_corrected": None,
        "tokens_a": _mean_tokens(of_a[key] for key in common), "tokens_b": _mean_tokens(of_b[key] for key in common),
        "says": _says(found),
    }  # fmt: skip


def paired_by_task(of_a: Outcomes, of_b: Outcomes) -> dict[str, Any]:
    """The difference a - b over the tasks and seeds for which both have a verdict."""
    common = sorted(set(of_a) & set(of_b))
    sides: tuple[dict[str, list[float]], dict[str, list[float]]] = (defaultdict(list), defaultdict(list))
    for key in common:
        sides[0][key[0]].append(float(of_a[key]))
        sides[1][key[0]].append(float(of_b[key]))
    result = estimators.paired(*sides)
    seeds = min((len(group) for group in sides[0].values()), default=0)
    return {
        "tasks": result.n, "pairs": len(common), **result.model_dump(exclude={"n"}),
        "only_a": sum(of_a[key] and not of_b[key] for key in common),
        "only_b": sum(of_b[key] and not of_a[key] for key in common),
        "smallest_effect": estimators.minimal_detectable_effect(result.n, seeds),
    }  # fmt: skip


def _says(found: Mapping[str, Any]) -> str:
    if found["delta"] is None:
        return "not measured: there is no task and seed for which both agents have a verdict"
    if found["p"] < SIGNIFICANT and found["low"] > 0:
        return "improved"
    if found["p"] < SIGNIFICANT and found["high"] < 0:
        return "worse"
    tasks = counted(found["tasks"], "task")
    if found["smallest_effect"] is None:
        return f"no difference detected ({tasks}, too few to detect any)"
    return f"no difference detected ({tasks}; minimum detectable effect {found['smallest_effect']:.2f})"


def _mean_tokens(rows: Iterable[Row]) -> float | None:
    counts = [row["tokens"] for row in rows]
    known = [count for count in counts if count is not None]
    return sum(known) / len(known) if known and len(known) == len(counts) else None


def criteria_of(configs: Sequence[Config]) -> list[dict[str, Any]]:
    """The generalisation criteria for every ``hc`` config; all "not measured" if ``hc`` did not run. None at all for a
    check of the harness, which has no agent that could meet them."""
    if configs and not any(config["agent"] in SUBJECTS for config in configs):
        return []
    subjects = [config for config in configs if config["agent"] == "hc"]
    criteria = []
    for config_hash in dict.fromkeys(config["config_hash"] for config in subjects) or [""]:
        own = {config["split"]: config for config in subjects if config["config_hash"] == config_hash}
        names = {config["label"] for config in own.values()} or {"hc"}
        prefix = f"{names.pop()}: "
        dev, holdout = _rate(own.get("dev"), "blind_pass"), _rate(own.get("holdout"), "blind_pass")
        criteria += [
            _criterion(prefix + "self-test pass rate on dev", 0.8, _rate(own.get("dev"), "self_pass")),
            _criterion(prefix + "blind pass rate on dev", 0.6, dev),
            _criterion(prefix + "blind pass rate on holdout", 0.5, holdout),
            _criterion(
                prefix + "dev - holdout gap of the blind pass rate", None, estimators.difference_of(dev, holdout)
            ),
        ]
    return criteria


def _rate(config: Config | None, field: str) -> estimators.Estimate:
    return estimators.Estimate(**config[field]) if config else estimators.NOT_MEASURED


def _criterion(name: str, needs: float | None, seen: estimators.Estimate) -> dict[str, Any]:
    """With ``needs`` None the figure is shown, not judged. ``met`` is None unless the interval lies on one side."""
    met: bool | None = None
    if seen.value is None or seen.low is None or seen.high is None:
        says = "not measured"
    elif needs is None:
        says = "reported"
    elif seen.low >= needs:
        met, says = True, "met"
    elif seen.high < needs:
        met, says = False, "not met"
    else:
        says = f"too few tasks ({seen.n})"
    return {"name": name, "needs": needs, **seen.model_dump(exclude={"n"}), "met": met, "says": says}
