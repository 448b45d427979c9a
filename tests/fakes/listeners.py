"""Who listens to a sweep or a trial."""

from collections.abc import Callable
from typing import Any


class Watcher:
    """``ports.Events`` that keeps what it hears, and tells ``on`` of it."""

    def __init__(self, on: Callable[[Any], object] = lambda event: None) -> None:
        self.events: list[Any] = []
        self._on = on

    def emit(self, event: Any) -> None:
        self.events.append(event)
        self._on(event)

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]

    def actions(self, name: str) -> list[Any]:
        return [event for event in self.of("action") if event.name == name]
