"""The outcome of a trial."""

from collections.abc import Mapping
from typing import Any

from hc_ray.agent.role import Exchange
from hc_ray.domain.candidate import Candidate
from hc_ray.domain.suite import PassMatrix, SelfTest, Suite
from hc_ray.domain.value import Shown, Value
from hc_ray.search.decompose import Subtask
from hc_ray.search.selection import Selection


class TrialOutcome(Value):
    """Everything that a trial did, without details of its verdicts."""

    instruction: str
    candidates: tuple[Candidate, ...] = ()
    """The pool in slot order, including malformed ones and duplicates, for replays that cut it."""
    suite: Suite | None = None
    matrix: PassMatrix | None = None
    """``hc``: candidates × self-tests; ``best_of_n``: candidates × inputs that are not from a suite; includes rows of
    duplicates."""
    matrix_tests: tuple[SelfTest, ...] = ()
    """The matrix's columns: the suite's, then tests written after a verdict, which only guide the search."""
    selection: Selection | None = None
    """The last submission's selection."""
    subtasks: tuple[Subtask, ...] = ()
    """The subtasks in the solver's prompt; empty if there were none."""
    submissions: tuple[str, ...] = ()
    """Digests of the submissions, in order."""
    bits: tuple[bool, ...] = ()
    """The verdicts, in order; the headline is the first."""
    turns: int = 0
    """Answers of the solver model."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Both include the suite's full cost, cached or not."""
    shared_tokens: int = 0
    """Prompt tokens shared with the same lineage's previous prompt, which the budget does not count."""
    engine_seconds: float = 0.0
    queued_seconds: float = 0.0
    """Seconds in which all pending operations of the trial waited for an engine or a slot."""
    self_pass: bool | None = None
    """Whether the first submission passes every judging test of the suite; None without a suite, or if it was submitted
    before the suite ran on it."""
    progress: float | None = None
    """The weighted share of the suite's judging tests that the first submission passes; None like ``self_pass``."""
    stop_reason: str = ""
    """Why the search ended: ``single sample``, ``complete``, ``tokens``, ``turns``, ``rounds``, ``timeout``."""
    unanswered: int = 0
    """Questions still open when the search ended. No sum includes their tokens."""
    notes: tuple[Shown, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    differences: Mapping[str, bytes] = {}
    """Digest of a candidate's files → its difference to the image, if its files may not be all of it."""

    @property
    def chosen(self) -> str | None:
        """The last submitted candidate; None for the untouched workspace."""
        return self.selection.chosen if self.selection else None

    def changed_since(self, earlier: "TrialOutcome") -> dict[str, Any]:
        """The changed fields: usually few, and none of the large ones."""
        return {name: mine for name, mine in self if mine != getattr(earlier, name)}
