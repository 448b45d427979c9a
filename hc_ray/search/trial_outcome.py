"""What comes out of a trial."""

from collections.abc import Mapping
from typing import Any

from hc_ray.agent.role import Exchange
from hc_ray.domain.candidate import Candidate
from hc_ray.domain.suite import PassMatrix, SelfTest, Suite
from hc_ray.domain.value import Shown, Value
from hc_ray.search.decompose import Subtask
from hc_ray.search.selection import Selection


class TrialOutcome(Value):
    """All that a trial did, short of its verdicts' details."""

    instruction: str
    candidates: tuple[Candidate, ...] = ()
    """In slot order, malformed ones and duplicates included: the pool, for replays that cut it."""
    suite: Suite | None = None
    matrix: PassMatrix | None = None
    """``hc``: candidates × self-tests; ``best_of_n``: candidates × inputs of no suite; duplicates have rows."""
    matrix_tests: tuple[SelfTest, ...] = ()
    """The matrix's columns: the suite's, then those that were written after a verdict; they guide the search alone."""
    selection: Selection | None = None
    """What was handed in last, and why."""
    subtasks: tuple[Subtask, ...] = ()
    """The parts of the work that the solver was told; empty where it was told none."""
    submissions: tuple[str, ...] = ()
    """Digests of what was handed in, in order."""
    bits: tuple[bool, ...] = ()
    """The verdicts, in order; the headline is the first."""
    turns: int = 0
    """Answers of the solver model."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Both with the suite's cost in full, cached or not."""
    shared_tokens: int = 0
    """Of the prompts' tokens those with which the same lineage's previous prompt began: the budget does not count
    them."""
    engine_seconds: float = 0.0
    queued_seconds: float = 0.0
    """In which all that the trial had asked for waited for an engine or a slot."""
    self_pass: bool | None = None
    """Whether the first submission passes every judging test of the suite; None without a suite, or where it was
    handed in before the suite ran on it."""
    progress: float | None = None
    """The weighted share of the suite's judging tests that the first submission passes; None as ``self_pass``."""
    stop_reason: str = ""
    """Why the search ended: ``single sample``, ``complete``, ``tokens``, ``turns``, ``rounds``, ``timeout``."""
    unanswered: int = 0
    """Questions still open when the search ended. No sum includes their tokens."""
    notes: tuple[Shown, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    differences: Mapping[str, bytes] = {}
    """Digest of a candidate's files → its difference from the image, where its files may not be all of it."""

    @property
    def chosen(self) -> str | None:
        """The candidate that was handed in (the last one); None for the untouched workspace."""
        return self.selection.chosen if self.selection else None

    def changed_since(self, earlier: "TrialOutcome") -> dict[str, Any]:
        """The fields that are not as they were: mostly few, and none of the large ones."""
        return {name: mine for name, mine in self if mine != getattr(earlier, name)}
