"""Whether a change is better than its incumbent: a race over the tasks in looks that are declared beforehand, then a
confirmation of both on fresh seeds. What counts is the first verdict, paired by task and seed; the task is the unit.

Only the confirmation accepts, on trials that no decision has seen. The race is a filter: nothing rests on its level.
From each incumbent on at most ``confirmations`` may fail, and each has the same share of ``alpha``, so that all of them
together accept what neither passes more nor costs less with a chance of at most ``alpha``, whatever the race lets
through, no change included. A change that is accepted for its tokens has lost no passes on these trials; that it truly
loses none is not tested (docs/decisions.md). The defaults are where simulated climbs gained most at equal tokens
(docs/results.md)."""

from collections.abc import Sequence
from typing import Literal

from hc_ray.climb.evaluation import Outcome, Outcomes, Stage
from hc_ray.domain.config import ClimbSettings
from hc_ray.domain.value import Value, counted
from hc_ray.statistics.estimators import FEWEST_TASKS, minimal_detectable_effect, sign_flip

Standing = Literal["ahead", "cheaper", "behind", "open"]
_EXACT, _DRAWS = 14, 4000
"""``sign_flip`` tries all assignments of signs to so many tasks that differ; of more tasks, so many at random."""


class ClimbConfig(ClimbSettings):
    """What a climb declares before its first trial, and what follows from it."""

    def look_alpha(self, number: int) -> float:
        """The share of ``race_alpha`` that a look spends: it grows with the seeds seen by then."""
        seen = [sum(self.looks[: i + 1]) for i in range(len(self.looks))]
        return self.race_alpha * seen[number] / sum(seen)

    @property
    def confirm_alpha(self) -> float:
        """One-sided level of a confirmation."""
        return self.alpha / self.confirmations

    def can_accept(self, tasks: int) -> bool:
        """Whether the best evidence that so many tasks can give would be enough."""
        level = min(self.confirm_alpha, self.look_alpha(-1))
        return tasks >= FEWEST_TASKS and 0.5 ** min(tasks, _EXACT) <= level

    def says(self, tasks: int, proposers: int) -> tuple[str, ...]:
        """The declaration for a reader, and whether so few tasks could lead to an acceptance at all."""
        effect = minimal_detectable_effect(tasks, sum(self.confirm))
        return (
            f"{counted(self.generations, 'generation')} of {proposers} changes on {counted(tasks, 'task')}, "
            f"at most {self.tokens:,} tokens",
            f"race: {counted(sum(self.looks), 'seed')} per task in {counted(len(self.looks), 'look')}, one-sided "
            f"alpha {self.race_alpha:g} in all; confirmation: both configs on "
            f"{counted(sum(self.confirm), 'fresh seed')} per task, one-sided alpha {self.confirm_alpha:.4f}; the "
            f"climb ends after {counted(self.confirmations, 'failed confirmation')}; chance of any acceptance from "
            f"an incumbent that nothing beats: at most {self.alpha:g}",
            f"a confirmation at two-sided alpha 0.05 would see a difference of {effect:.2f} (80 % power)"
            if self.can_accept(tasks)
            else f"on {counted(tasks, 'task')} no change can be accepted, whatever it does",
        )  # fmt: skip


class Evidence(Value):
    """A change against its incumbent at one look, over the tasks that have a scored pair."""

    stage: Stage
    seeds: int
    """Per task, on each side."""
    tasks: int
    control: float | None = None
    """The incumbent's pass rate."""
    changed: float | None = None
    delta: float | None = None
    p: float = 1.0
    """One-sided, sign-flip over tasks: the chance of such a lead if the change is no better."""
    saved: float | None = None
    """Tokens that it saves per trial."""
    saved_p: float = 1.0
    """One-sided: the chance to save so much if it saves nothing; 1 where tokens decide nothing."""

    def __str__(self) -> str:
        if self.delta is None:
            return "no scored pair"
        lead = f"{self.control:.3f} to {self.changed:.3f} ({self.delta:+.3f})"
        on = f"{counted(self.tasks, 'task')} with {counted(self.seeds, 'seed')}"
        saved = self.saved or 0.0
        tokens = f"{abs(saved):.0f} {'more' if saved < 0 else 'fewer'} tokens a trial"
        tokens += f" (p {self.saved_p:.4f})" if self.saved_p < 1 else ""
        return f"{lead} on {on}, one-sided p {self.p:.4f}, {tokens}"


def weigh(
    stage: Stage, control: Outcomes, changed: Outcomes, seeds: Sequence[tuple[int, int]], *, seed: int
) -> Evidence:
    """What the pairs say. ``seeds``: of the control and of the change, in pairs; ``seed``: of the permutations."""
    found: dict[str, list[tuple[Outcome, Outcome]]] = {}
    for task in sorted({task for task, _ in changed}):
        pairs = [
            (control[task, a], changed[task, b]) for a, b in seeds if (task, a) in control and (task, b) in changed
        ]
        if scored := [(a, b) for a, b in pairs if a.passed is not None and b.passed is not None]:
            found[task] = scored
    if not found:
        return Evidence(stage=stage, seeds=len(seeds), tasks=0)
    each, count = list(found.values()), len(found)
    before = sum(sum(bool(a.passed) for a, _ in pairs) / len(pairs) for pairs in each) / count
    leads = [sum(bool(b.passed) - bool(a.passed) for a, b in pairs) / len(pairs) for pairs in each]
    saved = [sum(a.tokens - b.tokens for a, b in pairs) / len(pairs) for pairs in each]
    delta = sum(leads) / count
    return Evidence(
        stage=stage, seeds=len(seeds), tasks=count, control=before, changed=before + delta, delta=delta,
        p=_better(leads, seed), saved=sum(saved) / count,
        saved_p=_better(saved, seed) if abs(delta) < 1e-12 or stage == "confirm" else 1.0,
    )  # fmt: skip


def _better(differences: Sequence[float], seed: int) -> float:
    """One-sided p: either sign is as likely, so it is half of the two-sided one on the side that leads."""
    half, total = sign_flip(differences, seed=seed, draws=_DRAWS) / 2, sum(differences)
    return half if total > 1e-12 else 1 - half if any(differences) else 1.0


def standing(evidence: Evidence, level: float, *, last: bool, won: Standing | None = None) -> Standing:
    """How a change stands after a look. Equal pass rates at the end of a race are decided by tokens; a change that
    ``won`` so is confirmed if it saves them again and loses nothing."""
    if evidence.delta is None or evidence.tasks < FEWEST_TASKS:
        return "behind" if last else "open"
    if won != "cheaper" and evidence.p <= level:
        return "ahead"
    if last:
        equal = evidence.delta > -1e-12 if won == "cheaper" else won is None and abs(evidence.delta) < 1e-12
        return "cheaper" if equal and evidence.saved_p <= level else "behind"
    return "behind" if evidence.delta < -1e-12 else "open"
