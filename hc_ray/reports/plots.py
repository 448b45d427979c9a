"""What the plots of a page show, as values. ``page.html`` draws them: of a fixed size, so that their text is never
scaled, in colours of the page, which follow light and dark."""

from collections.abc import Sequence
from typing import NamedTuple

from hc_ray.reports.page import QUARTERS


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


class Plot(NamedTuple):
    """Heights from 0 to 1 over something. ``diagonal``: a line where both axes agree."""

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
        """Where a point lies, in percent of the width."""
        places = [*self.ticks, *(point.x for one in self.series for point in one.points)]
        margin = 0.0 if self.ticks is QUARTERS else 0.4
        first, last = min(places) - margin, max(places) + margin
        return f"{100 * (x - first) / (last - first):.2f}%"

    def up(self, y: float) -> str:
        """The same of the height."""
        return f"{100 - 100 * y:.2f}%"
