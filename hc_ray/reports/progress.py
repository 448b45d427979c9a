"""The state of a running sweep, for the live display and ``status``, gathered from its events: counts, running trials,
speed, time left, and the nodes and engines with their slots."""

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
    PostState,
    SlotUse,
    TestgenProgress,
    TrialComplete,
    TrialStart,
    TurnStart,
    VerdictEvent,
    VerifyComplete,
)
from hc_ray.domain.value import Value

WINDOW = 20.0
"""Seconds over which the token rate is averaged."""
STARTING = "starting engines and sandboxes"
STAGES = {"act": "command", "round": "running tests", "submit": "grading"}
"""Action → a clearer name for the display."""
SLOTS = {"sandbox_slot": "sandboxes", "verifier_slot": "gradings"}


class NodeView(Value):
    """One node, for a reader."""

    node: str
    sandboxes: str
    """Average slots in use over the last account, and the total; empty for a node without slots."""
    gradings: str
    engines: str
    """Engine replicas that are up."""
    note: str
    """What does not work on the node, and why."""


class CrewView:
    """The nodes and engines of a sweep, and how busy they are."""

    def __init__(self) -> None:
        self._posts: dict[tuple[str, str, int], PostState] = {}
        self._slots: dict[tuple[str, str], SlotUse] = {}
        self._engines: dict[str, EngineUse] = {}

    def take(self, event: Event) -> None:
        if isinstance(event, PostState):
            where = event.node if event.kind in SLOTS else ""  # an engine replica may move to another node
            self._posts[event.kind, where, event.number] = event
        elif isinstance(event, SlotUse):
            self._slots[event.kind, event.node] = event
        elif isinstance(event, EngineUse):
            self._engines[event.engine] = event

    @property
    def nodes(self) -> list[NodeView]:
        """The nodes that have or had work, by name."""
        found = sorted({post.node for post in self._posts.values() if post.node})
        return [self._node(node) for node in found]

    def _node(self, node: str) -> NodeView:
        posts = [post for post in self._posts.values() if post.node == node]
        ready = [post.kind for post in posts if post.state == "ready"]
        up = [kind.removeprefix("engine ") for kind in ready if kind.startswith("engine ")]
        several = [f"{up.count(name)} × {name}" if up.count(name) > 1 else name for name in dict.fromkeys(up)]
        ill = dict.fromkeys(
            f"{SLOTS.get(post.kind, post.kind)} {post.state}: {post.why}" for post in posts if post.state != "ready"
        )
        return NodeView(
            node=node, engines=", ".join(several), note="; ".join(ill),
            **{what: self._busy(kind, node) for kind, what in SLOTS.items()},
        )  # fmt: skip

    def _busy(self, kind: str, node: str) -> str:
        post = self._posts.get((kind, node, 0))
        if post is None or post.state != "ready":
            return ""
        use = self._slots.get((kind, node))
        busy = "?" if use is None or not use.seconds else f"{use.busy / use.seconds:.1f}"
        queued = f", {use.queued / use.seconds:.1f} queued" if use and use.seconds and use.queued > 0.05 else ""
        return f"{busy} of {post.slots}{queued}"

    @property
    def engines(self) -> list[str]:
        """One line per engine, from its last account."""
        return [
            f"{name}: {use.busy / use.seconds:.1f} of {use.slots} slots busy, {use.queued / use.seconds:.1f} queued, "
            f"{use.completion_tokens / use.seconds:.0f} answer tokens/s"
            for name, use in sorted(self._engines.items())
            if use.seconds
        ]

    @property
    def queues(self) -> list[str]:
        """One line per kind of slot that commands or gradings are queued for, for displays without a table of nodes."""
        if self.tells:
            return []
        busy = ((what, self._busy(kind, one.node)) for one in self.nodes for kind, what in SLOTS.items())
        return [f"{what}: {told.replace(',', ' slots busy,')}" for what, told in busy if "queued" in told]

    @property
    def tells(self) -> bool:
        """Whether a table of nodes is worth showing: there are several, or something does not work."""
        return len(self.nodes) > 1 or any(post.state != "ready" for post in self._posts.values())


@dataclass
class RunningTrial:
    """One trial between its start and its completion."""

    task: str
    agent: str
    """With its config's name, if it has one."""
    seed: int
    started: float
    stage: str = "start"
    best: float | None = None
    tokens: int = 0
    """As of its last heartbeat."""


class SweepState:
    """A sweep's counts and rates. ``now`` is a monotonic clock in seconds."""

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
        """Trials that an earlier run had finished, which say nothing about this run's speed."""
        self.estimated_seconds = estimated_seconds
        self.passed = self.failed = self.unscored = self.tokens = 0
        self.running: dict[str, RunningTrial] = {}
        self.began = now()
        self.last_heard: float | None = None
        self.step: str | None = STARTING
        """What happens outside the trials: before the first, or after the last, such as the report."""
        self.step_began = self.began
        self.crew = CrewView()
        self._spent: deque[tuple[float, int]] = deque()

    def task_of(self, trial: str) -> str:
        """A trial's label in a line of output: task, agent, seed; its name if it is not running."""
        running = self.running.get(trial)
        if running is None:
            return trial
        return f"{running.task} {running.agent}" + (f" #{running.seed}" if running.seed else "")

    def take(self, event: Event) -> None:
        """Update the state with one event. Events of unknown trials count, but open no row."""
        self.last_heard = self.now()
        self.crew.take(event)
        if isinstance(event, TrialStart):
            self.step = None
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
        """Set the current step, until the next step or trial begins."""
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

    def silence(self) -> float:
        """Seconds since the last event of any kind; 0 before the first."""
        return 0.0 if self.last_heard is None else self.now() - self.last_heard

    def tokens_per_second(self) -> float | None:
        """The rate over the last ``WINDOW`` seconds; None before the first token."""
        if not self.tokens:
            return None
        now = self.now()
        while self._spent and now - self._spent[0][0] > WINDOW:
            self._spent.popleft()
        return sum(count for _, count in self._spent) / max(1.0, min(WINDOW, now - self.began))

    def remaining_seconds(self) -> float | None:
        """Estimated from the pace of this run's finished trials; before there are three, from the plan's estimate
        until it runs out. None if there is neither."""
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
        trial.stage = f"turn {event.turn}/{event.max_turns}" if event.turn else "writing tests"
    elif isinstance(event, Action):
        trial.stage = STAGES.get(event.name, event.name.replace("_", " "))
    elif isinstance(event, VerifyComplete):
        if event.total:
            trial.stage = f"self-tests of {event.candidate}: {event.passing}/{event.total}"
            trial.best = max(trial.best or 0.0, event.progress)
    elif isinstance(event, Heartbeat):
        trial.tokens = event.prompt_tokens + event.completion_tokens
        # An agent without a suite also names a best candidate, with a meaningless progress of 0.
        if event.best is not None and (event.progress or trial.best is not None):
            trial.best = max(trial.best or 0.0, event.progress)
    elif isinstance(event, VerdictEvent):
        trial.stage = "verdict: " + ("pass" if event.passed else "fail")
    elif isinstance(event, ErrorEvent):
        trial.stage = "error"


def arm(agent: str, config: str) -> str:
    """``hc``, or ``hc (wide)`` under a named config, as in a report."""
    return f"{agent} ({config})" if config else agent


def clock(seconds: float) -> str:
    """Format a duration: ``45 s``, ``3 min 10 s``, ``2 h 05 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
