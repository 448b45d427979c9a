"""Plots as SVG of a fixed size, which a page sets side by side or one below the other: their text is never scaled.
Colours are the page's variables, so that they follow light and dark."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from hc_ray.reports.page import NOT_MEASURED

WIDTH, HEIGHT = 332, 232
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 8, 38
_CHARACTERS = 50
"""Of a label that fits a plot."""
QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


class Point(NamedTuple):
    """One measured point, with the interval of its height where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    says: str = ""
    size: float = 4


class Series(NamedTuple):
    """Points of one kind."""

    name: str
    points: Sequence[Point]
    tone: str = "bar"
    """Name of a colour of the page."""
    joined: bool = True


class Strip(NamedTuple):
    """A bar from ``low`` to ``high`` with a tick at ``value``, and what it says in figures."""

    value: float
    low: float
    high: float
    says: str
    tone: str = "bar"


def figure(title: str, drawing: str, says: str = "") -> str:
    """A plot with its title and what is to be read from it; without a drawing it was not measured."""
    below = f"<p class=soft>{escape(says)}</p>" if says else ""
    drawn = drawing or f"<p>{NOT_MEASURED}</p>"
    return f"<figure><figcaption>{escape(title)}</figcaption>{drawn}{below}</figure>"


def keys(names: Mapping[str, str]) -> str:
    """The legend: what is told → its colour."""
    told = (f'<span class=key style="background:var(--{tone})"></span>{escape(n)}' for n, tone in names.items())
    return f"<p>{''.join(told)}</p>" if len(names) > 1 else ""


def xy(
    series: Sequence[Series], x_label: str, y_label: str, *, ticks: Sequence[float] = QUARTERS, diagonal: bool = False
) -> str:
    """Heights from 0 to 1; empty without a point. ``diagonal``: a line where both axes agree."""
    if not any(one.points for one in series):
        return ""
    places, more = [*ticks, *(point.x for one in series for point in one.points)], 0.0 if ticks is QUARTERS else 0.4
    first, last = min(places) - more, max(places) + more

    def across(x: float) -> str:
        return f"{_LEFT + 6 + (WIDTH - _LEFT - _RIGHT - 12) * (x - first) / (last - first):.1f}"

    def up(y: float) -> str:
        return f"{_TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - y):.1f}"

    parts = [
        f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{up(y)}" y2="{up(y)}" stroke="var(--line)"/>'
        f'<text x="{_LEFT - 6}" y="{up(y)}" dy=".35em" text-anchor="end">{y:g}</text>'
        for y in QUARTERS
    ]
    parts += [f'<text x="{across(x)}" y="{HEIGHT - 23}" text-anchor="middle">{x:g}</text>' for x in ticks]
    parts.append(f'<text x="{(WIDTH + _LEFT) / 2}" y="{HEIGHT - 5}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<text transform="translate(11 {(HEIGHT - _BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
                 f"{escape(y_label)}</text>")  # fmt: skip
    if diagonal:
        parts.append(f'<line x1="{across(0)}" y1="{up(0)}" x2="{across(1)}" y2="{up(1)}" stroke="var(--soft)" '
                     'stroke-dasharray="4 4"/>')  # fmt: skip
    for one in series:
        colour = f"var(--{one.tone})"
        if one.joined:
            path = " ".join(f"{across(point.x)},{up(point.y)}" for point in one.points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for point in one.points:
            if point.low is not None and point.high is not None:
                parts.append(f'<line x1="{across(point.x)}" x2="{across(point.x)}" y1="{up(point.low)}" '
                             f'y2="{up(point.high)}" stroke="{colour}" stroke-width="2" opacity=".45"/>')  # fmt: skip
            parts.append(f'<circle cx="{across(point.x)}" cy="{up(point.y)}" r="{point.size:.1f}" fill="{colour}" '
                         f'fill-opacity=".75"><title>{escape(point.says)}</title></circle>')  # fmt: skip
    drawn = _svg(WIDTH, HEIGHT, f"{y_label} against {x_label}", "".join(parts))
    return drawn + keys({one.name: one.tone for one in series if one.points})


def strips(rows: Sequence[tuple[str, Sequence[Strip]]], names: Mapping[str, str] | None = None) -> str:
    """Each label with its bars below, from 0 to 1. ``names``: the legend."""
    scale = 200
    y, parts = 0, list[str]()
    for label, own in rows:
        short = label if len(label) <= _CHARACTERS else f"{label[: _CHARACTERS - 1]}…"
        parts.append(f'<text class="ink" x="0" y="{y + 14}">{escape(short)}<title>{escape(label)}</title></text>')
        y += 20
        for value, low, high, says, tone in own:
            parts.append(
                f'<line x1="0" x2="200" y1="{y + 8}" y2="{y + 8}" stroke="var(--line)"/>'
                f'<rect x="{low * scale:.1f}" y="{y + 3}" width="{max(1.0, (high - low) * scale):.1f}" height="10" '
                f'fill="var(--{tone})" opacity=".45"/>'
                f'<rect x="{max(0.0, value * scale - 1.2):.1f}" y="{y}" width="2.5" height="16" fill="var(--{tone})"/>'
                f'<text x="208" y="{y + 12}">{escape(says)}</text>'
            )
            y += 20
        y += 6
    return _svg(WIDTH, y, "bars with intervals", "".join(parts)) + keys(names or {}) if rows else ""


def spans(lanes: int, told: Mapping[str, Sequence[tuple[int, float, float]]], total: float) -> str:
    """Bars over time in lanes, by colour: (lane, from, to) in the unit of ``total``. As wide as the page."""
    high, height = max(1.0, min(10.0, 300 / max(1, lanes))), max(1.0, min(10.0, 300 / max(1, lanes))) * lanes
    parts = []
    for tone, bars in told.items():
        path = "".join(
            f"M{1000 * start / total:.1f} {lane * high:.1f}h{max(0.6, 1000 * (end - start) / total - 0.4):.1f}"
            f"v{high * 0.85:.1f}H{1000 * start / total:.1f}z"
            for lane, start, end in bars
        )
        parts.append(f'<path d="{path}" fill="var(--{tone})"/>')
    return (f'<svg class="long" viewBox="0 0 1000 {height:.0f}" preserveAspectRatio="none" width="100%" '
            f'height="{height:.0f}" role="img" aria-label="trials over time">{"".join(parts)}</svg>')  # fmt: skip


def _svg(width: int, height: int, label: str, inside: str) -> str:
    return (f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
            f'aria-label="{escape(label)}">{inside}</svg>')  # fmt: skip
