"""Proposals and their decisions. A proposal is stored before its first trial, its decision after its last: a climb is
fully described by its records."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from hc_ray.climb.evaluation import Aggregates
from hc_ray.climb.guardrails import Speaks, turn
from hc_ray.climb.knobs import KNOBS, Knob, Site
from hc_ray.climb.race import Evidence
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.prompt import Malformed
from hc_ray.domain.trial import seed_of
from hc_ray.domain.value import Value

ProposerName = Literal["meta-reasoner", "rules", "tpe", "no change"]
Verdict = Literal["accepted", "reverted", "refused", "undecided"]


class Proposal(Value):
    """One bounded change of the incumbent, or none."""

    proposer: ProposerName
    generation: int
    place: int
    """Its turn within the generation, from 0."""
    parent: str
    """Hash of the incumbent."""
    knob: str | None = None
    """None if the incumbent runs again."""
    before: Any = None
    after: Any = None
    """The value that runs."""
    asked: Any = None
    """The suggested value, before clipping."""
    reach: int = 1
    """The allowed number of guardrail steps."""
    reason: str = ""
    answer: str = ""
    """The model's whole answer."""
    tokens: int = 0
    """Tokens of the model's answer."""
    fault: str = ""
    """Why no trial runs for it."""
    solver: SolverConfig


class Decision(Value):
    """The decision on a proposal."""

    verdict: Verdict
    """``refused``: no trial was run; ``undecided``: the tokens ended first, which reverts it, too."""
    why: str
    evidence: tuple[Evidence, ...] = ()
    """Look after look, of the race and of the confirmation."""
    control: Aggregates = Aggregates()
    """Of the incumbent's trials in this generation."""
    own: Aggregates = Aggregates()
    tokens: int = 0
    """Tokens of the whole climb at the end of this generation."""


class Record(Value):
    """``climb/<generation>-<place>.json``."""

    schema_version: int = 1
    proposal: Proposal
    decision: Decision | None = None

    @property
    def path(self) -> str:
        return f"climb/{self.proposal.generation}-{self.proposal.place}.json"

    @property
    def accepted(self) -> bool:
        return self.decision is not None and self.decision.verdict == "accepted"

    @property
    def confirmed(self) -> bool:
        """Whether it reached a confirmation, whatever its result."""
        return any(one.stage == "confirm" for one in self.decision.evidence) if self.decision else False

    @property
    def worth(self) -> Evidence | None:
        """The deciding evidence; None if there was none."""
        last = self.decision.evidence[-1] if self.decision and self.decision.evidence else None
        return last if last is not None and last.delta is not None else None


class Moment(NamedTuple):
    """A proposer's input at its turn."""

    site: Site
    knobs: Sequence[Knob]
    """Those that live here."""
    aggregates: Aggregates
    """Of the incumbent."""
    history: Sequence[Record]
    """Decided ones, oldest first."""
    generation: int
    place: int
    reach: int
    seed: int
    taken: frozenset[str]
    """Hashes of the configs that others suggest in this generation."""
    speaks: Speaks | None = None

    def seed_for(self, proposer: str) -> int:
        return seed_of("climb", self.seed, proposer, self.generation)

    @property
    def tried(self) -> frozenset[str]:
        """Hashes of the configs that ran against this incumbent or are about to."""
        here = self.site.solver.hash
        return self.taken | {one.proposal.solver.hash for one in self.history if one.proposal.parent == here}


def propose(moment: Moment, proposer: ProposerName, key: str | None, asked: Any, reason: str, **more: Any) -> Proposal:
    """A proposal, clipped; with a ``fault`` where nothing legal is near. ``more``: the model's answer, its tokens."""
    found: dict[str, Any] = {
        "proposer": proposer, "generation": moment.generation, "place": moment.place, "knob": key, "asked": asked,
        "parent": moment.site.solver.hash, "reach": moment.reach, "reason": reason, "solver": moment.site.solver,
    }  # fmt: skip
    if key is not None and key not in {knob.key for knob in moment.knobs}:
        lacks = ", ".join(KNOBS[key].lacks(moment.site)) if key in KNOBS else ""
        more["fault"] = f"{key} has no effect here; it needs: {lacks}" if lacks else f"{key} is no knob of a climb"
    elif key is not None:
        turned = turn(KNOBS[key], asked, moment.site, reach=moment.reach, speaks=moment.speaks)
        if isinstance(turned, Malformed):
            more["fault"] = turned.reason
        else:
            before, after = KNOBS[key].at(moment.site.solver), KNOBS[key].at(turned)
            more |= {"solver": turned, "before": before, "after": after}
    return Proposal(**found | more)
