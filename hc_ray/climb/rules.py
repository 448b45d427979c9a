"""The proposer where no model answers: what the incumbent's aggregates suggest, first line of the table first; then
whatever has not been tried from here, in an order that the climb's seed shuffles."""

import random
from typing import Any

from hc_ray.climb.guardrails import neighbours
from hc_ray.climb.proposals import Moment, Proposal, propose

MANY = 0.3
"""A rule applies from this share of trials or candidates."""
RULES = (
    ("duplicates", "solver.temperatures", True, "many candidates repeat others: more variety"),
    ("malformed", "solver.temperatures", False, "many answers cannot be read: less variety"),
    ("weak_suite", "solver.testgen.rounds", True, "many suites are weak: one more round of tests"),
    ("self alone", "solver.testgen.tests_per_category_max", True, "self-tests pass where the real ones fail: more"),
    ("real alone", "solver.repairs", False, "self-tests fail where the real ones pass: fewer repairs after them"),
    ("ended by turns", "solver.max_turns", True, "many searches end at their turns: more of them"),
    ("ended by tokens", "solver.samples", False, "many searches end at their tokens: narrower rounds"),
)
"""Which share is high, which knob it turns, whether up, and why."""


def suggest(moment: Moment, note: str = "", **more: Any) -> Proposal:
    """``note``: why rules speak in a model's stead; ``more``: its answer and tokens."""
    tried, end, seen = moment.tried, f" ({note})" if note else "", moment.aggregates
    real = seen.pass_rate or 0.0
    apart = seen.means.get("self_pass", real) - real
    shares = {**seen.means, "self alone": apart, "real alone": -apart}
    left = [(knob, one) for knob in moment.knobs for one in neighbours(knob, moment.site, moment.reach)
            if one.hash not in tried]  # fmt: skip
    for share, key, up, why in RULES:
        for knob, one in left:
            if knob.key == key and shares.get(share, 0.0) >= MANY:
                before, after = (knob.place(knob.at(solver)) for solver in (moment.site.solver, one))
                if (after > before) == up:
                    return propose(moment, "rules", key, knob.at(one), why + end, **more)
    if not left:
        return propose(moment, "rules", None, None, note, **more, fault="every change within reach was tried")
    # One order for the whole climb, so that each generation continues where the last one stopped.
    knob, one = min(left, key=lambda each: random.Random(f"{moment.seed} {each[1].hash}").random())
    return propose(moment, "rules", knob.key, knob.at(one), f"not tried from here yet{end}", **more)
