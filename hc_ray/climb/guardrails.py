"""Turns one knob within bounds: a suggestion is clipped to the nearest legal value, never rejected as too far."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from hc_ray.climb.knobs import Knob, Site, field_of, with_value
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.prompt import Malformed

Speaks = Callable[[str], Mapping[str, str]]
"""``tasks.vocabulary.Vocabulary.found``: words of a text that belong to one task → that task."""


def turn(
    knob: Knob, asked: Any, site: Site, *, reach: int = 1, speaks: Speaks | None = None
) -> SolverConfig | Malformed:
    """The incumbent with one knob turned to the nearest legal value to what was asked: within ``reach`` guardrails of
    where it is, and in its box. ``Malformed`` for what is no value of it, changes nothing, or speaks of one task."""
    before = knob.at(site.solver)
    wanted = _wanted(knob, asked, before, reach)
    if wanted is None:
        return Malformed(reason=f"{knob.key}: {asked!r:.60} is no value of it", text="")
    if knob.kind == "text" and speaks and (said := speaks(wanted)):
        return Malformed(reason=f"{knob.key}: {', '.join(said)} occur in one task only", text=wanted)
    while wanted != before:
        try:
            turned = with_value(site.solver, knob.key, wanted)
        except ValidationError:  # another knob is in its way: one nearer to where it is
            wanted = wanted - int(math.copysign(1, wanted - before)) if knob.kind == "whole" else before
            continue
        if knob.acts and knob.acts(site) == knob.acts(site.model_copy(update={"solver": turned})):
            break
        return turned
    return Malformed(reason=f"{knob.key}: {asked!r:.60} would change nothing ({before!r:.60})", text="")


def neighbours(knob: Knob, site: Site, reach: int = 1) -> tuple[SolverConfig, ...]:
    """The values reachable from here: every option, or a number one guardrail up and down; none for texts."""
    now, wanted = knob.place(knob.at(site.solver)), list(knob.options)
    if knob.box is not None:
        wanted = [now + knob.box[2] * reach, now - knob.box[2] * reach]
    turned = [turn(knob, one, site, reach=reach) for one in wanted]
    return tuple(one for one in turned if isinstance(one, SolverConfig))


def _wanted(knob: Knob, asked: Any, before: Any, reach: int) -> Any:
    """The nearest value of the knob's kind within its guardrail; None for what is none of that kind."""
    if knob.kind == "text":
        return _text(asked, field_of(knob.key)) if isinstance(asked, str) else None
    try:
        asked, now = knob.place(asked), knob.place(before)
        if knob.options:
            fits = any(one == asked and type(one) is type(asked) for one in knob.options)
            rest = [one for one in before if one != asked] if knob.kind == "lead" else []
            return None if not fits else [asked, *rest] if knob.kind == "lead" else asked
        if isinstance(asked, str):
            asked = json.loads(asked)  # where no number begins with a plus: who writes one means a change
        number = math.nan if isinstance(asked, bool) else float(asked)
        if knob.box is None or not math.isfinite(number):
            return None
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    low, high, step = knob.box
    # A start value outside the box may stay, but no change leads further out.
    number = min(max(round(number, 2), min(low, now), now - step * reach), max(high, now), now + step * reach)
    if knob.kind == "ladder":
        return [round(min(max(one + number - now, min(low, one)), max(high, one)), 10) for one in before]
    return round(number) if knob.kind == "whole" else round(number, 10)


def _text(asked: str, field: Any) -> str:
    most = next(one.max_length for one in field.metadata if hasattr(one, "max_length"))
    text = " ".join(asked.split())
    return text if len(text) <= most else text[: most + 1].rpartition(" ")[0] or text[:most]
