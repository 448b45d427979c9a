"""The climb: generation after generation, every proposer suggests one bounded change of the incumbent; all of them race
against it, and the best that is confirmed is the next incumbent. Everything else is reverted. What happens next is a
function of the declaration and the stored records alone, so a killed climb goes on where it was."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from hc_ray.agent.prompt_templates import template
from hc_ray.climb import meta_reasoner, rules, tpe
from hc_ray.climb.evaluation import Aggregates, Evaluator
from hc_ray.climb.generation import Generation
from hc_ray.climb.guardrails import Speaks
from hc_ray.climb.knobs import Site, live
from hc_ray.climb.proposals import Moment, Proposal, Record, propose
from hc_ray.climb.race import ClimbConfig
from hc_ray.domain.errors import OutputError
from hc_ray.domain.ports import Store
from hc_ray.domain.value import digest_of, readable_json

PROPOSERS = 3
"""Proposers per generation: the meta-reasoner (or the rules), TPE, no change."""
DECLARED = "climb/declared.json"
_FARTHEST = 3
"""The most guardrail steps of a change after long stagnation."""


class Climb:
    """One climb over one set of tasks."""

    def __init__(
        self, start: Site, tasks: Sequence[str], config: ClimbConfig, *, evaluator: Evaluator, store: Store,
        ask: meta_reasoner.Ask | None = None, speaks: Speaks | None = None, learned_from: Collection[str] = (),
        tell: Callable[[Record], None] = lambda record: None,
    ) -> None:  # fmt: skip
        """``ask``: the meta-reasoner's engine; None: the rules propose. ``speaks``: the vocabulary that hints must not
        use. ``learned_from``: the tasks that installed skills were learned from. ``tell`` hears every proposal and
        every decision as soon as it is made. Raises ``OutputError`` where the store holds another climb."""
        self.site, self.tasks, self.config = start, tuple(sorted(tasks)), config
        """``site``: the incumbent."""
        self._evaluator, self._store, self._ask = evaluator, store, ask
        self._speaks, self._tell, self._learned_from = speaks, tell, frozenset(learned_from)
        self.history: list[Record] = []
        """Decided proposals; the accepted ones are the path to the incumbent, those of no change false alarms."""
        self.tokens = 0
        """Tokens spent so far."""
        self._aggregates: Aggregates | None = None
        self._stagnant = self.failed = 0
        """Generations, and confirmations, since the incumbent last changed; an accepted “no change” is none."""
        terms: dict[str, Any] = {"config": config.model_dump(mode="json"), "start": start.model_dump(mode="json"),
                                 "tasks": digest_of(list(self.tasks))}  # fmt: skip
        if learned_from:
            terms["learned_from"] = sorted(self._learned_from)
        if ask:
            terms["meta_prompt"] = template("meta")
        declared = readable_json(terms)
        if store.exists(DECLARED) and store.read(DECLARED) != declared:
            raise OutputError(
                f"{DECLARED} was declared with another start, tasks, skills, prompt or terms; choose another -o"
            )
        store.write(DECLARED, declared)

    def run(self) -> None:
        """Climb until the declared generations or tokens are used up."""
        paths = [path for path in self._store.list("climb") if path != DECLARED]
        stored = {path: Record.model_validate_json(self._store.read(path)) for path in paths}
        for number in range(1, self.config.generations + 1):
            if self.ended_by != "generations":
                return
            known = [stored[path] for place in range(PROPOSERS) if (path := f"climb/{number}-{place}.json") in stored]
            if len(known) < PROPOSERS or any(one.decision is None for one in known):
                known = self._generation(number, [one.proposal for one in known])
            self._learn(known)

    @property
    def ended_by(self) -> str:
        """The limit that ended the climb."""
        if self.tokens >= self.config.tokens:
            return "tokens"
        return "confirmations" if self.failed >= self.config.confirmations else "generations"

    def _learn(self, records: Sequence[Record]) -> None:
        """Apply a decided generation."""
        self.history += records
        self._stagnant += 1
        moved = any(one.accepted and one.proposal.knob for one in records)
        self.failed = 0 if moved else self.failed + sum(one.confirmed for one in records)
        for one in records:
            assert one.decision is not None
            self.tokens, self._aggregates = one.decision.tokens, one.decision.control
        for one in records:
            if one.accepted and one.proposal.knob and one.decision is not None:
                self._stagnant, self._aggregates = 0, one.decision.own
                self.site = self.site.model_copy(update={"solver": one.proposal.solver})

    def _generation(self, number: int, proposals: list[Proposal]) -> list[Record]:
        """``proposals``: those already stored."""
        trials = Generation(number, self.site, self.tasks, self.config, self._evaluator,
                            spent=self.tokens, failed=self.failed, learned_from=self._learned_from,
                            tell=self._tell)  # fmt: skip
        if self._aggregates is None:
            trials.baseline()
            self._aggregates = trials.aggregates()
        for place in range(len(proposals), PROPOSERS):
            proposals.append(self._proposal(number, place, proposals))
            record = Record(proposal=proposals[-1])
            self._store.write(record.path, readable_json(record))
            self._tell(record)
        decisions = trials.decide(proposals)
        records = [Record(proposal=one, decision=made) for one, made in zip(proposals, decisions, strict=True)]
        for record in records:
            self._store.write(record.path, readable_json(record))
        return records

    def _proposal(self, number: int, place: int, others: Sequence[Proposal]) -> Proposal:
        moment = Moment(
            site=self.site, knobs=live(self.site), aggregates=self._aggregates or Aggregates(), history=self.history,
            generation=number, place=place, reach=min(_FARTHEST, 1 + self._stagnant // self.config.patience),
            seed=self.config.seed, taken=frozenset(one.solver.hash for one in others if one.knob), speaks=self._speaks,
        )  # fmt: skip
        turn = (place + number) % PROPOSERS  # who comes first has the choice: it rotates
        if turn == 0:
            return meta_reasoner.suggest(moment, self._ask) if self._ask else rules.suggest(moment)
        if turn == 1:
            return tpe.suggest(moment)
        return propose(moment, "no change", None, None, "whatever it wins is luck")
