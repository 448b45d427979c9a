"""Looks at every action of a lineage: before it is done for what would end the sandbox, afterwards for repetition and
for lack of progress. Its words reach the model with the action's result. It refuses only what would end or cripple the
sandbox: the sandbox is the security, and to write anywhere, to install packages, to use the network may be the task."""

from collections.abc import Sequence
from typing import Literal

from hc_ray.agent.actions import Action
from hc_ray.agent.commands import concerns
from hc_ray.domain.normalisation import normal
from hc_ray.domain.value import Value

Rule = Literal["danger", "repetition", "progress", ""]
_REPEATS, _TOO_MANY = 3, 6
"""Times that one action may come to the same result before a warning, and before the lineage ends."""
REPEATED = "times with the same result"
_WINDOW = 12
"""Actions among which repetition is looked for: also of two or three in turn."""
_FAILURES = 6
"""Failed actions in a row, from which a warning is due."""


class Step(Value):
    """An action that was done, or refused."""

    action: Action
    allowed: bool = True
    rule: Rule = ""
    """The monitor's rule that refused it or warned of it."""
    warning: str = ""
    failed: bool = False
    result: str = ""


class Advice(Value):
    """What the monitor says, in sentences for the model; nothing where there is nothing to say."""

    allowed: bool = True
    """False: the action is not done, or the lineage ends."""
    rule: Rule = ""
    says: str = ""


class Monitor:
    """Judges the actions of one lineage. Pure: the past is given. ``home``: a user's, on a machine that is theirs; the
    home of a sandbox needs no care."""

    def __init__(self, workdir: str, home: str = "") -> None:
        self.workdir, self.home = workdir, home

    def check(self, action: Action) -> Advice:
        """Before an action is done: whether it may be, and what to mind."""
        if action.name != "sh":
            return Advice()
        found = concerns(action.body, self.workdir, self.home)
        refused = [says for says, refuse in found.items() if refuse]
        return Advice(allowed=not refused, rule="danger" if found else "", says=" ".join(refused or found))

    def look_back(self, past: Sequence[Step]) -> Advice:
        """After an action: whether the last ones lead anywhere."""
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
