"""What the sweeps of this folder share: they look at their actors again and again, without long waits between."""

import pytest

from hc_ray_actors.driver import concurrency_window
from hc_ray_actors.driver.crew import posts


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(posts, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(concurrency_window, "KEPT", 0.05)
