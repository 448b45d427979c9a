"""Typed events of a sweep: one stream that the display, the journal and the metrics share.

Nothing in an event derives from hidden tests, except ``verdict.passed``."""

from typing import Annotated, Any, Literal

from pydantic import Field

from hc_ray.domain.value import Shown, Value


class _Event(Value):
    trial: str = ""
    """The trial's name (``<task>__<key8>``); empty for the sweep itself."""
    at: float = 0.0
    """Seconds since the epoch, set by whoever records it."""


class TrialStart(_Event):
    type: Literal["trial_start"] = "trial_start"
    task: str
    agent: str
    seed: int
    config: str = ""
    """The config's name; empty for the only one of a sweep."""


class TestgenProgress(_Event):
    __test__ = False
    type: Literal["testgen_progress"] = "testgen_progress"
    category: str
    generated: int
    admitted: int | None = None


class TurnStart(_Event):
    type: Literal["turn_start"] = "turn_start"
    turn: int
    max_turns: int
    subtask: str = ""


class Action(_Event):
    """Something the trial did or decided, with what it decided on: the journal replays from these."""

    type: Literal["action"] = "action"
    name: str
    detail: dict[str, Any] = {}


class VerifyComplete(_Event):
    type: Literal["verify_complete"] = "verify_complete"
    candidate: str
    passing: int
    total: int
    progress: float


class Heartbeat(_Event):
    type: Literal["heartbeat"] = "heartbeat"
    turn: int
    max_turns: int
    progress: float
    best: str | None = None
    elapsed_ms: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class VerdictEvent(_Event):
    type: Literal["verdict"] = "verdict"
    passed: bool


class TrialComplete(_Event):
    type: Literal["trial_complete"] = "trial_complete"
    passed: bool | None
    progress: float | None = None
    score: float | None = None


class ErrorEvent(_Event):
    type: Literal["error"] = "error"
    text: Shown
    cause: str = ""


Waited = Literal["sandbox", "verdict", "decision", "requests", "trials"]
"""What a free slot of an engine waits for: trials that run tests or commands, trials that wait for a verdict, hc-ray's
own decisions; for more requests, where every trial has one with an engine; for trials, where there are none."""


class EngineUse(_Event):
    """What became of an engine's slots during the last ``seconds``, and what it answered."""

    type: Literal["engine_use"] = "engine_use"
    engine: str
    slots: int
    seconds: float
    busy: float
    """Seconds of slots with a request."""
    queued: float
    """Seconds of requests that waited for a slot."""
    waited: dict[Waited, float] = {}
    """Seconds of free slots, by what they waited for."""
    requests: int
    prompt_tokens: int
    cached_tokens: int
    """Of the prompts' tokens those that the server says it had in its cache."""
    completion_tokens: int
    reused: int = 0
    """Requests of trials that did not reach the engine: each got the answer to an earlier one that was equal."""
    reused_tokens: int = 0
    """Tokens of their prompts and answers, in none of the counts above."""
    across: tuple[tuple[float, float, int, int], ...] = ()
    """Of the answers counted here those that began earlier: how many seconds before the end of this time they came, how
    many they took, tokens of their prompts beyond the cache, and their own."""


class PostState(_Event):
    """An actor of the sweep was put to work, rests after a fault, or is gone."""

    type: Literal["post_state"] = "post_state"
    kind: str
    """``sandbox_slot``, ``verifier_slot``, ``trials`` or ``engine NAME``."""
    node: str
    """The host's name."""
    state: Literal["starting", "ready", "resting", "spent", "gone"]
    number: int = 0
    """Of an engine's replicas, from 0."""
    slots: int = 0
    why: str = ""


class SlotUse(_Event):
    """What became of a node's slots during the last ``seconds``."""

    type: Literal["slot_use"] = "slot_use"
    kind: str
    """``sandbox_slot`` or ``verifier_slot``."""
    node: str
    seconds: float
    busy: float
    """Seconds of slots in use."""
    queued: float
    """Seconds of commands or gradings that waited for a slot."""


OWN = ("driver", "actor ")
"""Kinds of processes that are hc-ray's own begin like this."""
RAY_INSIDE = "Ray within hc-ray's processes"
"""What Ray's own threads use in the driver and in actors. Most of it is its look for signals, a hundred times a second
in each actor's first thread, in which nothing else runs once it is there (``CoreWorker::RunTaskExecutionLoop``)."""


class ProcessorUse(_Event):
    """Processor seconds of the driver's machine during the last ``seconds``, by what its processes are."""

    type: Literal["processor_use"] = "processor_use"
    seconds: float
    cores: int
    used: dict[str, float]


Event = Annotated[
    TrialStart | TestgenProgress | TurnStart | Action | VerifyComplete | Heartbeat | VerdictEvent
    | TrialComplete | ErrorEvent | EngineUse | PostState | SlotUse | ProcessorUse,
    Field(discriminator="type"),
]  # fmt: skip
