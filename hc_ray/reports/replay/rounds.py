"""Searches of the style ``loop``, decided again round by round by the same functions. Model answers come from the
journal: the tests that lineages disputed, and the state that won a comparison, which wins again whenever it is among
the states compared."""

from collections.abc import Mapping, Sequence
from typing import Any

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.config import SelectorName
from hc_ray.domain.journal import events_of
from hc_ray.domain.ports import Store
from hc_ray.domain.suite import PassMatrix, SelfTest
from hc_ray.domain.value import Value
from hc_ray.search.loop_agents import DISPUTED, doubted
from hc_ray.search.pool import Pool
from hc_ray.search.selection import deciding


class Round(Value):
    """The result of one round of lineages."""

    number: int
    disputed: tuple[str, ...] = ()
    picked: tuple[str | None, ...] = ()
    """The choice by suite or agreement, then by comparison; empty for an unfinished round."""


def read_rounds(store: Store) -> dict[str, list[Round]]:
    """Trial → its rounds; for a restarted trial, those of the last attempt."""
    found: dict[str, list[Round]] = {}
    for event in events_of(store, b'"trial_start"', b'"round"', b'"dispute"', b'"select"'):
        rounds, detail = found.setdefault(event["trial"], []), event.get("detail", {})
        told: dict[str, Any] = {}
        if event["type"] == "trial_start":
            rounds.clear()
        elif event.get("name") == "round":
            rounds.append(Round(number=detail["number"]))
        elif event.get("name") == "dispute":
            told = {"disputed": tuple(detail["tests"])}
        elif event.get("name") == "select" and rounds:
            told = {"picked": (*rounds[-1].picked, detail["chosen"])}
        if told and rounds:
            rounds[-1] = rounds[-1].model_copy(update=told)
    return found


def first_weights(tests: Sequence[SelfTest], rounds: Sequence[Round]) -> tuple[SelfTest, ...]:
    """The tests with their weights before any dispute."""
    doubts = [name for one in rounds for name in one.disputed]
    return tuple(one.model_copy(update={"weight": one.weight / DISPUTED ** doubts.count(one.id)}) for one in tests)


def decided(
    candidates: Sequence[Candidate], matrix: PassMatrix | None, tests: Sequence[SelfTest], rounds: Sequence[Round],
    selector: SelectorName, winners: Mapping[int, str],
) -> str | None:  # fmt: skip
    """The candidate that ``hc`` would submit. ``winners``: round → digest of the state that won its comparison."""
    so_far, held = Pool(), None
    so_far.tests = tuple(tests)
    for i, one in enumerate(rounds):
        so_far.candidates = [made for made in candidates if made.round <= one.number]
        ran = {made.id for made in so_far.candidates} & set(matrix.candidates if matrix else ())
        so_far.rows = {name: matrix.row(name) for name in ran} if matrix else {}
        so_far.tests = doubted(so_far.tests, one.disputed)
        if one.picked:
            picked, level = so_far.standing(selector, held)
            won = next((made.id for made in level if len(level) > 1 and made.digest == winners.get(one.number)), None)
            held = picked.model_copy(update={"chosen": won or picked.chosen})
            if so_far.complete(held.chosen) or (i and not deciding(so_far.tests)):
                break
    if held is None or held.chosen is None:
        held = so_far.unselected(selector)
    return held.chosen if held else None
