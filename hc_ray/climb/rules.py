"""The proposer where no model answers: what the incumbent's aggregates suggest, first line of the table first; then
whatever has not been tried from here, in an order that the climb's seed shuffles."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from hc_ray.climb.evaluation import Aggregates
from hc_ray.climb.guardrails import coordinate, neighbours
from hc_ray.climb.proposals import Moment, Proposal, propose

MANY = 0.3
"""From this share of trials or candidates on a rule holds."""


class Rule(NamedTuple):
    """A line of the table."""

    why: str
    holds: Callable[[Aggregates], bool]
    key: str
    up: bool


def _apart(seen: Aggregates) -> float:
    """How much more often the self-tests pass than the real ones."""
    return seen.means.get("self_pass", seen.pass_rate or 0.0) - (seen.pass_rate or 0.0)


RULES: tuple[Rule, ...] = (
    Rule("many candidates repeat others: more variety", lambda seen: seen.means.get("duplicates", 0) >= MANY,
         "solver.temperatures", True),
    Rule("many answers cannot be read: less variety", lambda seen: seen.means.get("malformed", 0) >= MANY,
         "solver.temperatures", False),
    Rule("many suites are weak: one more round of tests", lambda seen: seen.means.get("weak_suite", 0) >= MANY,
         "solver.testgen.rounds", True),
    Rule("self-tests pass where the real ones fail: more of each kind", lambda seen: _apart(seen) >= MANY,
         "solver.testgen.tests_per_category_max", True),
    Rule("self-tests fail where the real ones pass: fewer repairs after them", lambda seen: _apart(seen) <= -MANY,
         "solver.repairs", False),
    Rule("many searches end at their turns: more of them", lambda seen: seen.stops.get("turns", 0) >= MANY,
         "solver.max_turns", True),
    Rule("many searches end at their tokens: narrower rounds", lambda seen: seen.stops.get("tokens", 0) >= MANY,
         "solver.samples", False),
)  # fmt: skip


def suggest(moment: Moment, note: str = "", **more: Any) -> Proposal:
    """``note``: why rules speak in a model's stead; ``more``: its answer and tokens."""
    tried, end = moment.tried, f" ({note})" if note else ""
    left = [(knob, one) for knob in moment.knobs for one in neighbours(knob, moment.site, moment.reach)
            if one.solver.hash not in tried]  # fmt: skip
    for rule in RULES:
        for knob, one in left:
            up = knob.key == rule.key and coordinate(knob, one.after) > coordinate(knob, one.before)
            if knob.key == rule.key and up == rule.up and rule.holds(moment.aggregates):
                return propose(moment, "rules", knob.key, one.after, rule.why + end, **more)
    if not left:
        return propose(moment, "rules", None, None, note, **more, fault="every change within reach was tried")
    # One order for the whole climb, so that a later generation goes on where this one stood.
    knob, one = min(left, key=lambda each: random.Random(f"{moment.seed} {each[0].key} {each[1].after}").random())
    return propose(moment, "rules", knob.key, one.after, f"not tried from here yet{end}", **more)
