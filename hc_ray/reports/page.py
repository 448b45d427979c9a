"""What every page of a report is made of: its style, its tables, and figures as text. No script, no external asset."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

NOT_MEASURED = "not measured"
TONES = {"improved": "good", "worse": "bad", "met": "good", "not met": "bad", "accepted": "good",
         "pass": "good", "fail": "bad"}  # fmt: skip
"""Cells that say good or bad."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d9dee5; --page: #ffffff; --bar: #2f6fb0;
  --band: #bcd3ea; --good: #1d7a46; --bad: #a8322a; --panel: #f5f7fa; --other: #b0620c; --third: #7a4ba8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa6b5; --line: #333c48; --page: #14181e;
  --bar: #6aa9e9; --band: #274665; --good: #57c98a; --bad: #ef8078; --panel: #1b2129; --other: #e8a24c;
  --third: #bd95e6; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1480px; margin: 0 auto; padding: 2rem 1.25rem 4rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
p { margin: .35rem 0; max-width: 62rem; } .soft { color: var(--soft); }
.wide { overflow-x: auto; overflow-wrap: normal; margin: .5rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { text-align: left; padding: .4rem .7rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); } td.number { white-space: nowrap; }
td.words { min-width: 11rem; max-width: 34rem; white-space: normal; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.claim { background: var(--panel); border-left: 4px solid var(--bar); padding: .6rem 1rem; margin: 1rem 0; }
svg { display: block; } details { margin: 1rem 0; } summary { cursor: pointer; }
.plots { columns: 21rem; column-gap: 1rem; }
figure { margin: 0 0 1rem; padding: .7rem; background: var(--panel); display: inline-block; width: 100%; }
figcaption { font-weight: 600; margin-bottom: .3rem; } figure p { font-size: 13px; }
figure svg:not(.long) { max-width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); } svg text.ink { fill: var(--ink); }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 .8em; } .key:first-child { margin-left: 0; }
table.heat { width: auto; } .heat td { padding: .15rem .4rem; text-align: center; border: 1px solid var(--page); }
.heat th { vertical-align: bottom; white-space: normal; min-width: 4.5rem; max-width: 9rem; padding-right: .4rem; }
.heat tbody th { text-align: left; color: var(--ink); font-weight: 400; min-width: 9rem; max-width: 22rem; }
.heat [style] { background: color-mix(in srgb, var(--bar) calc(var(--share) * 55%), var(--panel)); }
"""


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
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def interval_of(estimate: Mapping[str, Any]) -> str:
    """``0.30 [0.14, 0.52]``, or that it was not measured; the value alone where the tasks give no interval, and an open
    end where they leave it open."""
    if estimate["value"] is None:
        return NOT_MEASURED
    if estimate["low"] is None:
        return f"{estimate['value']:.2f}"
    high = "…" if estimate["high"] is None else f"{estimate['high']:.2f}"
    return f"{estimate['value']:.2f} [{estimate['low']:.2f}, {high}]"


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
