"""``scripts/bench climb``: whole climbs in a simulated world whose best config is known, through the evaluator port
that real climbs use. Nothing is measured of a model: a task passes with a chance that the world knows, knobs change
that chance by what the world drew for them, and trials are coin flips. It shows whether the accepted path truly
improves, how often a climb accepts anything where no knob has an effect (A/A), and whose changes are accepted.

    scripts/bench climb
    scripts/bench climb --climbs 50 --tasks 12 --worlds large --set 'looks=[2,2]' --json

The simulated aggregates tell the rules nothing: what they make of real figures is not measured here."""

import argparse
import json
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from hc_ray.climb.climb import PROPOSERS, Climb
from hc_ray.climb.evaluation import Cell, Outcome
from hc_ray.climb.knobs import Knob, Site, live
from hc_ray.climb.race import ClimbConfig
from hc_ray.domain.config import SolverConfig
from hc_ray.reports.page import interval_of
from hc_ray.reports.terminal import heading, say, table
from hc_ray.statistics.estimators import mean_difference, wilson
from tests.fakes.sweepdir import MemoryStore

WORLDS = {"A/A": (0.0, 0.0), "small": (0.5, 0.0), "large": (1.0, 0.0), "cheaper": (-0.6, 0.3)}
"""World → how many logits each active knob is worth at its best, against where the climb starts, and which share of the
tokens it saves there: what saves them in the last world costs passes."""
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

    def __init__(self, seed: int, tasks: int, worth: float, saves: float = 0.0) -> None:
        chance = random.Random(f"world {seed}")
        draws = np.random.default_rng(seed)
        self.seed, self.tasks = seed, tuple(f"t{i}" for i in range(tasks))
        self.base = draws.normal(-0.4, SPREAD, tasks)
        able = [knob for knob in live(_SITE) if knob.kind != "text"]
        self.effects = [Effect(knob, _best(knob, chance), worth, draws.normal(0, OWN * abs(worth), tasks))
                        for knob in chance.sample(able, ACTIVE)]  # fmt: skip
        self.spent, self.saves = 0, saves
        self._chances: dict[str, np.ndarray] = {}

    def chances(self, solver: SolverConfig) -> np.ndarray:
        """Each task's true pass probability."""
        if (key := solver.hash) not in self._chances:
            shift = sum((one.share(solver) * (one.worth + one.own) for one in self.effects), np.zeros(len(self.tasks)))
            self._chances[key] = 1 / (1 + np.exp(-(self.base + shift)))
        return self._chances[key]

    @property
    def best(self) -> float:
        """The best config's true pass rate, every active knob at its best."""
        shift = sum((one.worth + one.own for one in self.effects if one.share(_SITE.solver) < 1), np.zeros(1))
        return float((1 / (1 + np.exp(-(self.base + shift)))).mean())

    def evaluate(self, cells: Sequence[Cell], *, tokens: int) -> list[list[Outcome]]:
        found: list[list[Outcome]] = []
        for cell in cells:
            chances = dict(zip(self.tasks, self.chances(cell.solver), strict=True))
            price = TOKENS * prod(1 - self.saves * max(0.0, one.share(cell.solver)) for one in self.effects)
            made: list[Outcome] = []
            for seed in cell.seeds:
                # The same config, task and seed come to the same, whoever asks and whenever.
                draws = np.random.default_rng([self.seed, seed, int(cell.solver.hash[:12], 16)])
                rolls, costs = draws.random(len(self.tasks)), draws.lognormal(-0.11, 0.47, len(self.tasks))
                for task, roll, cost in zip(self.tasks, rolls, costs, strict=True):
                    if tokens > 0:
                        made.append(Outcome(task=task, seed=seed, passed=bool(roll < chances[task])
                                            , tokens=int(price * cost)))  # fmt: skip
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


def one_climb(job: tuple[str, int, int, ClimbConfig]) -> dict[str, Any]:
    """A whole climb in a world of its own."""
    name, tasks, seed, config = job
    world = World(seed, tasks, *WORLDS[name])
    climb = Climb(_SITE, world.tasks, config.model_copy(update={"seed": seed}), evaluator=world, store=MemoryStore())
    climb.run()
    path = [one for one in climb.history if one.accepted]
    rates = [float(world.chances(solver).mean()) for solver in (_SITE.solver, *(one.proposal.solver for one in path))]
    turns: dict[str, list[int]] = {}
    for one in climb.history:
        counts = turns.setdefault(one.proposal.proposer, [0, 0, 0])
        counts[0] += 1
        counts[1] += bool(one.worth and one.worth.stage == "confirm")
        counts[2] += one.accepted
    return {
        "world": name, "tasks": tasks, "seed": seed, "start": rates[0], "end": rates[-1], "best": world.best,
        "accepted": len(path), "worse": sum(after < before - 1e-9 for before, after in pairwise(rates)),
        "level": sum(abs(after - before) <= 1e-9 for before, after in pairwise(rates)),
        "trials": climb.tokens / TOKENS, "generations": len(climb.history) // PROPOSERS, "turns": turns,
    }  # fmt: skip


def found_in(climbs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the climbs of one world came to."""
    gains = [one["end"] - one["start"] for one in climbs]
    low, high = mean_difference(gains)
    turns = {name: [sum(one["turns"].get(name, [0, 0, 0])[i] for one in climbs) for i in range(3)]
             for name in ("rules", "tpe", "no change")}  # fmt: skip
    means = {key: sum(one[key] for one in climbs) / len(climbs)
             for key in ("start", "end", "best", "accepted", "trials", "generations")}  # fmt: skip
    return {
        "world": climbs[0]["world"], "tasks": climbs[0]["tasks"], "climbs": len(climbs), **means,
        "gain": {"value": sum(gains) / len(gains), "low": low, "high": high},
        "accepting": wilson(sum(one["accepted"] > 0 for one in climbs), len(climbs)).model_dump(),
        "worse": sum(one["worse"] for one in climbs), "level": sum(one["level"] for one in climbs),
        "proposers": {name: {"changes": all_, "confirmations": tried, "accepted": wilson(won, all_).model_dump()}
                      for name, (all_, tried, won) in turns.items()},
    }  # fmt: skip


def tell(rows: Sequence[dict[str, Any]], config: ClimbConfig) -> None:
    heading("Simulated climbs: true pass rates; no model was asked")
    for line in config.says(rows[0]["tasks"], PROPOSERS)[:2]:
        say(line)
    columns = ("world", "tasks", "climbs", "start", "end", "best", "true gain", "climbs that accept", "acceptances",
               "of them level", "worse", "trials a climb")  # fmt: skip
    table(columns, [
        (row["world"], row["tasks"], row["climbs"], *(f"{row[key]:.3f}" for key in ("start", "end", "best")),
         "{value:+.3f} [{low:+.3f}, {high:+.3f}]".format(**row["gain"]), interval_of(row["accepting"]),
         f"{row['accepted'] * row['climbs']:.0f}", row["level"], row["worse"], f"{row['trials']:.0f}")
        for row in rows
    ], numbers=columns[1:])  # fmt: skip
    say()
    columns = ("world", "tasks", *(f"{name}: {what}" for name in rows[0]["proposers"] for what in ("won of", "rate")))
    table(columns, [
        (row["world"], row["tasks"], *(
            text for one in row["proposers"].values()
            for text in (f"{one['accepted']['value'] * one['changes']:.0f} of {one['changes']}",
                         "{value:.4f} [{low:.4f}, {high:.4f}]".format(**one["accepted"]))))
        for row in rows
    ], numbers=columns[1:])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench climb", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--climbs", type=int, default=300, help="climbs per world and number of tasks")
    parser.add_argument("--tasks", type=int, nargs="+", default=[12, 24, 44])
    parser.add_argument("--worlds", nargs="+", choices=tuple(WORLDS), default=list(WORLDS))
    parser.add_argument("--trials", type=int, default=125, help="trials per task that the tokens of a climb pay for")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="a declaration of climbs, as JSON")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    declared = {key: json.loads(value) for key, _, value in (one.partition("=") for one in given.set)}
    config = ClimbConfig.model_validate(declared)
    rows = []
    with ProcessPoolExecutor(given.workers) as pool:
        for name in given.worlds:
            for tasks in given.tasks:
                terms = config.model_copy(update={"tokens": tasks * given.trials * TOKENS})
                jobs = [(name, tasks, seed, terms) for seed in range(given.climbs)]
                rows.append(found_in(list(pool.map(one_climb, jobs, chunksize=4))))
                say(f"{name}, {tasks} tasks: {rows[-1]['gain']['value']:+.3f}", stream=sys.stderr, style="dim")
    if given.json:
        print(json.dumps({"config": config.model_dump(), "trials_a_task": given.trials, "rows": rows}, indent=1))
    else:
        tell(rows, config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
