"""A trial's candidates, their tests, the growing pass matrix, and the choice of the submission, which replays share."""

import ast
import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.config import SelectorName
from hc_ray.domain.normalisation import normal
from hc_ray.domain.prompt import Malformed
from hc_ray.domain.suite import Cell, PassMatrix, SelfTest
from hc_ray.domain.value import digest_of
from hc_ray.search.schedule import Slot
from hc_ray.search.selection import Selection, behaviour_clusters, deciding, progress, select
from hc_ray.spec.source import parsed


class Pool:
    """Candidates in slot order, and the rows of those that were run. Only the trial's own coroutine uses it."""

    def __init__(self) -> None:
        self.candidates: list[Candidate] = []
        self.tests: tuple[SelfTest, ...] = ()
        self.rows: dict[str, tuple[Cell, ...]] = {}
        self.rejected: set[str] = set()
        """Candidates with a failed verdict."""

    def __len__(self) -> int:
        return len(self.candidates)

    def candidate(self, identity: str) -> Candidate:
        return next(candidate for candidate in self.candidates if candidate.id == identity)

    def matrix(self) -> PassMatrix:
        """The matrix of every candidate that was run, in slot order, and the current tests."""
        names = tuple(one.id for one in self.candidates if one.id in self.rows)
        return PassMatrix(candidates=names, tests=tuple(test.id for test in self.tests),
                          cells=tuple(self.rows[name] for name in names))  # fmt: skip

    def choose(self, selector: SelectorName, held: Selection | None) -> Selection:
        """Select over the whole pool. The best so far (``held``) is kept unless something is better; failed
        submissions, and candidates that behave like them, are left out."""
        matrix = self.matrix()
        out = set(self.rejected)
        for cluster in behaviour_clusters(matrix, self.tests):
            out.update(cluster if self.rejected.intersection(cluster) else ())
        standing = tuple(name for name in matrix.candidates if name not in out) or matrix.candidates
        matrix = PassMatrix(candidates=standing, tests=matrix.tests, cells=tuple(self.rows[one] for one in standing))
        return checkpoint(held, select(matrix, selector, tests=self.tests))

    def standing(self, selector: SelectorName, held: Selection | None) -> tuple[Selection, list[Candidate]]:
        """For states of lineages: the choice of the suite if it can tell, otherwise of agreement, and one candidate for
        each state tied with it. ``held``: the previous choice."""
        failed = {self.candidate(one).digest for one in self.rejected}
        able = [one for one in self.candidates if one.digest not in failed]
        if deciding(self.tests):
            best = self.choose(selector, held)
            level = [one for one in able if best.scores.get(one.id) == best.scores.get(best.chosen or "")]
        else:
            best, level = by_content(able), [one for one in able if one.files]
        return best, list({one.digest: one for one in reversed(level)}.values())[::-1]

    def complete(self, chosen: str | None) -> bool:
        """Whether a state passes every discriminating test."""
        row, columns = self.rows.get(chosen or ""), deciding(self.tests)
        return row is not None and bool(columns) and all(row[i].outcome == "pass" for i in columns)

    def unselected(self, selector: SelectorName) -> Selection | None:
        """If time ran out before a selection: the first of the candidates that pass the most tests, or if none was run,
        the first with a file. None if there is none."""
        passing = {name: progress(row, self.tests) for name, row in self.rows.items()}
        able = [one for one in self.candidates if one.files]
        if not able:
            return None
        best = max(able, key=lambda one: passing.get(one.id, -1.0))
        why = "nothing was selected in time: the first of those that pass most"
        return Selection(selector=selector, chosen=best.id, why=why)

    @contextlib.contextmanager
    def measured_anew(self, more: Sequence[SelfTest]) -> Iterator[None]:
        """Run every candidate again with more tests in this block; if that is interrupted, restore the previous
        results."""
        before = self.tests, dict(self.rows)
        self.tests += tuple(more)
        self.rows.clear()
        try:
            yield
        except BaseException:
            self.tests, self.rows = before
            raise


def by_content(candidates: Sequence[Candidate]) -> Selection:
    """Select by agreement on the content of every path that any of them changed; ties go to the first submitted."""
    held = [one for one in candidates if one.files]
    forms = {one.id: {path: normal(normal_form(path, text)) for path, text in one.files.items()} for one in held}
    paths = sorted({path for form in forms.values() for path in form})
    counts = {path: Counter(form.get(path) for form in forms.values()) for path in paths}
    others = max(1, (len(held) - 1) * len(paths))
    scores = {name: round(sum(counts[path][form.get(path)] - 1 for path in paths) / others, 6)
              for name, form in forms.items()}  # fmt: skip
    chosen = max(scores, key=lambda name: scores[name], default=None)
    alike = tuple(name for name in forms if chosen is not None and forms[name] == forms[chosen])
    return Selection(
        selector="mbr",
        chosen=chosen,
        scores=scores,
        clusters=(alike,) if alike else (),
        confidence=round(len(alike) / len(held), 6) if held else 0.0,
        why=f"agreement: {len(alike)} of {len(held)} states are alike" if held else "no candidate to pick",
        agreement=scores,
        silent=any(scores[name] == scores[chosen] for name in forms if chosen and name not in alike),
    )


def checkpoint(held: Selection | None, now: Selection) -> Selection:
    """Keep the best checkpoint: the previous choice stays if the selector, on the same matrix, scores the new one
    equally and no more of the others agree with it."""
    before = held.chosen if held else None
    if before is None or now.chosen is None or before == now.chosen or before not in now.scores:
        return now
    same = now.scores[before] == now.scores[now.chosen]
    alike = same and now.agreement.get(before, 0.0) >= now.agreement.get(now.chosen, 0.0)
    why = f"{now.why}; {before}, chosen before, is level with it and stays"
    return now.model_copy(update={"chosen": before, "why": why}) if alike else now


def candidate_of(slot: Slot, made: Mapping[str, str] | Malformed, pool: Sequence[Candidate], **spent: Any) -> Candidate:
    """The candidate of a slot, marked as a duplicate if the pool has the same files. ``spent``: its tokens, turns and
    seconds."""
    files, malformed = ({}, made.reason) if isinstance(made, Malformed) else (dict(made), None)
    new = Candidate(id=slot.id, **slot.model_dump(exclude={"told"}), files=files, malformed=malformed, **spent)
    if not files:
        return new
    digest = files_digest(new.files)
    original = next((one for one in pool if one.digest == digest), None)
    twin = (original.duplicate_of or original.id) if original else None
    return new.model_copy(update={"digest": digest, "duplicate_of": twin})


def files_digest(files: Mapping[str, str]) -> str:
    """SHA-256 over the normalised files: equal digests mean equal candidates."""
    return digest_of({path: normal_form(path, text) for path, text in files.items()})


def normal_form(path: str, text: str) -> str:
    """Normalise a text for comparison: Python without layout, comments and docstrings, anything else without trailing
    space."""
    plain = "\n".join(line.rstrip() for line in text.strip().splitlines())
    return (_python(text) if path.endswith(".py") else None) or plain


def _python(text: str) -> str | None:
    if (tree := parsed(text)) is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = node.body[0] if node.body else None
            said = first.value if isinstance(first, ast.Expr) else None
            if isinstance(said, ast.Constant) and isinstance(said.value, str):
                node.body = node.body[1:] or [ast.Pass()]
    try:
        return ast.dump(tree)
    except RecursionError:
        return None
