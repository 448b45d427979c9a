"""Checks every action of a lineage: before it runs, for damage to the sandbox; afterwards, for repetition and lack of
progress. Its remarks reach the model with the action's result. It refuses only what would end or cripple the sandbox:
the sandbox is the security, and a task may require writing anywhere, installing packages or using the network."""

from collections.abc import Sequence
from typing import Literal

from hc_ray.agent.actions import Action
from hc_ray.agent.commands import concerns
from hc_ray.domain.normalisation import normal
from hc_ray.domain.value import Value

Rule = Literal["danger", "repetition", "progress", ""]
_REPEATS, _TOO_MANY = 3, 6
"""How often an action may give the same result before a warning, and before the lineage ends."""
REPEATED = "times with the same result"
_WINDOW = 12
"""The window for repetition in actions, which also finds cycles of two or three."""
_FAILURES = 6
"""Consecutive failed actions that cause a warning."""


class Step(Value):
    """An action that was performed or refused."""

    action: Action
    allowed: bool = True
    rule: Rule = ""
    """The monitor's rule that refused it or warned about it."""
    warning: str = ""
    failed: bool = False
    result: str = ""


class Advice(Value):
    """The monitor's advice, in sentences for the model; empty if there is none."""

    allowed: bool = True
    """False if the action is not performed, or the lineage ends."""
    rule: Rule = ""
    says: str = ""


class Monitor:
    """Judges the actions of one lineage. Pure: the history is passed in. ``home``: a real user's home; a sandbox's
    needs no protection."""

    def __init__(self, workdir: str, home: str = "") -> None:
        self.workdir, self.home = workdir, home

    def check(self, action: Action) -> Advice:
        """Check an action before it runs: whether it is allowed, and warnings."""
        if action.name != "sh":
            return Advice()
        found = concerns(action.body, self.workdir, self.home)
        refused = [says for says, refuse in found.items() if refuse]
        return Advice(allowed=not refused, rule="danger" if found else "", says=" ".join(refused or found))

    def look_back(self, past: Sequence[Step]) -> Advice:
        """Check after an action whether the last ones make progress."""
        last, told = past[-1], normal(past[-1].result)
        same = sum(one.action == last.action and normal(one.result) == told for one in past[-_WINDOW:])
        if same >= _REPEATS:
            says = f"You have done this {same} {REPEATED}. Do something different."
            return Advice(allowed=same < _TOO_MANY, rule="repetition", says=says)
        failures = next((count for count, one in enumerate(reversed(past)) if not one.failed), len(past))
        if failures and failures % _FAILURES == 0:
            says = (
                f"The last {failures} actions failed. Read the error messages again, and look at what is really there."
            )
            return Advice(rule="progress", says=says)
        return Advice()
