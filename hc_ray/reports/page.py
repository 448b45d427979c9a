"""What every page of a report is made of: its style, its tables, and figures as text. No script, no external asset."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

NOT_MEASURED = "not measured"
VERDICTS = {True: "pass", False: "fail", None: "unscored"}
UNEXPECTED = {
    ("oracle", False): "the tests fail the reference solution",
    ("nop", True): "the tests pass the untouched environment",
}
"""What is wrong with a task, by what an agent that checks the harness comes to."""
TONES = {"improved": "good", "worse": "bad", "met": "good", "not met": "bad", "accepted": "good",
         "pass": "good", "fail": "bad"}  # fmt: skip
"""Cells that say good or bad."""


class Section(NamedTuple):
    """A part of a report, for the terminal and for the page: sentences, a table of plain text, sentences."""

    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    notes: Sequence[str] = ()
    numbers: Sequence[str] = ()
    """Columns that are aligned to the right in a terminal."""
    words: Sequence[str] = ()
    """Columns whose cells fold on the page."""
    after: Sequence[str] = ()


def document(title: str, parts: Iterable[str]) -> str:
    """The whole page; ``title`` and ``parts`` are HTML already."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_style()}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


@cache
def _style() -> str:
    return Path(__file__).with_name("page.css").read_text("utf-8")


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


def text(value: Any) -> str:
    return escape(NOT_MEASURED if value is None else str(value))


def number(value: float | None, digits: int = 2) -> str:
    """With so many digits, or that it was not measured."""
    return NOT_MEASURED if value is None else f"{value:,.{digits}f}"


def p_of(p: float) -> str:
    """``= 0.041`` or ``< 0.001``."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def section_html(section: Section, level: int = 2) -> str:
    """A section of the page; empty where there is nothing to tell. Words that say good or bad are coloured."""
    before, after = (
        "".join(f"<p class=soft>{text(note)}</p>" for note in some) for some in (section.notes, section.after)
    )
    body = before + (_table(section) if section.rows else "") + after
    head = f"<h{level}>{text(section.title)}</h{level}>" if section.title else ""
    return head + body if body else ""


def folded(section: Section) -> str:
    """A section that opens on a click."""
    return f"<details><summary>{text(section.title)}</summary>{section_html(section._replace(title=''))}</details>"


def _table(section: Section) -> str:
    head = "".join(f"<th>{text(column)}</th>" for column in section.columns)
    kinds = ["words" if column in section.words else "number" for column in section.columns]
    rows = (
        "".join(f"<td class={kind}>{_cell(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        for row in section.rows
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _cell(value: Any) -> str:
    tone = TONES.get(str(value).partition(":")[0])
    return f"<span class={tone}>{text(value)}</span>" if tone else text("" if value is None else value)
