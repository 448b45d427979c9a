"""A simulated world for whole climbs, through the evaluator port that real climbs use: a task passes with a chance that
the world knows, knobs change that chance by what the world drew for them, and trials are coin flips."""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hc_ray.climb.evaluation import Cell, Outcome
from hc_ray.climb.knobs import Knob, Site, live
from hc_ray.domain.config import SolverConfig

ACTIVE = 5
"""Knobs that have an effect, of all that live."""
SPREAD, OWN = 1.5, 0.3
"""Standard deviations, in logits: of tasks' difficulty, and of how differently a knob works from task to task."""
TOKENS = 1000
"""Mean cost of a trial; single ones vary by half of it."""
_SITE = Site(solver=SolverConfig())


class Effect(NamedTuple):
    """What one knob does: the nearer to its best value, the better; at the start's value nothing."""

    knob: Knob
    best: Any
    worth: float
    own: np.ndarray

    def share(self, solver: SolverConfig) -> float:
        """0 at the start, 1 at the best value, less than 0 on the other side of the start."""
        now, start = (self.knob.place(self.knob.at(one)) for one in (solver, _SITE.solver))
        if self.knob.options:
            return float(now == self.best) - float(start == self.best)
        return 1.0 - abs(now - self.best) / abs(start - self.best)


class World:
    """An ``Evaluator``: simulated trials of simulated tasks."""

    def __init__(self, seed: int, tasks: int, worth: float) -> None:
        """``worth``: how many logits each active knob is worth at its best, against where a climb starts."""
        chance = random.Random(f"world {seed}")
        draws = np.random.default_rng(seed)
        self.seed, self.tasks = seed, tuple(f"t{i}" for i in range(tasks))
        self.base = draws.normal(-0.4, SPREAD, tasks)
        able = [knob for knob in live(_SITE) if knob.kind != "text"]
        self.effects = [Effect(knob, _best(knob, chance), worth, draws.normal(0, OWN * worth, tasks))
                        for knob in chance.sample(able, ACTIVE)]  # fmt: skip
        self.spent = 0
        self._chances: dict[str, np.ndarray] = {}

    def chances(self, solver: SolverConfig) -> np.ndarray:
        if (key := solver.hash) not in self._chances:
            shift = sum((one.share(solver) * (one.worth + one.own) for one in self.effects), np.zeros(len(self.tasks)))
            self._chances[key] = 1 / (1 + np.exp(-(self.base + shift)))
        return self._chances[key]

    def evaluate(self, cells: Sequence[Cell], *, tokens: int) -> list[list[Outcome]]:
        found: list[list[Outcome]] = []
        for cell in cells:
            made: list[Outcome] = []
            for seed in cell.seeds:
                # The same config, task and seed come to the same, whoever asks and whenever.
                draws = np.random.default_rng([self.seed, seed, int(cell.solver.hash[:12], 16)])
                rolls, costs = draws.random(len(self.tasks)), draws.lognormal(-0.11, 0.47, len(self.tasks))
                for task, chance, roll, cost in zip(self.tasks, self.chances(cell.solver), rolls, costs, strict=True):
                    if tokens > 0:
                        made.append(
                            Outcome(task=task, seed=seed, passed=bool(roll < chance), tokens=int(TOKENS * cost))
                        )
                        tokens -= made[-1].tokens
                        self.spent += made[-1].tokens
            found.append(made)
        return found


def _best(knob: Knob, chance: random.Random) -> Any:
    start = knob.place(knob.at(_SITE.solver))
    if knob.options:
        return chance.choice([one for one in knob.options if one != start])
    assert knob.box is not None
    low, high, step = knob.box
    # Three guardrails away: nobody jumps there.
    ends = [end for end in (start + 3 * step, start - 3 * step) if low <= end <= high]
    return chance.choice(ends or [high if start < high else low])
