"""What can be taken out of a stored search without running anything: parts of its pool, parts of its suite. Each maps a
pool to the pool as it would have been; later candidates that hang on what was taken away (repairs) go with it."""

from collections.abc import Callable, Sequence

from hc_ray.domain.suite import Category, SelfTest, Unknown
from hc_ray.reports.replay import Pool
from hc_ray.selftests.trust import STATED

Ablation = Callable[[Pool], Pool]


def suite_off(pool: Pool) -> Pool:
    """No test judges, and no lineage is told what it fails: agreement decides, of direct answers on the inputs."""
    if pool.made:
        return repair_off(pool).model_copy(update={"matrix": None, "tests": ()})
    return _with_tests(pool, [test.model_copy(update={"expectation": Unknown()}) for test in pool.tests])


def repair_off(pool: Pool) -> Pool:
    """Only what was asked for anew: first submissions, who dispute nothing."""
    kept = pool.only({one.id for one in pool.attempts if one.repairs == 0})
    return kept.model_copy(update={"rounds": tuple(one.model_copy(update={"disputed": ()}) for one in pool.rounds)})


def width_one(pool: Pool) -> Pool:
    """The first lineage and its repairs."""
    first = {one.lineage for one in pool.attempts[:1]}
    kept = pool.only({one.id for one in pool.attempts if one.lineage in first})
    return kept.model_copy(update={"rounds": pool.rounds[:1]})


def discrimination_off(pool: Pool) -> Pool:
    """Tests that a trivial state passes judge like any other."""
    return _with_tests(pool, [test.model_copy(update={"discriminates": True}) for test in pool.tests])


def tournament_off(pool: Pool) -> Pool:
    """No comparison of summaries: what suite or agreement picked stands."""
    return pool.model_copy(update={"winners": {}})


def stated_only(pool: Pool) -> Pool:
    """What the model believes judges nobody: only the instruction's own words do."""
    return _with_tests(
        pool,
        [
            test if test.confidence >= STATED else test.model_copy(update={"expectation": Unknown()})
            for test in pool.tests
        ],
    )


def without_category(category: Category) -> Ablation:
    """A suite without one category, its inputs included."""

    def change(pool: Pool) -> Pool:
        matrix = pool.matrix
        if matrix is None:
            return pool
        kept = [j for j, test in enumerate(pool.tests) if test.category != category]
        smaller = matrix.model_copy(
            update={
                "tests": tuple(matrix.tests[j] for j in kept),
                "cells": tuple(tuple(row[j] for j in kept) for row in matrix.cells),
            }
        )
        return pool.model_copy(update={"matrix": smaller, "tests": tuple(pool.tests[j] for j in kept)})

    return change


def categories_of(pools: Sequence[Pool]) -> tuple[Category, ...]:
    """Categories that stand in any of the pools' suites."""
    return tuple(sorted({test.category for pool in pools for test in pool.tests}))


def _with_tests(pool: Pool, tests: Sequence[SelfTest]) -> Pool:
    return pool.model_copy(update={"tests": tuple(tests)})


ABLATIONS: dict[str, Ablation] = {
    "suite off": suite_off,
    "repair off": repair_off,
    "width 1": width_one,
    "discrimination off": discrimination_off,
    "tournament off": tournament_off,
    "only stated tests judge": stated_only,
}
"""Knobs whose effect shows in stored matrices. Those that change prompts (hint, forms, feedback, testgen) need new
samples."""
