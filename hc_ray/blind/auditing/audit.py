"""The true quality of self-tests, computed from the auditor's results: pure functions of ``Evidence``.

Definitions, over the tests of a suite that judge (their expectation is known and they carry weight):
*validity* is the share that the reference solution passes three times out of three; *triviality* the share, guards
apart, that the untouched environment or a candidate that does nothing passes; *discrimination* the share that passes
some candidates and not all; *flakiness* the share whose outcome differs in three runs; *fault detection* the share of
faults (candidates that the real tests fail) which some valid test fails;
*false rejection* the share of candidates that the real tests pass and some test fails; *overlap* the share of real
tests that some self-test tells apart alike (``COVERED``). Unknown is None, never 0."""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

from hc_ray.blind.auditing.exposure import Seen
from hc_ray.domain.suite import SelfTest, Suite
from hc_ray.domain.value import Value
from hc_ray.statistics import estimators

COVERED = 0.7
"""The least Matthews correlation of two tests' outcomes over end states at which one counts as covering the other."""
FEWEST_STATES = 5
"""Overlap is not measured with fewer end states, since then almost any two tests agree."""


class Share(estimators.Estimate):
    """A mean over tasks, with the raw count."""

    hits: int = 0
    of: int = 0


class Evidence(Value):
    """The audit's evidence about one task."""

    task: str
    suites: tuple[Suite, ...]
    """The ids of their tests are keys of ``Seen.outcomes``."""
    seen: tuple[Seen, ...] = ()
    unmeasured: str = ""
    """Why the task cannot be measured: no reference, or one that fails its own tests."""


class Figures(Value):
    """The quality of some tests of some suites."""

    suites: int
    tests: int
    judging: int
    validity: Share
    triviality: Share
    discrimination: Share
    flakiness: Share
    fault_detection: Share
    false_rejection: Share
    overlap: Share


MEASURES = ("validity", "triviality", "discrimination", "flakiness", "fault_detection", "false_rejection", "overlap")


class Stages(Value):
    """Tests as generated, and as admitted by the gate."""

    generated: Figures
    admitted: Figures


def stages(evidence: Sequence[Evidence]) -> Stages:
    """Figures before and after the gate."""
    return Stages(generated=figures(evidence, dropped=True), admitted=figures(evidence, dropped=False))


def figures(evidence: Sequence[Evidence], *, dropped: bool) -> Figures:
    """The figures of the admitted tests, with ``dropped`` counted over all. Unmeasured tasks only count their tests."""
    groups: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    suites = tests = judging = 0
    for one in evidence:
        for suite in one.suites:
            chosen = (*suite.tests, *(suite.dropped if dropped else ()))
            suites, tests = suites + 1, tests + len(chosen)
            judges = [test for test in chosen if test.expectation.kind != "unknown" and test.weight > 0]
            judging += len(judges)
            if not one.unmeasured:
                for measure, values in _measured(one, judges).items():
                    groups[measure][one.task] += values
    shares = {measure: share(groups[measure]) for measure in MEASURES}
    return Figures(suites=suites, tests=tests, judging=judging, **shares)


def _measured(one: Evidence, judges: Sequence[SelfTest]) -> dict[str, list[bool]]:
    """Each measure's individual yes/no results for one suite."""
    reference = next(seen for seen in one.seen if seen.kind == "reference")
    runnable = [test for test in judges if reference.passes(test.id) is not None]
    valid = [test for test in runnable if reference.passes(test.id)]
    candidates = [seen for seen in one.seen if seen.kind == "candidate"]
    failing = [seen for seen in candidates if seen.passed is False]
    passing = [seen for seen in candidates if seen.passed]
    return {
        "validity": [test in valid for test in runnable],
        "triviality": [_trivial(one, test) for test in runnable if not test.guard],
        "discrimination": [_tells_apart(candidates, test) for test in runnable if len(candidates) > 1],
        "flakiness": [_flaky(one, test) for test in runnable],
        "fault_detection": [_rejects(seen, valid) for seen in failing],
        "false_rejection": [_rejects(seen, runnable) for seen in passing],
        "overlap": _covered(one, judges),
    }


def _trivial(one: Evidence, test: SelfTest) -> bool:
    return any(seen.passes(test.id) for seen in one.seen if seen.kind in ("untouched", "empty", "stub"))


def _tells_apart(candidates: Sequence[Seen], test: SelfTest) -> bool:
    return len({seen.passes(test.id) for seen in candidates} - {None}) == 2


def _flaky(one: Evidence, test: SelfTest) -> bool:
    return any(len(set(seen.outcomes.get(test.id, ""))) > 1 for seen in one.seen)


def _rejects(seen: Seen, tests: Sequence[SelfTest]) -> bool:
    return any(seen.passes(test.id) is False for test in tests)


def informative(one: Evidence) -> tuple[str, ...]:
    """Real tests whose outcome differs over the end states, the reference passing: only those can be compared. None at
    all with fewer than ``FEWEST_STATES`` end states."""
    states = _states(one)
    reference = next((seen for seen in states if seen.kind == "reference"), None)
    if reference is None or len(states) < FEWEST_STATES:
        return ()
    passed = [name for name, passed in (reference.nodes or {}).items() if passed]
    return tuple(sorted(name for name in passed if not all((seen.nodes or {}).get(name) for seen in states)))


def _states(one: Evidence) -> list[Seen]:
    """End states with results of both kinds of tests."""
    kinds = ("reference", "candidate")
    return [seen for seen in one.seen if seen.kind in kinds and seen.nodes is not None and seen.outcomes]


def _covered(one: Evidence, tests: Sequence[SelfTest]) -> list[bool]:
    """Of each real test that can be compared. One that was not collected (its module broke) has not passed."""
    states = _states(one)
    mine = {tuple(seen.passes(test.id) for seen in states) for test in tests}
    real = [[bool((seen.nodes or {}).get(name)) for seen in states] for name in informative(one)]
    return [any(matthews(row, theirs) >= COVERED for row in mine) for theirs in real]


def matthews(mine: Sequence[bool | None], theirs: Sequence[bool]) -> float:
    """Matthews correlation coefficient, ignoring pairs with a None; 0 if one side is constant."""
    pairs = [(a, b) for a, b in zip(mine, theirs, strict=True) if a is not None]
    sides = list(zip(*pairs, strict=True))
    varied = bool(sides) and all(len(set(side)) == 2 for side in sides)
    return statistics.correlation(*sides) if varied else 0.0


def share(groups: Mapping[str, Sequence[bool]]) -> Share:
    """The mean of the tasks' shares; for a single task with the interval of its yes/no results."""
    filled = [[float(value) for value in group] for _, group in sorted(groups.items()) if group]
    hits, of = int(sum(map(sum, filled))), sum(map(len, filled))
    found = estimators.wilson(hits, of) if len(filled) == 1 else estimators.rate(filled)
    return Share(**found.model_dump() | {"n": len(filled), "hits": hits, "of": of})
