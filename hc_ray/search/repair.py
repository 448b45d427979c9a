"""The feedback to a repair about its parent's failures. The knob ``feedback`` sets how much: always crashes, missing
files and format errors; failed assertions only of trusted tests, worded with doubt. A check is shown with its code."""

import ast
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from hc_ray.agent.prompt_templates import filled
from hc_ray.domain.candidate import Candidate
from hc_ray.domain.normalisation import normal
from hc_ray.domain.suite import Cell, SelfTest
from hc_ray.selftests.runner import FILE_PROPERTIES

TRUSTED = 0.7
"""The least confidence of an expectation that a repair may see."""
_DOUBT = "; the test may be wrong"
_ITEMS = 3
_ITEM_LENGTH = 240
_CHECK_LENGTH = _CODE_LENGTH = 700


Level = Literal["full", "trusted", "crashes"]


def feedback(row: Sequence[Cell], tests: Sequence[SelfTest], level: Level) -> tuple[str, ...]:
    """At most three distinct faults, the worst first; empty if there is nothing to repair."""
    return tuple(line for _, line in worst_of(row, tests, level))


def worst_of(row: Sequence[Cell], tests: Sequence[SelfTest], level: Level) -> tuple[tuple[SelfTest, str], ...]:
    """Like ``feedback``, but each with its test; among equally bad faults, unique ones come first."""
    seen: dict[str, tuple[tuple[int, int], SelfTest, str]] = {}
    alike: Counter[str] = Counter()
    for rank, test, cell in sorted(_ranked(row, tests, level), key=lambda one: one[0]):
        line = _line(test, cell.detail, _DOUBT) if rank == 2 else _line(test, cell.detail or cell.outcome)
        # Report the same fault at several inputs only once.
        way = normal(cell.detail)
        seen.setdefault(normal(line.split(": ", 1)[-1]), ((rank, alike[way]), test, line))
        alike[way] += 1
    shown: set[str] = set()
    worst_first = sorted(seen.values(), key=lambda one: one[0])[:_ITEMS]
    return tuple((test, line + _code(test, shown)) for _, test, line in worst_first)


def failing(row: Sequence[Cell], tests: Sequence[SelfTest], level: Level) -> int:
    """Number of failures that may be reported for a candidate, of which ``feedback`` reports the worst."""
    return sum(1 for _ in _ranked(row, tests, level))


def worst(row: Sequence[Cell], tests: Sequence[SelfTest], level: Level) -> int | None:
    """The lowest rank among a candidate's reportable failures; None if there are none."""
    return min((rank for rank, _, _ in _ranked(row, tests, level)), default=None)


def _ranked(row: Sequence[Cell], tests: Sequence[SelfTest], level: Level) -> Iterator[tuple[int, SelfTest, Cell]]:
    """A candidate's reportable failures with their ranks: 0 for a missing file, a wrong format or a load failure, 1 for
    a crash, 2 for an answer that a test rejects."""
    for cell, test in zip(row, tests, strict=True):
        if cell.outcome in ("pass", "skipped") or (test.category == "invalid_input" and cell.outcome == "error"):
            continue
        form = test.expectation.kind == "property" and test.expectation.name in FILE_PROPERTIES
        # A file is missing, is not a regular file, or has the wrong format.
        formal = test.subject.kind == "file" and (form or cell.outcome == "error")
        if formal or "does not load" in cell.detail:
            yield 0, test, cell
        elif cell.outcome in ("error", "timeout"):
            yield 1, test, cell
        elif level == "full" or (level == "trusted" and test.confidence >= TRUSTED):
            yield 2, test, cell


def _line(test: SelfTest, what: str, end: str = "") -> str:
    """One line of feedback; ``end`` is never cut."""
    if test.subject.kind == "check":
        quoted = (test.reasoning or test.sentence)[:300].strip('"')
        asks = f" (the task says: {quoted})" if test.sentence else ""
        return f"{test.subject.function}{asks}: {what.strip()[:_CHECK_LENGTH]}"  # the doubt stands below all
    subject = test.input if test.subject.kind == "call" else f"{test.subject.path} {test.input}".strip()
    return " ".join(f"{subject[:100]}: {what}".split())[: _ITEM_LENGTH - len(end)] + end


def _code(test: SelfTest, shown: set[str]) -> str:
    """A check's code, by which the model can judge the check itself, since a failed assertion rarely shows what was
    tested. ``shown``: helpers that have been shown already."""
    if test.subject.kind != "check":
        return ""
    given = {name: node for node in ast.parse(test.input).body for name in _bound(node)}
    node = given.pop(test.subject.function or "")
    assert isinstance(node, ast.FunctionDef)
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    unread, used = list(body), []
    while unread:
        named = {one.id for one in ast.walk(unread.pop()) if isinstance(one, ast.Name)}
        used += (more := [given.pop(name) for name in list(given) if name in named])
        unread += more
    told = ""
    helpers = [ast.unparse(one) for one in used]
    new = [one for one in helpers if one not in shown]
    uses = "What it uses" if new == helpers else "What it uses, besides what stands above"
    for title, parts in {"The test": [ast.unparse(one) for one in body], uses: new}.items():
        code = "\n".join(parts)[:_CODE_LENGTH]
        told += f"\n  {title}:\n" + textwrap.indent(code, "    ") if code else ""
        shown.update(one for one in new if one in code)
    return told


def _bound(node: ast.stmt) -> list[str]:
    """The names that a module-level statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    return [one.id for one in node.targets if isinstance(one, ast.Name)] if isinstance(node, ast.Assign) else []


def notes(parent: Candidate, observed: Sequence[str]) -> str:
    """A repair prompt's additional text: the attempt, and the observations about it."""
    attempt = "\n\n".join(text.strip("\n") for text in parent.files.values()).strip("\n")
    return filled("repair", attempt=attempt, observed="\n".join(f"- {line}" for line in observed)).strip("\n")


def tried(told: Iterable[Sequence[str]]) -> str:
    """The text for a restart about earlier attempts: each one's worst fault, best attempt first; empty if there are
    none."""
    lines: dict[str, None] = {}
    for seen in told:
        lines |= dict.fromkeys(seen[:1])
        if len(lines) == _ITEMS:
            break
    if not lines:
        return ""
    return filled("tried", tried="\n".join(f"- {line}" for line in lines)).strip("\n")


def reread(missed: Sequence[str]) -> str:
    """The text after a failed verdict: the sentences that may have been missed; empty if there are none."""
    if not missed:
        return ""
    told = "\n".join(f"- {sentence}" for sentence in missed[:_ITEMS])
    return filled("reread", missed=told).strip("\n")


def repairable(
    pool: Sequence[Candidate], ranks: Mapping[str, int | None], *, limit: int, count: int
) -> tuple[Candidate, ...]:
    """The candidates to repair in the next round. ``ranks``: results of ``worst``, best candidate first. Missing files,
    wrong formats and crashes come first; each has fewer than ``limit`` repairs in its lineage, and has not been
    repaired yet."""
    by_id = {candidate.id: candidate for candidate in pool}
    repaired = {candidate.parent for candidate in pool}
    told = sorted(((rank, name) for name, rank in ranks.items() if rank is not None), key=lambda one: one[0])
    found = [by_id[name] for _, name in told if name not in repaired]
    return tuple([one for one in found if one.repairs < limit and not one.duplicate_of][:count])
