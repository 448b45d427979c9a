"""One generation: its changes race against the incumbent, look by look, and a leading one is confirmed with both arms
on fresh seeds. The evaluator runs the trials; everything else here is counting."""

from collections.abc import Callable, Mapping, Sequence, Set

from hc_ray.climb.evaluation import Aggregates, Cell, Evaluator, Outcome, Stage, aggregate
from hc_ray.climb.knobs import Site
from hc_ray.climb.proposals import Decision, Proposal, Record, Verdict
from hc_ray.climb.race import ClimbConfig, Evidence, Standing, standing, weigh
from hc_ray.domain.trial import seed_of

CONTROL, SKILLS = "control", "solver.use_skills"
SEEDS, CONFIRM, OWN = 1000, 500, 250
"""Trials' seeds of a generation; from where on they are the confirmation's, and of each half those of no change."""


class Generation:
    """The trials and decisions of one generation."""

    def __init__(
        self, number: int, site: Site, tasks: tuple[str, ...], config: ClimbConfig, evaluator: Evaluator, *,
        spent: int, failed: int = 0, learned_from: Set[str] = frozenset(),
        tell: Callable[[Record], None] = lambda record: None,
    ) -> None:  # fmt: skip
        """``spent``: what the climb has cost so far; ``failed``: confirmations since its incumbent changed;
        ``learned_from``: tasks on which no change of ``use_skills`` is judged; ``tell`` hears each decision as soon as
        it is made, without what is known at the end of the generation only."""
        self.number, self.site, self.tasks, self.config, self._evaluator = number, site, tasks, config, evaluator
        self.tokens, self._failed, self._learned = spent, failed, set(tasks) & learned_from
        self._outcomes: dict[str, dict[tuple[str, int], Outcome]] = {CONTROL: {}}
        self._evidence: dict[str, tuple[Evidence, ...]] = {}
        self._decided: dict[str, Decision] = {}
        self._tell = tell

    def aggregates(self, arm: str = CONTROL) -> Aggregates:
        return aggregate(self._outcomes.get(arm, {}).values())

    def baseline(self) -> None:
        """The incumbent's part of the first look, ahead of it."""
        self._run("race", [], range(self.config.looks[0]))

    def decide(self, proposals: Sequence[Proposal]) -> list[Decision]:
        """What becomes of each proposal; at most one change is accepted, and no change where it is a false alarm."""
        config, self._changes = self.config, {str(one.proposer): one for one in proposals}
        self.tokens += sum(one.tokens for one in proposals)
        racing: dict[str, None] = {one.proposer: None for one in proposals if not self._refused(one)}
        levels = [config.look_alpha(number) for number in range(len(config.looks))]
        ahead = self._stage("race", racing, config.looks, levels)
        order = sorted(ahead, key=lambda name: self._evidence[name][-1].p)
        for name in order[config.confirmations - self._failed :]:
            del ahead[name]
            self._end(name, "reverted", "the climb has no confirmation left")
        levels = [*(0.0 for _ in config.confirm[1:]), config.confirm_alpha]
        confirmed = {name: self._evidence[name][-1] for name in self._stage("confirm", ahead, config.confirm, levels)}
        changes = [name for name in confirmed if self._changes[name].knob]
        best = max(changes, key=lambda name: (confirmed[name].delta or 0.0, confirmed[name].saved or 0.0), default="")
        for name, last in confirmed.items():
            rest = "; another change of this generation gains more" if name in changes and name != best else ""
            self._end(name, "reverted" if rest else "accepted", f"confirmed: {last}{rest}")
        common = {"control": self.aggregates(), "tokens": self.tokens}
        return [
            self._decided[one.proposer].model_copy(update={**common, "own": self.aggregates(one.proposer)})
            for one in proposals
        ]

    def _refused(self, one: Proposal) -> bool:
        if one.fault:
            self._end(one.proposer, "refused", one.fault)
        elif one.knob == SKILLS and self._learned:  # tasks that a skill was learned from cannot judge it
            self._end(one.proposer, "refused", f"skills were learned from {len(self._learned)} of these tasks")
        return one.proposer in self._decided

    def _stage(
        self, stage: Stage, racing: Mapping[str, Standing | None], parts: Sequence[int], levels: Sequence[float]
    ) -> dict[str, Standing]:
        """The changes that come through, and by what; ``racing``: by what they came here."""
        still, through, seen = dict(racing), dict[str, Standing](), 0
        for more, level in zip(parts, levels, strict=True):
            if not still or not self._run(stage, [self._changes[name] for name in still], range(seen, seen + more)):
                break
            seen += more
            for name, won in list(still.items()):
                evidence = self._weigh(stage, self._changes[name], seen)
                self._evidence[name] = (*self._evidence.get(name, ()), evidence)
                stands = standing(evidence, level, last=seen == sum(parts), won=won)
                if stands != "open":
                    del still[name]
                if stands == "behind":
                    self._end(name, "reverted", f"{'not ahead' if stage == 'race' else 'not confirmed'}: {evidence}")
                elif stands != "open":
                    through[name] = stands
        for name in still:
            self._end(name, "undecided", "the climb's tokens ended first: reverted")
        return through

    def _run(self, stage: Stage, changes: Sequence[Proposal], places: Sequence[int]) -> bool:
        """Run the missing trials of these places, of the incumbent and the changes; returns whether all of them ran."""
        arms: list[Proposal | None] = [None, *changes]
        cells = [
            Cell(generation=self.number, stage=stage, arm=one.proposer if one else CONTROL,
                 solver=(one or self.site).solver, tasks=self.tasks,
                 seeds=tuple(self._seed(stage, place, one) for place in places))
            for one in arms
        ]  # fmt: skip
        lacking, left = [cell for cell in cells if not self._has(cell)], self.config.tokens - self.tokens
        if left <= 0:
            return False
        for cell, outcomes in zip(lacking, self._evaluator.evaluate(lacking, tokens=left), strict=True):
            self._outcomes.setdefault(cell.arm, {}).update({(one.task, one.seed): one for one in outcomes})
            self.tokens += sum(one.tokens for one in outcomes)
        return all(self._has(cell) for cell in cells)

    def _has(self, cell: Cell) -> bool:
        known = self._outcomes.get(cell.arm, {})
        return all((task, seed) in known for task in cell.tasks for seed in cell.seeds)

    def _seed(self, stage: Stage, place: int, one: Proposal | None) -> int:
        first = (self.config.seed * 1000 + self.number) * SEEDS + (CONFIRM if stage == "confirm" else 0)
        return first + (OWN if one is not None and one.knob is None else 0) + place

    def _weigh(self, stage: Stage, one: Proposal, seeds: int) -> Evidence:
        pairs = [(self._seed(stage, place, None), self._seed(stage, place, one)) for place in range(seeds)]
        return weigh(
            stage, self._outcomes[CONTROL], self._outcomes[one.proposer], pairs,
            seed=seed_of("climb", self.config.seed, stage, self.number, one.place, seeds),
        )  # fmt: skip

    def _end(self, name: str, verdict: Verdict, why: str) -> None:
        self._decided[name] = Decision(verdict=verdict, why=why, evidence=self._evidence.get(name, ()))
        self._tell(Record(proposal=self._changes[name], decision=self._decided[name]))
