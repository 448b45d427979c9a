"""The plots of a report, from its summary: pass rates, self-tests against hidden tests, tasks by configs, time. This
module computes values; ``page.html`` draws them, at a fixed size so that text is never scaled, and in the colours of
its light or dark theme."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from heapq import heappop, heappush
from statistics import pstdev
from typing import Any, NamedTuple

from hc_ray.domain.value import counted
from hc_ray.reports.page import QUARTERS, draw, interval_of
from hc_ray.reports.progress import clock

TASKS = 60
"""The most tasks in the heat map: those on which the configs differ most."""
ARMS = 24
"""The most agents and configs in a plot or heat map."""
TONES = {"dev": "bar", "holdout": "other", "all": "soft"}
"""Split → colour; ``all`` is for sweeps that use no model."""
Data = Mapping[str, Any]


class Point(NamedTuple):
    """One measured point, with an optional interval around ``y``."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    says: str = ""
    size: float = 4


class Series(NamedTuple):
    """A named series of points."""

    name: str
    points: Sequence[Point]
    tone: str = "bar"
    """Name of a page colour."""
    joined: bool = True


class Strip(NamedTuple):
    """An interval bar from ``low`` to ``high`` with a tick at ``value``, and its text."""

    value: float
    low: float
    high: float
    says: str
    tone: str = "bar"


class Plot(NamedTuple):
    """Series with ``y`` from 0 to 1. ``diagonal``: draw the line y = x."""

    series: Sequence[Series]
    x_label: str
    y_label: str
    ticks: Sequence[float] = QUARTERS
    diagonal: bool = False

    @property
    def measured(self) -> bool:
        return any(one.points for one in self.series)

    @property
    def legend(self) -> dict[str, str]:
        return {one.name: one.tone for one in self.series if one.points}

    def across(self, x: float) -> str:
        """The x coordinate in percent of the plot's width."""
        places = [*self.ticks, *(point.x for one in self.series for point in one.points)]
        margin = 0.0 if self.ticks is QUARTERS else 0.4
        first, last = min(places) - margin, max(places) + margin
        return f"{100 * (x - first) / (last - first):.2f}%"

    def up(self, y: float) -> str:
        """The y coordinate in percent of the plot's height, from the top."""
        return f"{100 - 100 * y:.2f}%"


def figures(summary: Data) -> list[str]:
    """All plots of one or several sweeps."""
    configs = summary["configs"]
    splits = {one["split"] for one in configs}
    names = {split: tone for split, tone in TONES.items() if split in splits}
    if not splits & {"holdout", "all"}:
        names["holdout (not measured)"] = TONES["holdout"]
    rates = ((one["label"], one["split"], one["blind_pass"]) for one in configs)
    return [
        rates_figure("Blind pass rate", rates, names),
        _internal(summary),
        testgen_figure(summary),
    ]


def rates_figure(title: str, rates: Iterable[tuple[str, str, Data]], names: Mapping[str, str] = {}) -> str:
    """Pass rates by label, coloured by split."""
    found: dict[str, list[Strip]] = defaultdict(list)
    for label, split, one in rates:
        if one["value"] is not None:
            found[label].append(Strip(one["value"], one["low"], one["high"], interval_of(one), TONES[split]))
    shown = list(found.items())[:ARMS]
    return draw("figure", title, draw("strips", shown, names), _left_out(len(found), len(shown), "bars"))


def _left_out(there: int, shown: int, what: str) -> str:
    return f"{shown} of {there} {what}; the tables list all." if there > shown else ""


def _internal(summary: Data) -> str:
    """Internal against blind: one point per task and config, larger where several coincide."""
    series = []
    for part in summary["self_to_blind"]:
        places = Counter((round(one["self"], 2), round(one["blind"], 2)) for one in part["points"])
        points = [
            Point(*place, says=f"self-tests {place[0]:.2f}, blind {place[1]:.2f}: {count} times",
                  size=min(14.0, 3 + count**0.5))
            for place, count in places.items()
        ]  # fmt: skip
        series.append(Series(part["split"], points, TONES.get(part["split"], "bar"), joined=False))
    plot = Plot(series, "mean share of self-tests passed", "blind pass share", diagonal=True)
    says = "One point per task and config; larger where several coincide."
    return draw("figure", "Internal against blind", draw("xy", plot), says)


def testgen_figure(summary: Data) -> str:
    """Blind pass rate by test generation settings."""
    rates = ((one["testgen"], one["split"], one["blind_pass"]) for one in summary["by_testgen"])
    return rates_figure("Blind pass rate by test generation (hc)", rates)


def heat_map(summary: Data) -> str:
    """A table: pass share of each task under each agent and config."""
    rows = summary["trials"]
    cells: dict[str, dict[str, list[bool | None]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cells[row["task"]][row["label"]].append(row["passed"])
    shares = {task: [share for cell in own.values() if (share := _cell(cell)[0]) is not None]
              for task, own in cells.items()}  # fmt: skip
    told = sorted(cells, key=lambda task: (-pstdev(shares[task] or [0.0]), task))[:TASKS]
    told.sort(key=lambda task: (-sum(shares[task]) / max(1, len(shares[task])), task))
    arms = list(dict.fromkeys(one["label"] for one in summary["configs"]))
    says = "Passed / scored trials; ? marks unscored ones."
    if len(told) < len(cells):
        says += f" {len(told)} of {len(cells)} tasks: those on which the configs differ most."
    says = f"{says} {_left_out(len(arms), min(len(arms), ARMS), 'agents and configs')}"
    body = [(task, [_cell(cells[task].get(arm, ())) for arm in arms[:ARMS]]) for task in told]
    columns = ("task", *arms[:ARMS])
    return draw("heat", "Pass share by task and config", says, columns, body, len(told) <= TASKS // 2)


def _cell(own: Sequence[bool | None]) -> tuple[float | None, str]:
    """The share of passes, and its text."""
    scored = [passed for passed in own if passed is not None]
    unscored = "?" if len(scored) < len(own) else ""
    if not scored:
        return None, unscored
    return sum(scored) / len(scored), f"{sum(scored)}/{len(scored)}{unscored}"


def timeline(rows: Sequence[Data]) -> str:
    """Trials over time, each in a free lane, coloured by outcome."""
    times = sorted(
        (datetime.fromisoformat(row["started_at"]).timestamp(), datetime.fromisoformat(row["finished_at"]).timestamp(),
         str(row["passed"]))
        for row in rows
        if row["seconds"] is not None
    )  # fmt: skip
    if not times:
        return ""
    first, total = times[0][0], max(end for _, end, _ in times) - times[0][0] or 1.0
    tones = {"True": "good", "False": "bad", "None": "soft"}
    lanes, busy, free = 0, list[tuple[float, int]](), list[int]()
    bars: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
    for start, end, outcome in times:
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else lanes
        lanes = max(lanes, lane + 1)
        heappush(busy, (end, lane))
        bars[tones[outcome]].append((lane, start - first, end - first))
    legend = draw("keys", {"passed": "good", "failed": "bad", "unscored": "soft"})
    says = f"{counted(len(times), 'trial')} in {clock(total)}, at most {lanes} at a time."
    return draw("figure", "Trials over time", draw("spans", bars, lanes, total) + legend, says)


def slots(found: Data | None) -> str:
    """Engine slots over time. ``found`` is the result of ``engine_use``."""
    if found is None:
        return ""
    total = sum(bar["seconds"] for bar in found["timeline"]) or 1.0
    legend = draw("keys", {"busy": "bar", "free while tests and commands ran": "band"})
    says = f"From 0 to all slots, over {clock(total)}; the rest was free for another reason."
    return draw("figure", "Engine slots over time", draw("shares", found["timeline"], total) + legend, says)
