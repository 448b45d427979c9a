"""The building blocks of every report: sections, for the terminal and the page, and figures as text. The template
``page.html`` lays them out on a page."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

NOT_MEASURED = "not measured"
VERDICTS = {True: "pass", False: "fail", None: "unscored"}
UNEXPECTED = {
    ("oracle", False): "the reference solution does not pass",
    ("nop", True): "the untouched environment passes the tests",
}
"""(agent, verdict) of a harness check → what it says is wrong with the task."""
TONES = {"improved": "good", "worse": "bad", "met": "good", "not met": "bad", "accepted": "good", "pass": "good",
         "fail": "bad", "ok": "good", "refused": "warn", "unscored": "warn"}  # fmt: skip
"""Word in a table cell, or tone of a sentence → page colour."""
QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}


class Section(NamedTuple):
    """A part of a report, for the terminal and the page: a table of plain text, then sentences."""

    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    numbers: Sequence[str] = ()
    """Columns to right-align in a terminal."""
    after: Sequence[str] = ()
    tone: str = "soft"
    """Tone of the sentences: ``soft``, ``plain``, ``warn``, ``claim``, or a key of ``TONES``."""
    spare: Sequence[str] = ()
    """Columns that a narrow terminal drops, the last one first."""


def draw(macro: str, *values: Any) -> str:
    """Render a macro of ``page.html`` with these values."""
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
    """Make text safe for a terminal, since models and their programs may write escape sequences: control characters
    become their Unicode pictures; newlines and tabs stay."""
    shown = text.replace("\r\n", "\n").translate(_PICTURES)
    return "".join(one if one.isprintable() or one in "\n\t" else " " if one.isspace() else "\ufffd" for one in shown)


def interval_of(estimate: Mapping[str, Any]) -> str:
    """``0.30 [0.14, 0.52]`` or ``NOT_MEASURED``; the value alone if the tasks give no interval."""
    if estimate["value"] is None:
        return NOT_MEASURED
    if estimate["low"] is None:
        return f"{estimate['value']:.2f}"
    return f"{estimate['value']:.2f} [{estimate['low']:.2f}, {estimate['high']:.2f}]"


def difference_text(row: Mapping[str, Any]) -> str:
    """``+0.10 [-0.05, +0.25]`` or ``NOT_MEASURED``."""
    return NOT_MEASURED if row["delta"] is None else f"{row['delta']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"


def number(value: float | None, digits: int = 2) -> str:
    """The value with ``digits`` decimals, or ``NOT_MEASURED``."""
    return NOT_MEASURED if value is None else f"{value:,.{digits}f}"


def p_of(p: float) -> str:
    """``= 0.041`` or ``< 0.001``."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"
