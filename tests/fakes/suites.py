"""Self-tests and pass matrices in few words."""

from collections.abc import Sequence
from typing import Any

from hc_ray.domain.suite import Cell, ExpectedValue, Outcome, PassMatrix, SelfTest, Subject, Unknown

SIGNS: dict[str, Outcome] = {"+": "pass", "-": "fail", "!": "error", ".": "skipped"}


def call_test(name: str, text: str = "f(1)", value: str | None = "1", **more: Any) -> SelfTest:
    """A test of the function that ``text`` calls, in ``m.py`` unless a ``path`` is given; None expects nothing."""
    subject = Subject(kind="call", path=more.pop("path", "m.py"), function=text.partition("(")[0])
    usual = {"category": "happy_path", "expectation": Unknown() if value is None else ExpectedValue(value=value)}
    return SelfTest.model_validate({"id": name, "subject": subject, "input": text, **usual, **more})


def matrix_of(rows: Sequence[str], observed: Sequence[Sequence[str | None]] | None = None) -> PassMatrix:
    """Candidates c0 … by their rows of ``SIGNS`` over the tests t0 …; what was observed is the sign itself unless
    given, and nothing of a crash."""
    cells = tuple(
        tuple(
            Cell(outcome=SIGNS[sign], observed=observed[i][j] if observed else None if sign == "!" else sign)
            for j, sign in enumerate(row)
        )
        for i, row in enumerate(rows)
    )
    tests = tuple(f"t{j}" for j in range(len(rows[0]) if rows else 0))
    return PassMatrix(candidates=tuple(f"c{i}" for i in range(len(rows))), tests=tests, cells=cells)
