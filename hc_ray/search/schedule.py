"""The schedule of a trial's candidates. A function of the candidate's index gives plan, temperature and seed, the same
for every agent, so that a gain comes from the search and not from the prompts."""

from collections.abc import Sequence
from typing import Literal

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.config import Form, SolverConfig
from hc_ray.domain.profile import Profile
from hc_ray.domain.trial import seed_of
from hc_ray.domain.value import Value

Told = Literal["", "tried", "reread"]


class Slot(Value):
    """One place in a round, with the parameters of its candidate."""

    round: int
    slot: int
    temperature: float
    form: Form
    plan: str
    seed: int
    lineage: int
    parent: str | None = None
    """The candidate to repair; None for a fresh one."""
    repairs: int = 0
    told: Told = ""
    """Additional text for a fresh candidate: none, what was tried before, or what a failed answer may have missed."""

    @property
    def id(self) -> str:
        return f"c{self.round}.{self.slot}"


class Schedule(Value):
    """The sequence of one trial's candidates."""

    config: SolverConfig
    profile: Profile
    task_digest: str
    trial_seed: int

    def step(self, index: int) -> tuple[str, float]:
        """Plan and temperature of the ``index``-th fresh candidate: first ``greedy`` plans at the profile's best single
        temperature, then all plans in turn while cycling through the temperatures, shifted by one at each new cycle of
        plans, so that all combinations occur and repeats are far apart."""
        plans, temperatures = self.config.plans, self.config.temperatures
        plan = plans[index % len(plans)]
        if index < min(max(1, self.config.greedy), len(plans)):
            return plan, self.profile.temperature_best_single
        turn = index % len(plans) + index // len(plans)
        return plan, temperatures[turn % len(temperatures)]

    def fresh(self, index: int, *, round: int, slot: int, told: Told = "") -> Slot:
        """The slot of the ``index``-th fresh candidate, for any agent."""
        plan, temperature = self.step(index)
        return Slot(
            round=round,
            slot=slot,
            temperature=temperature,
            form=self.profile.form,
            plan=plan,
            seed=seed_of(self.task_digest, self.trial_seed, "solver", "sample", index),
            lineage=index,
            told=told,
        )

    def samples(
        self, *, round: int, count: int, begin: int, to_repair: Sequence[Candidate] = (), told: Told = ""
    ) -> tuple[Slot, ...]:
        """The slots of a round: repairs first, then fresh ones. ``begin``: number of fresh candidates before them. Only
        every second one gets ``told``, since earlier attempts can also mislead."""
        repairs = [self.repair(one, round=round, slot=i) for i, one in enumerate(to_repair[:count])]
        first = len(repairs)
        fresh = [
            self.fresh(begin + i, round=round, slot=first + i, told=told if i % 2 == 0 else "")
            for i in range(count - first)
        ]
        return (*repairs, *fresh)

    def repair(self, parent: Candidate, *, round: int, slot: int) -> Slot:
        """A repair, at low temperature and with the first plan."""
        return Slot(
            round=round,
            slot=slot,
            temperature=self.config.temperatures[parent.repairs % len(self.config.temperatures)],
            form=self.profile.form,
            plan=self.config.plans[0],
            seed=seed_of(self.task_digest, self.trial_seed, "solver", "repair", round, slot),
            lineage=parent.lineage,
            parent=parent.id,
            repairs=parent.repairs + 1,
        )
