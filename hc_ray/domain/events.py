"""Typed events of a sweep: one stream shared by display, journal and metrics.

Nothing in an event derives from hidden tests, except ``verdict.passed``."""

from typing import Annotated, Any, Literal

from pydantic import Field

from hc_ray.domain.value import Shown, Value


class _Event(Value):
    trial: str = ""
    """The trial's name (``<task>__<key8>``); empty for the sweep itself."""
    at: float = 0.0
    """Seconds since the epoch, set by the recorder."""


class TrialStart(_Event):
    type: Literal["trial_start"] = "trial_start"
    task: str
    agent: str
    seed: int
    config: str = ""
    """The config's name; empty if the sweep has only one config."""


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
    """An action or decision of the trial, with its inputs, from which the journal can be replayed."""

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
"""What a free engine slot waits for: trials that run tests or commands, trials that wait for a verdict, or hc-ray's own
decisions; more requests, if every trial has one with an engine; or trials, if there are none."""


class EngineUse(_Event):
    """Use of an engine's slots during the last ``seconds``, and the tokens of its answers."""

    type: Literal["engine_use"] = "engine_use"
    engine: str
    slots: int
    seconds: float
    busy: float
    """Slot-seconds with a request."""
    queued: float
    """Request-seconds spent waiting for a slot."""
    waited: dict[Waited, float] = {}
    """Cause → free slot-seconds."""
    requests: int
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens that the server reports as cached."""
    completion_tokens: int
    reused: int = 0
    """Requests that did not reach the engine because each reused the answer to an equal one."""
    reused_tokens: int = 0
    """Prompt and completion tokens of these, which no count above includes."""
    across: tuple[tuple[float, float, int, int], ...] = ()
    """Answers counted here whose requests began earlier: (arrival in seconds before the end of this period, duration,
    uncached prompt tokens, completion tokens)."""


class PostState(_Event):
    """An actor of the sweep started work, rests after a fault, or is gone."""

    type: Literal["post_state"] = "post_state"
    kind: str
    """``sandbox_slot``, ``verifier_slot``, ``trials`` or ``engine NAME``."""
    node: str
    """The host's name."""
    state: Literal["starting", "ready", "resting", "spent", "gone"]
    number: int = 0
    """Index of an engine's replica, from 0."""
    slots: int = 0
    why: str = ""


class SlotUse(_Event):
    """Use of a node's slots during the last ``seconds``."""

    type: Literal["slot_use"] = "slot_use"
    kind: str
    """``sandbox_slot`` or ``verifier_slot``."""
    node: str
    seconds: float
    busy: float
    """Slot-seconds in use."""
    queued: float
    """Seconds that commands or gradings spent waiting for a slot."""


OWN = ("driver", "actor ")
"""Prefix of the kinds of hc-ray's own processes."""
RAY_INSIDE = "Ray within hc-ray's processes"
"""CPU use of Ray's own threads in the driver and in actors. Most of it is polling for signals, a hundred times a second
in each actor's otherwise idle first thread (``CoreWorker::RunTaskExecutionLoop``)."""


class ProcessorUse(_Event):
    """CPU seconds on the driver's machine during the last ``seconds``, by kind of process."""

    type: Literal["processor_use"] = "processor_use"
    seconds: float
    cores: int
    used: dict[str, float]


Event = Annotated[
    TrialStart | TestgenProgress | TurnStart | Action | VerifyComplete | Heartbeat | VerdictEvent
    | TrialComplete | ErrorEvent | EngineUse | PostState | SlotUse | ProcessorUse,
    Field(discriminator="type"),
]  # fmt: skip
