"""Decides what a search does next: a pure function of its config and its state between two rounds. The first rule that
applies decides. The journal records every state with its decision, so that decisions can be replayed."""

from typing import Literal

from hc_ray.domain.config import SolverConfig
from hc_ray.domain.value import Value

ActionName = Literal["continue", "complete", "no_progress", "stop"]
CLEAR = 0.9
"""The least posterior share of a clear selection."""
AGREED = 3
"""Candidates that must behave alike before a search is complete, if the model predicts expected values poorly."""
AGREED_ALONE = 6
"""The same if the instruction states no answer either: the first candidates, sampled greedily, often share a
mistake."""


class State(Value):
    """A search between two rounds: only what all its candidates so far, in slot order, have shown."""

    round: int
    """Finished rounds."""
    turns_left: int
    affordable: int | None = None
    """Answers of the next round that the budget can pay for; None if not yet computed."""
    runnable: int = 0
    """Candidates with a row in the matrix."""
    best: str | None = None
    """The best checkpoint, which would be submitted now."""
    failing: tuple[str, ...] = ()
    """Judging tests that the best fails."""
    confidence: float = 0.0
    """See ``Selection``."""
    stated: int = 0
    """Tests whose answer the instruction states."""
    alike: int = 0
    """Candidates that behave like the best, including itself."""
    rivals: int = 0
    """Candidates that behave differently but fail no judging test either."""
    agreement_needed: bool = False
    """Whether completion needs agreement, because the model predicts expected values poorly."""
    idle: int = 0
    """Candidates since the best last improved, or since a restart."""


class Decision(Value):
    """What to do next."""

    action: ActionName
    """``no_progress``: restart without repairs, and tell some candidates what was tried."""
    rule: str
    """The rule that applied."""
    samples: int = 0
    """Candidates to ask for next; 0 if the search ends."""


def agreement(stated: int) -> int:
    """How many candidates must behave alike, given the number of stated answers."""
    return AGREED if stated else AGREED_ALONE


def _evident(state: State, config: SolverConfig) -> bool:
    """Whether there is evidence: stated answers, or agreement if that is needed."""
    if config.selector == "posterior" and state.confidence < CLEAR:
        return False
    # Candidates that fail a judging test have no vote: a prompt format that yields only rubbish would win.
    if state.agreement_needed and (state.alike < agreement(state.stated) or state.alike <= state.rivals):
        return False
    return state.stated > 0 or state.alike >= 2


def mixed(state: State) -> bool:
    """Whether signals are mixed: something runs, but candidates or tests contradict each other."""
    return state.runnable > 1 and (state.confidence < CLEAR or state.alike * 2 <= state.runnable)


def decide(state: State, config: SolverConfig) -> Decision:
    """What to do next."""
    if state.best is not None and not state.failing and _evident(state, config):
        return Decision(action="complete", rule="complete")
    if state.turns_left <= 0:
        return Decision(action="stop", rule="turns")
    if state.affordable == 0:
        return Decision(action="stop", rule="tokens")
    if state.round >= config.max_rounds:
        return Decision(action="stop", rule="rounds")
    samples = max(config.samples, config.samples_max) if mixed(state) else config.samples
    if state.round > 0 and state.idle >= config.patience:
        return Decision(action="no_progress", rule="stagnation", samples=samples)
    return Decision(action="continue", rule="go on", samples=samples)
