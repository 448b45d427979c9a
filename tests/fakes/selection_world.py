"""The toy world in which the selectors were compared: tasks whose chance of a right sample varies,
wrong behaviours that concentrate, tests of which a part is invalid and may encode the commonest misreading."""

import random

from hc_ray.domain.suite import Cell, PassMatrix
from tests.fakes.suites import call_test

CANDIDATES, TESTS = 8, 24
WRONG = 5
"""Wrong behaviours, the k-th with a weight of 1 / (k + 1)."""
CATCHES = 0.4
"""The chance that a valid test fails a given wrong behaviour."""
FLAKE = 0.01
RIGHT = -1

COLUMNS = tuple(call_test(f"t{j}", f"f({j})") for j in range(TESTS))


def pool(chance: random.Random, valid: float, shared: float) -> tuple[PassMatrix, list[bool]]:
    """A pass matrix, and who of its candidates is right. ``valid``: the share of valid tests; ``shared``: the share of
    the others that encode the commonest misreading. What was observed is the outcome itself."""
    right = chance.betavariate(0.5, 2)  # mean 0.2; with 8 candidates the oracle comes to 0.57
    weights = [1 / (k + 1) for k in range(WRONG)]
    behaviours = [
        RIGHT if chance.random() < right else chance.choices(range(WRONG), weights)[0] for _ in range(CANDIDATES)
    ]
    passing: list[set[int]] = []
    for _ in range(TESTS):
        if chance.random() < valid:
            passing.append({RIGHT} | {k for k in range(WRONG) if chance.random() >= CATCHES})
        else:
            passing.append({0} if chance.random() < shared else set())
    cells = tuple(
        tuple(_cell((behaviour in those) != (chance.random() < FLAKE)) for those in passing) for behaviour in behaviours
    )
    names = tuple(f"c{i}" for i in range(CANDIDATES))
    matrix = PassMatrix(candidates=names, tests=tuple(test.id for test in COLUMNS), cells=cells)
    return matrix, [behaviour == RIGHT for behaviour in behaviours]


_CELLS = {True: Cell(outcome="pass", observed="+"), False: Cell(outcome="fail", observed="-")}


def _cell(passed: bool) -> Cell:
    return _CELLS[passed]
