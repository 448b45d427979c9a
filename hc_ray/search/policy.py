"""What a search does next: a pure function of its config and of what is known at a barrier. The first rule that holds
decides. A journal keeps every state beside its decision, so that decisions can be replayed."""

from typing import Literal

from hc_ray.domain.config import SolverConfig
from hc_ray.domain.value import Value

ActionName = Literal["continue", "complete", "no_progress", "stop"]
CLEAR = 0.9
"""The posterior share from which a selection is clear."""
AGREED = 3
"""Candidates that must behave alike before a search ends on the word of a model whose own answers are weak."""
AGREED_ALONE = 6
"""As many where the instruction states no answer either: the first ones, asked greedily, often share a mistake."""


class State(Value):
    """A search at a barrier. Only what all candidates up to it, in slot order, have shown."""

    round: int
    """Rounds that are over."""
    turns_left: int
    affordable: int | None = None
    """Answers of the next round that the budget pays for; None before anybody asked."""
    runnable: int = 0
    """Candidates that have a row in the matrix."""
    best: str | None = None
    """The best checkpoint: what would be handed in now."""
    failing: tuple[str, ...] = ()
    """Judging tests that the best fails."""
    confidence: float = 0.0
    """As of ``Selection``."""
    stated: int = 0
    """Tests that know an answer."""
    alike: int = 0
    """Candidates that behave like the best, itself included."""
    rivals: int = 0
    """Candidates that behave otherwise and fail no judging test either."""
    agreement_needed: bool = False
    """The model's expected values are weak: without agreement nothing is complete."""
    idle: int = 0
    """Candidates since the best last got better, or since a new start was made."""


class Decision(Value):
    """What to do next."""

    action: ActionName
    """``no_progress``: all begin anew, without repairs, and some are told what was tried."""
    rule: str
    """The rule that held."""
    samples: int = 0
    """Candidates to ask for next; 0 where the search ends."""


def agreement(stated: int) -> int:
    """How many candidates must behave alike, by the number of known answers."""
    return AGREED if stated else AGREED_ALONE


def _evident(state: State, config: SolverConfig) -> bool:
    """Known answers, or agreement where the model's own answers are weak."""
    if config.selector == "posterior" and state.confidence < CLEAR:
        return False
    # Who fails what judges has no vote on the answer: a form that brings only rubbish would outvote any other.
    if state.agreement_needed and (state.alike < agreement(state.stated) or state.alike <= state.rivals):
        return False
    return state.stated > 0 or state.alike >= 2


def mixed(state: State) -> bool:
    """Whether the signals disagree: something runs, and candidates or tests contradict each other."""
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
