"""Which candidates a round asks for, and when two answers are the same candidate."""

import ast
import warnings
from collections.abc import Mapping, Sequence

from hc_ray.candidate import Candidate
from hc_ray.config import Form, SolverConfig
from hc_ray.profile import Profile
from hc_ray.solve.seeds import seed_of
from hc_ray.value import Value, digest_of


class Slot(Value):
    """One place of a round: how its candidate is asked for."""

    round: int
    slot: int
    temperature: float
    form: Form
    plan: str
    seed: int
    lineage: int
    parent: str | None = None
    """The candidate that it repairs; None for a fresh one."""
    repairs: int = 0

    @property
    def id(self) -> str:
        return f"c{self.round}.{self.slot}"


def round_slots(
    config: SolverConfig,
    profile: Profile,
    *,
    number: int,
    task_digest: str,
    trial_seed: int,
    next_lineage: int,
    to_repair: Sequence[Candidate] = (),
) -> tuple[Slot, ...]:
    """The slots of a round of ``hc``: repairs first, then fresh candidates over the ladder of temperatures × forms ×
    plans. Each round shifts the plans, so that a restart is a restart from another plan."""
    forms = config.forms or (profile.form,)
    made = []
    for slot in range(config.samples):
        parent = to_repair[slot] if slot < len(to_repair) else None
        made.append(
            Slot(
                round=number,
                slot=slot,
                temperature=config.temperatures[slot % len(config.temperatures)],
                form=forms[slot % len(forms)],
                plan=config.plans[(slot + number - 1) % len(config.plans)],
                seed=seed_of(task_digest, trial_seed, "solver", number, slot),
                lineage=parent.lineage if parent else next_lineage + slot - len(to_repair),
                parent=parent.id if parent else None,
                repairs=parent.repairs + 1 if parent else 0,
            )
        )
    return tuple(made)


def independent_slots(
    config: SolverConfig, profile: Profile, *, number: int, count: int, begin: int, task_digest: str, trial_seed: int
) -> tuple[Slot, ...]:
    """Slots of ``best_of_n``: independent samples in the profile's best form over the ladder of temperatures. ``begin``
    is the number of samples before them."""
    return tuple(
        Slot(
            round=number,
            slot=slot,
            temperature=config.temperatures[(begin + slot) % len(config.temperatures)],
            form=profile.form,
            plan=config.plans[0],
            seed=seed_of(task_digest, trial_seed, "solver", "sample", begin + slot),
            lineage=begin + slot,
        )
        for slot in range(count)
    )


def single_slot(config: SolverConfig, profile: Profile, *, task_digest: str, trial_seed: int) -> Slot:
    """The one slot of ``raw``: the profile's best form at the temperature that is best for a single sample."""
    return Slot(
        round=1,
        slot=0,
        temperature=profile.temperature_best_single,
        form=profile.form,
        plan=config.plans[0],
        seed=seed_of(task_digest, trial_seed, "solver", "sample", 0),
        lineage=0,
    )


def normal_form(path: str, text: str) -> str:
    """A text that equal candidates share: Python without comments and layout, anything else without trailing space."""
    if path.endswith(".py"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return ast.dump(ast.parse(text))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                pass
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def files_digest(files: Mapping[str, str]) -> str:
    """SHA-256 over the normal form of the files: equal digests are the same candidate."""
    return digest_of({path: normal_form(path, text) for path, text in files.items()})
