"""A climb's interface to trials, and the aggregation of their outcomes. Nothing here names a task to a proposer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from hc_ray.domain.config import SolverConfig
from hc_ray.domain.value import Value

Stage = Literal["race", "confirm"]


class Outcome(Value):
    """One trial of ``hc``, from its ``result.json``; None for unknown values."""

    task: str
    seed: int
    passed: bool | None
    """The first verdict; None for an unscored trial."""
    tokens: int
    """Tokens actually spent."""
    self_pass: bool | None = None
    weak_suite: bool | None = None
    duplicates: float | None = None
    """Share of its candidates that repeat another."""
    malformed: float | None = None
    """Share of its candidates that were malformed."""
    turns: int | None = None
    stop: str = ""
    """Why its search ended."""


Outcomes = Mapping[tuple[str, int], Outcome]
"""Task and seed → outcome."""


class Cell(Value):
    """Trials to run: one config, every task with every seed."""

    generation: int
    stage: Stage
    arm: str
    """``control`` (the incumbent), or the proposer whose change it is."""
    solver: SolverConfig
    seeds: tuple[int, ...]
    tasks: tuple[str, ...]


class Evaluator(Protocol):
    """Runs trials of ``hc`` on dev tasks, all at one ``budget.tokens``."""

    def evaluate(self, cells: Sequence[Cell], *, tokens: int) -> Sequence[Sequence[Outcome]]:
        """The outcomes of each cell. Once this call has spent ``tokens``, no further trial starts, so that some are
        missing. A trial that ran before (same config, task and seed) is not repeated, and has the same outcome."""
        ...


class Aggregates(Value):
    """Aggregates over the trials of one config, the only data about them that proposers see."""

    tasks: int = 0
    trials: int = 0
    unscored: int = 0
    pass_rate: float | None = None
    means: dict[str, float] = {}
    """Of ``FACTS``, over the trials that have them; ``ended by …``: the share of searches that ended so."""


FACTS = ("self_pass", "weak_suite", "duplicates", "malformed", "turns", "tokens")


def aggregate(outcomes: Iterable[Outcome]) -> Aggregates:
    """Each task counts once in the pass rate."""
    trials = list(outcomes)
    by_task: dict[str, list[bool]] = {}
    for one in trials:
        if one.passed is not None:
            by_task.setdefault(one.task, []).append(one.passed)
    rates = [sum(passed) / len(passed) for passed in by_task.values()]
    known = {name: [value for one in trials if (value := getattr(one, name)) is not None] for name in FACTS}
    for stop in sorted({one.stop for one in trials if one.stop}):
        known[f"ended by {stop}"] = [one.stop == stop for one in trials]
    return Aggregates(
        tasks=len(by_task), trials=len(trials), unscored=sum(one.passed is None for one in trials),
        pass_rate=round(sum(rates) / len(rates), 4) if rates else None,
        means={name: round(sum(values) / len(values), 4) for name, values in known.items() if values},
    )  # fmt: skip
