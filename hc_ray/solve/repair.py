"""What a repair is told of its parent's failures. How much is the knob ``feedback``: crashes, missing files and format
errors always; assertion failures only of tests that are trusted, in words that leave room for doubt."""

from collections.abc import Mapping, Sequence
from string import Template
from typing import Literal

from hc_ray.candidate import Candidate
from hc_ray.solve.templates import template
from hc_ray.suite import Cell, SelfTest

TRUSTED = 0.7
"""From this trust on a test's expectation may be told to a repair."""
_ITEMS = 3
_ITEM_LENGTH = 240


def feedback(
    row: Sequence[Cell],
    tests: Sequence[SelfTest],
    level: Literal["full", "trusted", "crashes"],
    trust: Mapping[str, float] | None = None,
) -> tuple[str, ...]:
    """What may be told, at most three lines, crashes first; empty when there is nothing to repair. ``trust``: what the
    pass matrix says of each test (``hc_ray.trust``); a test's own confidence where it says nothing."""
    trust = trust or {}
    crashes: dict[str, None] = {}
    doubts: dict[str, None] = {}
    for cell, test in zip(row, tests, strict=True):
        if cell.outcome in ("pass", "skipped") or (test.category == "invalid_input" and cell.outcome == "error"):
            continue
        if cell.outcome in ("error", "timeout") or test.subject.kind == "file":
            crashes.setdefault(_line(test, cell.detail or cell.outcome))
        elif level == "full" or (level == "trusted" and trust.get(test.id, test.confidence) >= TRUSTED):
            doubts.setdefault(_line(test, f"{cell.detail}; the test may be wrong"))
    seen: dict[str, str] = {}
    for line in (*crashes, *doubts):
        # The same fault at every input is told once.
        seen.setdefault(line.split(": ", 1)[-1], line)
    return tuple(seen.values())[:_ITEMS]


def _line(test: SelfTest, what: str) -> str:
    subject = test.input if test.subject.kind == "call" else f"{test.subject.path} {test.input}".strip()
    return " ".join(f"{subject[:100]}: {what}".split())[:_ITEM_LENGTH]


def notes(parent: Candidate, observed: Sequence[str]) -> str:
    """The text that a repair's prompt carries besides the instruction: the attempt, and what was observed of it."""
    attempt = "\n\n".join(text.strip("\n") for text in parent.files.values())
    return (
        Template(template("repair"))
        .substitute(attempt=attempt, observed="\n".join(f"- {line}" for line in observed))
        .strip("\n")
    )


def repairable(
    pool: Sequence[Candidate], order: Sequence[str], told: dict[str, tuple[str, ...]], *, limit: int, count: int
) -> tuple[Candidate, ...]:
    """The candidates that the next round repairs, best first (``order``): those with something to tell, fewer than
    ``limit`` repairs in their lineage, and no repair of them yet."""
    by_id = {candidate.id: candidate for candidate in pool}
    repaired = {candidate.parent for candidate in pool}
    found = [
        by_id[name]
        for name in order
        if told.get(name) and by_id[name].repairs < limit and name not in repaired and not by_id[name].duplicate_of
    ]
    return tuple(found[:count])
