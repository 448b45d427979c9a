"""What every report is made of: sections, for the terminal and for the page, and figures as text. The template
``page.html`` says how they look on a page."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

NOT_MEASURED = "not measured"
VERDICTS = {True: "pass", False: "fail", None: "unscored"}
UNEXPECTED = {
    ("oracle", False): "the reference solution does not pass",
    ("nop", True): "the tests pass the untouched environment",
}
"""What is wrong with a task, by what an agent that checks the harness comes to."""
TONES = {"improved": "good", "worse": "bad", "met": "good", "not met": "bad", "accepted": "good", "pass": "good",
         "fail": "bad", "ok": "good", "refused": "warn", "unscored": "warn"}  # fmt: skip
"""Words that say good or bad, in cells and of sentences."""
QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}


class Section(NamedTuple):
    """A part of a report, for the terminal and for the page: a table of plain text, and sentences."""

    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    numbers: Sequence[str] = ()
    """Columns that are aligned to the right in a terminal."""
    after: Sequence[str] = ()
    tone: str = "soft"
    """Of the sentences: ``soft``, ``plain``, ``warn``, ``claim``, or a word of ``TONES``."""
    spare: Sequence[str] = ()
    """Columns that a terminal without room for all leaves out, the last first."""


def draw(macro: str, *values: Any) -> str:
    """HTML: what a macro of ``page.html`` makes of these values."""
    made: str = getattr(_template(), macro)(*values)
    return made


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader

    folder = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=folder, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"TONES": TONES, "QUARTERS": QUARTERS}
    return environment.get_template("page.html").module


def printable(text: str) -> str:
    """Text in which nothing commands a terminal: what models and their programs wrote may hold escape sequences. A
    control character becomes its picture; line ends and tabs stay."""
    shown = text.replace("\r\n", "\n").translate(_PICTURES)
    return "".join(one if one.isprintable() or one in "\n\t" else " " if one.isspace() else "\ufffd" for one in shown)


def interval_of(estimate: Mapping[str, Any]) -> str:
    """``0.30 [0.14, 0.52]``, or that it was not measured; the value alone where the tasks give no interval."""
    if estimate["value"] is None:
        return NOT_MEASURED
    if estimate["low"] is None:
        return f"{estimate['value']:.2f}"
    return f"{estimate['value']:.2f} [{estimate['low']:.2f}, {estimate['high']:.2f}]"


def difference_text(row: Mapping[str, Any]) -> str:
    """``+0.10 [-0.05, +0.25]``, or that it was not measured."""
    return NOT_MEASURED if row["delta"] is None else f"{row['delta']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"


def number(value: float | None, digits: int = 2) -> str:
    """With so many digits, or that it was not measured."""
    return NOT_MEASURED if value is None else f"{value:,.{digits}f}"


def p_of(p: float) -> str:
    """``= 0.041`` or ``< 0.001``."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"
