"""How far self-tests can be trusted, estimated without labels from pass matrices: a two-class Dawid–Skene model.

Each candidate is right or wrong, unknown which; a test of a category passes right candidates with one probability (its
*validity*) and wrong ones with another (its *false pass*). Expectation maximisation finds both, and the chance that
each candidate is right, from nothing but who passed what. Tests that the instruction itself states count as several
voices: they anchor which of the two classes is the right one. Pure, and replayable on stored matrices."""

from collections.abc import Mapping, Sequence
from math import exp, log

from hc_ray.suite import Category, PassMatrix, SelfTest
from hc_ray.value import Value

STATED = 0.7
"""Confidence from which an expectation is the instruction's own."""
STATED_VOICES = 3.0
"""How many voices such a test has where it is decided who is right."""
VALID_PRIOR = (6.0, 2.0)
"""Pseudo-counts: right candidates pass, right candidates fail."""
FALSE_PRIOR = (2.0, 3.0)
"""Pseudo-counts: wrong candidates pass, wrong candidates fail."""
OWN_STRENGTH = 4.0
"""Pseudo-candidates that a test's own prior counts for against what its matrix shows."""
ROUNDS = 30


class Reliability(Value):
    """What the matrices say of one category of tests."""

    validity: float
    """The estimated chance that such a test passes a right candidate."""
    false_pass: float
    """The estimated chance that it passes a wrong one."""
    tests: int
    cells: int


class _Pool(Value):
    """One matrix as the model sees it: judging tests only; None where a cell says nothing."""

    categories: tuple[Category, ...]
    voices: tuple[float, ...]
    passed: tuple[tuple[bool | None, ...], ...]


Pools = Sequence[tuple[PassMatrix, Sequence[SelfTest]]]
Rates = dict[Category, tuple[float, float]]


def reliability(pools: Pools) -> dict[Category, Reliability]:
    """Validity and false passes of each category that judges anywhere in the pools."""
    held = [_pool(matrix, tests) for matrix, tests in pools]
    rates, _ = _fit(held)
    counts: dict[Category, list[int]] = {category: [0, 0] for category in rates}
    for pool in held:
        for j, category in enumerate(pool.categories):
            counts[category][0] += 1
            counts[category][1] += sum(row[j] is not None for row in pool.passed)
    return {
        category: Reliability(validity=round(valid, 6), false_pass=round(false, 6), tests=counts[category][0],
                              cells=counts[category][1])
        for category, (valid, false) in sorted(rates.items())
    }  # fmt: skip


def trust(matrix: PassMatrix, tests: Sequence[SelfTest]) -> dict[str, float]:
    """Test id → the estimated chance that it is valid: its confidence as a prior, its category's validity beside it,
    and how it treated the candidates that are likely right. *Unknown* tests judge nobody and have no entry."""
    judging = [(j, test) for j, test in enumerate(tests) if test.expectation.kind != "unknown"]
    rates, (right,) = _fit([_pool(matrix, tests)])
    told = {}
    for j, test in judging:
        prior = test.confidence if test.confidence >= STATED else (test.confidence + rates[test.category][0]) / 2
        passed = seen = 0.0
        for chance, row in zip(right, matrix.cells, strict=True):
            if row[j].outcome != "skipped":
                seen += chance
                passed += chance * (row[j].outcome == "pass")
        told[test.id] = round((OWN_STRENGTH * prior + passed) / (OWN_STRENGTH + seen), 6)
    return told


def likely_right(matrix: PassMatrix, tests: Sequence[SelfTest]) -> Mapping[str, float]:
    """Candidate → the chance that it is right, by the same model."""
    _, (right,) = _fit([_pool(matrix, tests)])
    return {name: round(chance, 6) for name, chance in zip(matrix.candidates, right, strict=True)}


def _pool(matrix: PassMatrix, tests: Sequence[SelfTest]) -> _Pool:
    if tuple(test.id for test in tests) != matrix.tests:
        raise ValueError("the tests are not the matrix's columns")
    columns = [j for j, test in enumerate(tests) if test.expectation.kind != "unknown"]
    return _Pool(
        categories=tuple(tests[j].category for j in columns),
        voices=tuple(STATED_VOICES if tests[j].confidence >= STATED else tests[j].weight for j in columns),
        passed=tuple(
            tuple(None if row[j].outcome == "skipped" else row[j].outcome == "pass" for j in columns)
            for row in matrix.cells
        ),
    )


def _fit(pools: Sequence[_Pool]) -> tuple[Rates, list[list[float]]]:
    """Rates of every category, and each candidate's chance to be right. It starts from the share of voices passed."""
    rates: Rates = {category: _prior_rates() for pool in pools for category in pool.categories}
    right = [[_share(pool, row) for row in pool.passed] for pool in pools]
    for _ in range(ROUNDS):
        rates = _rates(pools, right)
        right = [_chances(pool, rates, chances) for pool, chances in zip(pools, right, strict=True)]
    return rates, right


def _prior_rates() -> tuple[float, float]:
    return VALID_PRIOR[0] / sum(VALID_PRIOR), FALSE_PRIOR[0] / sum(FALSE_PRIOR)


def _share(pool: _Pool, row: Sequence[bool | None]) -> float:
    total = sum(voice for voice, passed in zip(pool.voices, row, strict=True) if passed is not None)
    won = sum(voice for voice, passed in zip(pool.voices, row, strict=True) if passed)
    return 0.05 + 0.9 * won / total if total else 0.5


def _rates(pools: Sequence[_Pool], right: Sequence[Sequence[float]]) -> Rates:
    sums: dict[Category, list[float]] = {}
    for pool, chances in zip(pools, right, strict=True):
        for row, chance in zip(pool.passed, chances, strict=True):
            for category, passed in zip(pool.categories, row, strict=True):
                held = sums.setdefault(category, [*VALID_PRIOR, *FALSE_PRIOR])
                if passed is not None:
                    held[0 if passed else 1] += chance
                    held[2 if passed else 3] += 1 - chance
    found = {
        category: (held[0] / (held[0] + held[1]), held[2] / (held[2] + held[3])) for category, held in sums.items()
    }
    for pool in pools:
        for category in pool.categories:
            # Where no candidate was run, the prior is all there is.
            found.setdefault(category, _prior_rates())
    return found


def _chances(pool: _Pool, rates: Rates, before: Sequence[float]) -> list[float]:
    base = (1.0 + sum(before)) / (2.0 + len(before))
    chances = []
    for row in pool.passed:
        odds = log(base / (1 - base))
        for category, voice, passed in zip(pool.categories, pool.voices, row, strict=True):
            if passed is not None:
                valid, false = rates[category]
                ratio = valid / false if passed else (1 - valid) / (1 - false)
                odds += voice * log(ratio)
        chances.append(1 / (1 + exp(-max(-30.0, min(30.0, odds)))))
    return chances
