"""What a display knows of a running sweep, gathered from its events: counts, running trials, speed and time left."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from hc_ray.domain.events import (
    Action,
    EngineUse,
    ErrorEvent,
    Event,
    Heartbeat,
    TestgenProgress,
    TrialComplete,
    TrialStart,
    TurnStart,
    VerdictEvent,
    VerifyComplete,
)
from hc_ray.reports.crew_view import CrewView

WINDOW = 20.0
"""Seconds over which the token rate is taken."""


@dataclass
class RunningTrial:
    """One trial between its start and its completion."""

    task: str
    agent: str
    """With its config's name, where it has one."""
    seed: int
    started: float
    stage: str = "start"
    best: float | None = None
    tokens: int = 0
    """By its last heartbeat."""


class SweepState:
    """Counts and rates. ``now`` is a monotonic clock in seconds."""

    def __init__(
        self,
        *,
        total: int,
        done: int = 0,
        estimated_seconds: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total, self.done, self.now = total, done, now
        self.found_done = done
        """Trials that an earlier run had finished: they say nothing about this run's speed."""
        self.estimated_seconds = estimated_seconds
        self.passed = self.failed = self.unscored = self.tokens = 0
        self.running: dict[str, RunningTrial] = {}
        self.began = now()
        self.last_heard: float | None = None
        self.step: str | None = None
        """What is done beside the trials: after the last one, the report and the like."""
        self.step_began = self.began
        self.crew = CrewView()
        self._spent: deque[tuple[float, int]] = deque()

    def task_of(self, trial: str) -> str:
        """A trial's label in a line of output: task, agent, seed; its name where it is not running."""
        running = self.running.get(trial)
        if running is None:
            return trial
        return f"{running.task} {running.agent}" + (f" #{running.seed}" if running.seed else "")

    def take(self, event: Event) -> None:
        """Move the picture on by one event. Events of unknown trials count, but open no row."""
        self.last_heard = self.now()
        self.crew.take(event)
        if isinstance(event, TrialStart):
            self.running[event.trial] = RunningTrial(event.task, arm(event.agent, event.config), event.seed, self.now())
            return
        if isinstance(event, TrialComplete):
            self._complete(event)
            return
        if isinstance(event, EngineUse):
            self._count(event.prompt_tokens + event.completion_tokens)
        elif (trial := self.running.get(event.trial)) is not None:
            _advance(trial, event)

    def begin_step(self, step: str) -> None:
        """From now on this is done, until the next step or event."""
        self.step, self.step_began = step, self.now()

    def _count(self, tokens: int) -> None:
        self.tokens += tokens
        if tokens:
            self._spent.append((self.now(), tokens))

    def _complete(self, event: TrialComplete) -> None:
        self.running.pop(event.trial, None)
        self.done += 1
        if event.passed is None:
            self.unscored += 1
        elif event.passed:
            self.passed += 1
        else:
            self.failed += 1

    def elapsed(self) -> float:
        return self.now() - self.began

    def silence(self) -> float | None:
        """Seconds since the last event of any kind; None before the first."""
        return None if self.last_heard is None else self.now() - self.last_heard

    def tokens_per_second(self) -> float | None:
        """Over the last ``WINDOW`` seconds; None before the first token."""
        if not self.tokens:
            return None
        now = self.now()
        while self._spent and now - self._spent[0][0] > WINDOW:
            self._spent.popleft()
        return sum(count for _, count in self._spent) / max(1.0, min(WINDOW, now - self.began))

    def remaining_seconds(self) -> float | None:
        """By the pace of this run's finished trials; by the plan's estimate until there are three of them, as long as
        it lasts. None where neither says anything."""
        finished = self.done - self.found_done
        if self.done >= self.total:
            return 0.0
        planned = (self.estimated_seconds or 0.0) - self.elapsed()
        if finished < 3 and planned > 0:
            return planned
        return self.elapsed() / finished * (self.total - self.done) if finished else None


def _advance(trial: RunningTrial, event: Event) -> None:
    if isinstance(event, TestgenProgress):
        admitted = "" if event.admitted is None else f", {event.admitted} admitted"
        trial.stage = f"tests: {event.category} {event.generated}{admitted}"
    elif isinstance(event, TurnStart):
        trial.stage = f"turn {event.turn}/{event.max_turns}" + (f" {event.subtask}" if event.subtask else "")
    elif isinstance(event, Action):
        trial.stage = event.name.replace("_", " ")
    elif isinstance(event, VerifyComplete):
        trial.stage = f"verified {event.candidate}: {event.passing}/{event.total}"
        if event.total:
            trial.best = max(trial.best or 0.0, event.progress)
    elif isinstance(event, Heartbeat):
        trial.tokens = event.prompt_tokens + event.completion_tokens
        # An agent without a suite names a best candidate too, with a progress of 0 that no test stands behind.
        if event.best is not None and (event.progress or trial.best is not None):
            trial.best = max(trial.best or 0.0, event.progress)
    elif isinstance(event, VerdictEvent):
        trial.stage = "verdict: " + ("pass" if event.passed else "fail")
    elif isinstance(event, ErrorEvent):
        trial.stage = "error"


def arm(agent: str, config: str) -> str:
    """``hc``, or ``hc (wide)`` under a config with a name, as in a report."""
    return f"{agent} ({config})" if config else agent


def counted(count: int, noun: str) -> str:
    """``1 trial``, ``3 trials``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def clock(seconds: float) -> str:
    """``45 s``, ``3 min 10 s``, ``2 h 05 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
