"""A test decides when a trial's time is over."""

import pytest

from hc_ray.agent.budget import Clock

SOON = 0.01


def ending(monkeypatch: pytest.MonkeyPatch) -> list[Clock]:
    """Clocks that bound some work from now on, in order; one whose ``seconds`` a test sets to 0 is over soon, all
    others never are."""
    met: list[Clock] = []

    def left(clock: Clock) -> float:
        if not any(one is clock for one in met):
            met.append(clock)
        return SOON if clock.seconds else 0.0

    monkeypatch.setattr(Clock, "left", property(left))
    return met
