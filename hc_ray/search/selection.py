"""Selects the candidate to submit, from the pass matrix alone: pure, and replayable on stored matrices.

Every selector breaks ties by agreement with the others, input by input, then by fewer tests in error, then by order. A
test with an *unknown* expectation does not judge; it shows behaviour. Duplicates keep their rows, as votes."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import exp, isfinite, lgamma, sqrt

from hc_ray.domain.config import OWN, SelectorName
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.suite import Cell, PassMatrix, SelfTest
from hc_ray.domain.value import Value
from hc_ray.machine import own_code

WRONG_PASSES_WRONG = 1000.0
"""B4: strength of the prior that a wrong candidate fails a wrong test (arXiv 2409.08692)."""
PRIOR_RIGHT = 10.0
"""B4: Beta prior weights of a correct candidate and of a correct test."""
BELIEVED = 0.7
"""The least confidence of a believed expectation: the instruction shows it, or a second reading supports it."""
LEAST = 0.25
"""Tests below this weight no longer judge: too many lineages dispute them."""
Classes = dict[frozenset[int], list[str]]
"""Set of judging tests passed → the candidates that pass exactly these."""


class Selection(Value):
    """A selector's decision, with its reasons."""

    selector: SelectorName
    chosen: str | None
    """None if the matrix has no candidate."""
    scores: dict[str, float] = {}
    clusters: tuple[tuple[str, ...], ...] = ()
    """Groups of candidates that behave identically on every input, largest first, without those that showed nothing."""
    confidence: float = 0.0
    """``posterior``: the chosen pass pattern's share of the posterior; otherwise the share of candidates that behave
    like the chosen one."""
    why: str
    agreement: dict[str, float] = {}
    """The tie-breaker: how far the others' answers agree."""
    silent: bool = False
    """Whether nothing distinguishes the chosen one from another that behaves differently: it was the first of
    equals."""


def select(matrix: PassMatrix, name: SelectorName, *, tests: Sequence[SelfTest]) -> Selection:
    """Pick one candidate. ``tests`` are the matrix's columns, in its order; ``matrix.candidates`` is in slot order."""
    if tuple(test.id for test in tests) != matrix.tests:
        raise ValueError("the tests are not the matrix's columns")
    if not matrix.candidates:
        return Selection(selector=name, chosen=None, why="no candidate to pick")
    classes = _classes(matrix, tests)
    weight = {member: sum(tests[i].weight for i in sorted(passed))
              for passed, members in classes.items() for member in members}  # fmt: skip
    failed, clusters = "", behaviour_clusters(matrix, tests)
    agreement = _agreement(matrix, tests, clusters)
    group = {member: cluster for cluster in clusters for member in cluster}
    confidence = {member: len(cluster) / len(matrix.candidates) for member, cluster in group.items()}
    if name == "mbr":
        # MBR-exec: the size of the group of identical behaviour, plus the agreement on inputs as a fraction.
        scores = {
            candidate: len(group.get(candidate, ())) + 0.99 * agreement[candidate] for candidate in matrix.candidates
        }
    elif name == "max_pass":
        scores = weight
    elif name == "codet":
        # CodeT: (tests passed) × √(candidates that pass the same tests).
        scores = {member: weight[member] * sqrt(len(members)) for members in classes.values() for member in members}
    elif OWN.fullmatch(name):
        scores, failed = _by_own(matrix, name, tests)
    else:
        scores, confidence = _posterior(classes, tests)
    errors = {
        candidate: sum(cell.outcome in ("error", "timeout") for cell in row)
        for candidate, row in zip(matrix.candidates, matrix.cells, strict=True)
    }
    beaten = frozenset() if name == "mbr" or OWN.fullmatch(name) else _beaten(classes, tests)
    # Equal crashes are not votes: if any candidate answered an input, those that only crashed are out.
    ranks = {
        one: (bool(group) and one not in group, one in beaten, -scores[one], -agreement[one], errors[one])
        for one in matrix.candidates
    }
    chosen = min(matrix.candidates, key=lambda one: ranks[one])  # ties go to the first
    alike = group.get(chosen, ())
    return Selection(
        selector=name,
        chosen=chosen,
        scores={candidate: round(scores[candidate], 6) for candidate in matrix.candidates},
        clusters=clusters,
        confidence=round(confidence.get(chosen, 0.0), 6),
        why=_why(matrix, tests, chosen, len(alike), name) + failed,
        agreement={candidate: round(agreement[candidate], 6) for candidate in matrix.candidates},
        silent=any(ranks[one] == ranks[chosen] for one in matrix.candidates if one not in (chosen, *alike)),
    )


def _by_own(matrix: PassMatrix, name: str, tests: Sequence[SelfTest]) -> tuple[dict[str, float], str]:
    """The scores of a user's own selector, and its failure, after which all scores are equal. Raises ``ConfigError`` if
    the selector does not exist."""
    try:
        given = own_code.selector_of(name)(matrix, tests)
        scores = {one: float(given[one]) for one in matrix.candidates}
        if not all(map(isfinite, scores.values())):
            raise ValueError("a score is not finite")
        return scores, ""
    except ConfigError:
        raise
    except Exception as error:
        return dict.fromkeys(matrix.candidates, 0.0), f"; it raised {type(error).__name__}: {error}"


def _beaten(classes: Classes, tests: Sequence[SelfTest]) -> frozenset[str]:
    """Candidates that another one beats: it passes everything that they pass, and also a believed expectation or one
    that follows from the instruction (no crash on an allowed input). A common mistake has many copies, which alone is
    no reason to prefer it."""
    believed = {
        i for i in judging(tests)
        if tests[i].confidence >= BELIEVED or (tests[i].expectation.kind == "property" and not tests[i].tester)
    }  # fmt: skip
    return frozenset(
        member
        for passed, members in classes.items()
        if any(passed < more and (more - passed) & believed for more in classes)
        for member in members
    )


def stated(tests: Sequence[SelfTest]) -> tuple[int, ...]:
    """Columns of the tests whose answer or rejection the instruction itself shows."""
    return tuple(i for i, test in enumerate(tests)
                 if test.expectation.kind in ("value", "rejected") and test.confidence >= BELIEVED)  # fmt: skip


def judging(tests: Sequence[SelfTest]) -> tuple[int, ...]:
    """The judging columns: all except *unknown* expectations, tests that lost their weight by disputes, and tests that
    trivial states pass (hygiene and guards)."""
    return tuple(
        i for i, test in enumerate(tests)
        if test.expectation.kind != "unknown" and test.weight >= LEAST and (test.discriminates or test.guard)
    )  # fmt: skip


def deciding(tests: Sequence[SelfTest]) -> tuple[int, ...]:
    """The judging columns of a suite that can tell correct states from wrong ones; none for a weak suite, which trivial
    states pass."""
    columns = judging(tests)
    return columns if any(tests[i].discriminates and not tests[i].guard for i in columns) else ()


def progress(row: Sequence[Cell], tests: Sequence[SelfTest]) -> float:
    """The weighted share of judging tests that a candidate passes; 0.0 if there are none."""
    columns = judging(tests)
    total = sum(tests[i].weight for i in columns)
    return sum(tests[i].weight for i in columns if row[i].outcome == "pass") / total if total else 0.0


def _showing(tests: Sequence[SelfTest]) -> tuple[int, ...]:
    """Columns that show behaviour: those with an input, or if there are none, those of files."""
    inputs = tuple(i for i, test in enumerate(tests) if test.subject.kind != "file")
    return inputs or tuple(range(len(tests)))


def behaviour_clusters(matrix: PassMatrix, tests: Sequence[SelfTest]) -> tuple[tuple[str, ...], ...]:
    """Groups of identical behaviour, largest first, then earliest, without candidates that only crashed."""
    columns = _showing(tests)
    groups: defaultdict[tuple[str | None, ...], list[str]] = defaultdict(list)
    for candidate, row in zip(matrix.candidates, matrix.cells, strict=True):
        shown = [row[i] for i in columns]
        if not all(map(crashed, shown)):
            behaviour = tuple("<timeout>" if cell.outcome == "timeout" else cell.observed for cell in shown)
            groups[behaviour].append(candidate)
    return tuple(sorted((tuple(group) for group in groups.values()), key=len, reverse=True))


def _agreement(
    matrix: PassMatrix, tests: Sequence[SelfTest], clusters: Sequence[tuple[str, ...]]
) -> dict[str, float]:  # fmt: skip
    """The mean share of the other candidates that give the same answer, over all inputs; 0 to 1. A crash agrees with
    nothing: of two programs that differ on one input only, the one that answers it is better."""
    columns = _showing(tests)
    cells_of = dict(zip(matrix.candidates, matrix.cells, strict=True))
    rows = {
        member: tuple(None if crashed(cells_of[member][i]) else cells_of[member][i].observed for i in columns)
        for cluster in clusters
        for member in cluster
    }
    # Counting answers per column compares each candidate with all others in one pass.
    answers = [Counter(column) for column in zip(*rows.values(), strict=True)]
    scores = dict.fromkeys(matrix.candidates, 0.0)
    cells = max(1, (len(rows) - 1) * len(columns))
    for candidate, mine in rows.items():
        alike = sum(counted[own] - 1 for own, counted in zip(mine, answers, strict=True) if own is not None)
        scores[candidate] = alike / cells
    return scores


def crashed(cell: Cell) -> bool:
    """Whether a run gave no answer."""
    return cell.observed is None or cell.outcome in ("error", "timeout")


def _classes(matrix: PassMatrix, tests: Sequence[SelfTest]) -> Classes:
    columns = judging(tests)
    classes: defaultdict[frozenset[int], list[str]] = defaultdict(list)
    for candidate, row in zip(matrix.candidates, matrix.cells, strict=True):
        classes[frozenset(i for i in columns if row[i].outcome == "pass")].append(candidate)
    return dict(classes)


def _posterior(classes: Classes, tests: Sequence[SelfTest]) -> tuple[dict[str, float], dict[str, float]]:
    """B4: for each pass pattern, assume that its members are the correct candidates and its passed tests the correct
    tests; the score is a sum of four log-Beta terms. Returns scores and each pattern's share of the posterior."""
    columns = judging(tests)
    weight = {i: tests[i].weight for i in columns}
    all_tests, all_candidates = sum(weight.values()), sum(map(len, classes.values()))
    passing = {i: sum(len(members) for passed, members in classes.items() if i in passed) for i in columns}
    logs: dict[frozenset[int], float] = {}
    for right, members in classes.items():
        others = all_candidates - len(members)
        right_tests = sum(weight[i] for i in right)
        # Among the other candidates: passes of correct tests, and of wrong ones.
        hits = sum(weight[i] * (passing[i] - len(members)) for i in right)
        wrong_hits = sum(weight[i] * passing[i] for i in columns if i not in right)
        logs[right] = (
            _log_beta(PRIOR_RIGHT + len(members), 1.0 + others)
            + _log_beta(PRIOR_RIGHT + right_tests, 1.0 + all_tests - right_tests)
            + _log_beta(1.0 + hits, 1.0 + right_tests * others - hits)
            + _log_beta(1.0 + wrong_hits, WRONG_PASSES_WRONG + (all_tests - right_tests) * others - wrong_hits)
            - _log_beta(1.0, WRONG_PASSES_WRONG)
        )
    top = max(logs.values())
    mass = sum(exp(log - top) for log in logs.values())
    scores = {member: logs[right] for right, members in classes.items() for member in members}
    shares = {member: exp(scores[member] - top) / mass for member in scores}
    return scores, shares


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _why(matrix: PassMatrix, tests: Sequence[SelfTest], chosen: str, alike: int, name: SelectorName) -> str:
    """One line for display. ``alike``: number of candidates that behave like the chosen one."""
    row, columns = matrix.row(chosen), judging(tests)
    passed = sum(row[i].outcome == "pass" for i in columns)
    shown = f"{alike} of {len(matrix.candidates)} candidates behave like it" if alike else "it answered no input"
    judged = f" passes {passed} of {len(columns)} judging tests;" if columns else ":"
    return f"{name}: {chosen}{judged} {shown}"
