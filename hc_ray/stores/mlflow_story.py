"""The MLflow data of a sweep or climb, derived from a directory alone, so that a later export equals live tracking."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hc_ray.domain.value import Value

Status = Literal["RUNNING", "FINISHED", "KILLED"]
Rows = Sequence[Mapping[str, Any]]


class Point(NamedTuple):
    """One value of a metric."""

    name: str
    value: float
    step: int


class Prompts(Value):
    """A version of what shapes a role's prompts."""

    role: str
    digest: str
    """Two versions differ in it."""
    text: str


class Run(Value):
    """The desired state of a run."""

    part: str
    """Its key in the story, by which a later export finds it again."""
    name: str
    tags: dict[str, Any] = {}
    config: dict[str, Any] = {}
    """Its parameters, nested."""
    points: tuple[Point, ...] = ()
    tables: dict[str, list[dict[str, Any]]] = {}
    """File → rows that the UI shows as a table."""
    files: dict[str, str] = {}
    trials: tuple[dict[str, Any], ...] = ()
    """Rows of those whose trajectories are its traces; ``where``: the folder of their sweep, if it is not the story's
    own."""
    prompts: tuple[Prompts, ...] = ()
    """Those that it was made with."""
    started: int
    """Milliseconds since 1970."""
    ended: int


class Story(Value):
    """A parent run and its children."""

    id: str
    dataset: str
    model: str
    source: str
    """The command to reproduce it."""
    split: str
    digest: str
    """Of the public tasks; empty as long as they are not known."""
    parent: Run
    children: tuple[Run, ...] = ()

    @property
    def experiment(self) -> str:
        """A path counts by its last part, so that a moved checkout goes on in the same experiment."""
        return f"{Path(self.dataset).name} x {Path(self.model).name}"

    @property
    def registered(self) -> str:
        """Prefix of prompt names."""
        words = f"hc-ray.{Path(self.dataset).name}.{Path(self.model).name}"
        return "".join(one if one.isalnum() or one in "-_." else "-" for one in words)


def points(values: Mapping[str, float | None], step: int) -> tuple[Point, ...]:
    """Drop values that were not measured."""
    return tuple(Point(name, float(value), step) for name, value in values.items() if value is not None)


def span_of(rows: Rows) -> tuple[int, int]:
    """First start and last end of the trials, in milliseconds; now if there are none."""
    now = int(time.time() * 1000)
    times = [milliseconds(row[name]) for row in rows for name in ("started_at", "finished_at")]
    return (min(times), max(times)) if times else (now, now)


def milliseconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)


def told_of(rows: Iterable[Mapping[str, Any]], trials: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those rows of a sweep's table that are of some ``trials``, with what a reader needs to place them."""
    return [
        {"task": own["task"], "seed of the trial": own["seed"], **row}
        for row in rows
        if (own := trials.get(row["trial"])) is not None
    ]
