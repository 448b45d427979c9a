"""How far self-tests can be trusted, estimated without labels from a pass matrix: a two-class Dawid–Skene model.

Each candidate is right or wrong, unknown which; a test of a category passes right candidates with one probability (its
*validity*) and wrong ones with another (its *false pass*). Expectation maximisation finds both, and the chance that
each candidate is right, from nothing but who passed what. Tests that the instruction itself states count as several
voices: they anchor which of the two classes is the right one. Pure, and replayable on stored matrices.

numpy is imported inside the functions: the command line imports this module at no cost."""

from collections.abc import Sequence
from math import log
from typing import Any, NamedTuple

from hc_ray.domain.suite import Category, PassMatrix, SelfTest

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


class _Pool(NamedTuple):
    """One matrix as the model sees it: a row for each pass pattern of the judging tests, a column for each category.
    Cells that say nothing count nowhere."""

    rows: tuple[int, ...]
    """Candidate → its row."""
    members: Any
    """Candidates of each row."""
    passed: Any
    failed: Any
    """Tests that a row passes, and fails, by category."""
    for_: Any
    against: Any
    """The same in voices."""


def known(tests: Sequence[SelfTest]) -> tuple[int, ...]:
    """Columns of the tests whose answer, or refusal, the instruction itself states."""
    return tuple(i for i, test in enumerate(tests)
                 if test.expectation.kind in ("value", "rejected") and test.confidence >= STATED)  # fmt: skip


def trust(matrix: PassMatrix, tests: Sequence[SelfTest]) -> dict[str, float]:
    """Test id → the estimated chance that it is valid: its confidence as a prior, its category's validity beside it,
    and how it treated the candidates that are likely right. *Unknown* tests judge nobody and have no entry."""
    judging = [(j, test) for j, test in enumerate(tests) if test.expectation.kind != "unknown"]
    categories = sorted({test.category for _, test in judging})
    rates, right = _fit(_pool(matrix, tests, categories), len(categories))
    valid = {category: float(rates[0, place]) for place, category in enumerate(categories)}
    told = {}
    for j, test in judging:
        prior = test.confidence if test.confidence >= STATED else (test.confidence + valid[test.category]) / 2
        passed = seen = 0.0
        for chance, row in zip(right, matrix.cells, strict=True):
            if row[j].outcome != "skipped":
                seen += chance
                passed += chance * (row[j].outcome == "pass")
        told[test.id] = round((OWN_STRENGTH * prior + passed) / (OWN_STRENGTH + seen), 6)
    return told


def _pool(matrix: PassMatrix, tests: Sequence[SelfTest], categories: Sequence[Category]) -> _Pool:
    import numpy as np

    if tuple(test.id for test in tests) != matrix.tests:
        raise ValueError("the tests are not the matrix's columns")
    columns = [j for j, test in enumerate(tests) if test.expectation.kind != "unknown"]
    patterns: dict[tuple[bool | None, ...], int] = {}
    rows = tuple(
        patterns.setdefault(
            tuple(None if row[j].outcome == "skipped" else row[j].outcome == "pass" for j in columns), len(patterns)
        )
        for row in matrix.cells
    )
    place = {category: i for i, category in enumerate(categories)}
    of = np.zeros((len(columns), len(categories)))
    of[range(len(columns)), [place[tests[j].category] for j in columns]] = 1.0
    voices = np.array([STATED_VOICES if tests[j].confidence >= STATED else tests[j].weight for j in columns])
    said = np.array([[(one is True, one is False) for one in pattern] for pattern in patterns], dtype=float)
    said = said.reshape(len(patterns), len(columns), 2)
    return _Pool(
        rows=rows,
        members=np.bincount(rows, minlength=len(patterns)).astype(float),
        passed=said[:, :, 0] @ of,
        failed=said[:, :, 1] @ of,
        for_=(said[:, :, 0] * voices) @ of,
        against=(said[:, :, 1] * voices) @ of,
    )


def _fit(pool: _Pool, categories: int) -> tuple[Any, list[float]]:
    """Rates of every category (validity, then false passes), and each candidate's chance to be right. It starts from
    the share of voices passed."""
    import numpy as np

    priors = np.array([*VALID_PRIOR, *FALSE_PRIOR])[:, None].repeat(categories, axis=1)
    rates = np.stack([priors[0] / priors[:2].sum(axis=0), priors[2] / priors[2:].sum(axis=0)])
    right = _share(pool)
    for _ in range(ROUNDS):
        true, false = pool.members * right, pool.members * (1 - right)
        held = priors + np.stack([true @ pool.passed, true @ pool.failed, false @ pool.passed, false @ pool.failed])
        # Where no candidate was run, the prior is all there is.
        rates = np.stack([held[0] / held[:2].sum(axis=0), held[2] / held[2:].sum(axis=0)])
        for_, against = np.log(rates[0] / rates[1]), np.log((1 - rates[0]) / (1 - rates[1]))
        right = _chances(pool, right, for_, against)
    return rates, [float(right[row]) for row in pool.rows]


def _share(pool: _Pool) -> Any:
    import numpy as np

    won = pool.for_.sum(axis=1)
    total = won + pool.against.sum(axis=1)
    return np.where(total > 0, 0.05 + 0.9 * won / np.where(total > 0, total, 1.0), 0.5)


def _chances(pool: _Pool, before: Any, for_: Any, against: Any) -> Any:
    import numpy as np

    base = (1.0 + (pool.members * before).sum()) / (2.0 + len(pool.rows))
    odds = log(base / (1 - base)) + pool.for_ @ for_ + pool.against @ against
    return 1 / (1 + np.exp(-np.clip(odds, -30.0, 30.0)))
