"""What a repair is told of its parent's failures. How much is the knob ``feedback``: crashes, missing files and format
errors always; assertion failures only of tests that are trusted, in words that leave room for doubt. Of whatever check
is told, its code is too."""

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
"""From this confidence on a test's expectation may be told to a repair."""
_DOUBT = "; the test may be wrong"
_ITEMS = 3
_ITEM_LENGTH = 240
_CHECK_LENGTH = _CODE_LENGTH = 700


Level = Literal["full", "trusted", "crashes"]


def feedback(row: Sequence[Cell], tests: Sequence[SelfTest], level: Level) -> tuple[str, ...]:
    """What a repair is told, at most three faults, each once and the worst first; empty when there is nothing to
    repair."""
    return tuple(line for _, line in worst_of(row, tests, level))


def worst_of(row: Sequence[Cell], tests: Sequence[SelfTest], level: Level) -> tuple[tuple[SelfTest, str], ...]:
    """As ``feedback``, each with its test; of faults that are as bad those first that nobody else has."""
    seen: dict[str, tuple[tuple[int, int], SelfTest, str]] = {}
    alike: Counter[str] = Counter()
    for rank, test, cell in sorted(_ranked(row, tests, level), key=lambda one: one[0]):
        line = _line(test, cell.detail, _DOUBT) if rank == 2 else _line(test, cell.detail or cell.outcome)
        # The same fault at every input is told once.
        way = normal(cell.detail)
        seen.setdefault(normal(line.split(": ", 1)[-1]), ((rank, alike[way]), test, line))
        alike[way] += 1
    shown: set[str] = set()
    worst_first = sorted(seen.values(), key=lambda one: one[0])[:_ITEMS]
    return tuple((test, line + _code(test, shown)) for _, test, line in worst_first)


def failing(row: Sequence[Cell], tests: Sequence[SelfTest], level: Level) -> int:
    """How many tests' failures may be told of a candidate, of which ``feedback`` tells the worst."""
    return sum(1 for _ in _ranked(row, tests, level))


def worst(row: Sequence[Cell], tests: Sequence[SelfTest], level: Level) -> int | None:
    """The lowest rank of what may be told of a candidate; None where that is nothing."""
    return min((rank for rank, _, _ in _ranked(row, tests, level)), default=None)


def _ranked(row: Sequence[Cell], tests: Sequence[SelfTest], level: Level) -> Iterator[tuple[int, SelfTest, Cell]]:
    """What may be told of a candidate's failures, each with its rank: 0 for a missing file, a wrong format or what does
    not load, 1 for a crash, 2 for an answer that a test doubts."""
    for cell, test in zip(row, tests, strict=True):
        if cell.outcome in ("pass", "skipped") or (test.category == "invalid_input" and cell.outcome == "error"):
            continue
        form = test.expectation.kind == "property" and test.expectation.name in FILE_PROPERTIES
        # A file is missing, is no regular file, or has the wrong form.
        formal = test.subject.kind == "file" and (form or cell.outcome == "error")
        if formal or "does not load" in cell.detail:
            yield 0, test, cell
        elif cell.outcome in ("error", "timeout"):
            yield 1, test, cell
        elif level == "full" or (level == "trusted" and test.confidence >= TRUSTED):
            yield 2, test, cell


def _line(test: SelfTest, what: str, end: str = "") -> str:
    """``end`` stands whole, however long the rest is."""
    if test.subject.kind == "check":
        quoted = (test.reasoning or test.sentence)[:300].strip('"')
        asks = f" (the task says: {quoted})" if test.sentence else ""
        return f"{test.subject.function}{asks}: {what.strip()[:_CHECK_LENGTH]}"  # the doubt stands below all
    subject = test.input if test.subject.kind == "call" else f"{test.subject.path} {test.input}".strip()
    return " ".join(f"{subject[:100]}: {what}".split())[: _ITEM_LENGTH - len(end)] + end


def _code(test: SelfTest, shown: set[str]) -> str:
    """What a check does, by which one can see whether it is right: a failed assertion seldom shows what was asked.
    ``shown``: what checks use that was told before, and is told once."""
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
    """The names that a module's statement gives to a function, a class or a value."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    return [one.id for one in node.targets if isinstance(one, ast.Name)] if isinstance(node, ast.Assign) else []


def notes(parent: Candidate, observed: Sequence[str]) -> str:
    """The text that a repair's prompt carries besides the instruction: the attempt, and what was observed of it."""
    attempt = "\n\n".join(text.strip("\n") for text in parent.files.values()).strip("\n")
    return filled("repair", attempt=attempt, observed="\n".join(f"- {line}" for line in observed)).strip("\n")


def tried(told: Iterable[Sequence[str]]) -> str:
    """What a new start is told of earlier attempts: of each, best first, the worst that was seen; empty for none."""
    lines: dict[str, None] = {}
    for seen in told:
        lines |= dict.fromkeys(seen[:1])
        if len(lines) == _ITEMS:
            break
    if not lines:
        return ""
    return filled("tried", tried="\n".join(f"- {line}" for line in lines)).strip("\n")


def reread(missed: Sequence[str]) -> str:
    """What is told after a failed verdict: the sentences that it may have missed; empty for none."""
    if not missed:
        return ""
    told = "\n".join(f"- {sentence}" for sentence in missed[:_ITEMS])
    return filled("reread", missed=told).strip("\n")


def repairable(
    pool: Sequence[Candidate], ranks: Mapping[str, int | None], *, limit: int, count: int
) -> tuple[Candidate, ...]:
    """The candidates that the next round repairs. ``ranks``: what ``worst`` says of each, the best first. Missing
    files, wrong formats and crashes come first; each has fewer than ``limit`` repairs in its lineage, and no repair of
    it yet."""
    by_id = {candidate.id: candidate for candidate in pool}
    repaired = {candidate.parent for candidate in pool}
    told = sorted(((rank, name) for name, rank in ranks.items() if rank is not None), key=lambda one: one[0])
    found = [by_id[name] for _, name in told if name not in repaired]
    return tuple([one for one in found if one.repairs < limit and not one.duplicate_of][:count])
