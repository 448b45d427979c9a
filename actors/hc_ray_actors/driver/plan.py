"""The plan of a sweep, shown before its first trial: tasks taken and refused, trials, cost, and the minimum detectable
effect."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hc_ray.domain.config import EngineConfig, RoleName, SweepConfig
from hc_ray.domain.ports import Capabilities
from hc_ray.domain.task import RefusedTask, Task
from hc_ray.domain.trial import WITHOUT_MODEL, TrialKey
from hc_ray.domain.value import Value, digest_of
from hc_ray.machine.paths import data_root, expanded
from hc_ray.reports.arms import tuned
from hc_ray.statistics.estimators import minimal_detectable_effect
from hc_ray_actors import verifiers
from hc_ray_actors.backends import named
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver.configs import PlannedConfig, drafts, settle
from hc_ray_actors.driver.estimate import expected_seconds, expected_tokens
from hc_ray_actors.driver.nodes import BackendsOfNodes, SeenNode, look
from hc_ray_actors.driver.resumption import Found, reconcile
from hc_ray_actors.driver.task_choice import (
    dataset_folder,
    dataset_home,
    fixed_split,
    hint_is_general,
    placed,
    sealed_folder,
    select,
)
from hc_ray_actors.engine_places import has_place
from hc_ray_actors.role_models import Planned
from hc_ray_actors.verifiers import SealedDataset, Split


class Plan(Value):
    """A sweep that is ready to run."""

    out: str
    config: SweepConfig
    """The settings that all trials share, and those of the first config."""
    given: dict[str, Any] = {}
    """The settings as given, from which a resume starts; without values that only the profile sets."""
    configs: tuple[PlannedConfig, ...] = ()
    dataset: str
    """Absolute path of the dataset's folder."""
    public_root: str
    sealed_root: str
    sealed_digest: str
    """SHA-256 over the sealed digests of the tasks taken; a resume with other tests is refused."""
    sealed_digests: dict[str, str] = {}
    """Public digest → sealed digest of the tasks taken; grading uses only these."""
    taken: tuple[Task, ...]
    refused: tuple[RefusedTask, ...]
    holdout: tuple[str, ...] = ()
    """Digests of the held-out tasks among those taken, whose verifier output is never written."""
    tuned_on: tuple[str, ...] = ()
    """Names of the tasks by whose verdicts the config was chosen; empty unless it was exported."""
    trials: tuple[TrialKey, ...]
    found: Found = Found()
    """Results of an earlier start."""
    models: dict[RoleName, Planned]
    """Role → engine, profile, digest of model and profile, for the first config; empty if no agent uses a model."""
    holdout_looks: int = 0
    estimated_tokens: int | None = None
    estimated_seconds: float | None = None
    arms: int = 0
    """The number of arms to compare: agents that use a model, times the configs that each runs under."""
    minimal_effect: float | None = None
    """The smallest difference in blind pass rate between two arms that four out of five sweeps would detect."""
    sandbox: str
    sandbox_why: str
    place: str
    """``laptop``, ``in-process`` or the cluster's address."""
    nodes: tuple[SeenNode, ...] = ()
    """The cluster's nodes, as probed at planning time."""
    notes: tuple[str, ...] = ()

    @property
    def done(self) -> int:
        return len(self.found.finished)

    @property
    def asked(self) -> tuple[Planned, ...]:
        """Every distinct model that some config names for a role."""
        found = [self.models, *(one.models for one in self.configs)]
        return tuple({planned[2]: planned for models in found for planned in models.values()}.values())

    @property
    def engines(self) -> tuple[EngineConfig, ...]:
        return tuple(dict.fromkeys(engine for engine, _, _ in self.asked))

    def seen(self, engine: EngineConfig, replica: int) -> Capabilities | None:
        """The capabilities of an external server, as probed at planning time."""
        found = next((one.seen[engine] for one in self.configs if engine in one.seen), ())
        return found[replica] if replica < len(found) else None


def prepare(
    config: SweepConfig, *, resume: bool = False, cluster: Cluster | None = None, place: str = "laptop",
    tuned_on: Sequence[str] = (),
) -> Plan:  # fmt: skip
    """Plan a sweep; writes nothing to its directory. ``cluster``: the running cluster, if any, or else ``place`` names
    where it will run; ``tuned_on``: the tasks by whose verdicts the config was chosen. Raises ``UserError``."""
    folder = dataset_folder(config.dataset)
    if expanded(config.dataset).is_dir():
        # A resume from another folder must find the same tasks.
        config = config.model_copy(update={"dataset": str(folder)})
    drafted = drafts(config)
    sealed_root = sealed_folder(folder)
    public_root = data_root() / "public"
    sealed = verifiers.seal(folder, public_root, sealed_root)
    for hint in {one.config.solver.hint for one in drafted}:
        hint_is_general(hint, sealed.tasks)
    split = fixed_split(config, folder, sealed.tasks, refines=any(one.config.solver.refinement for one in drafted))
    out = config.out or _default_out(folder)
    named, refused = select(config, split, sealed.tasks, sealed.refused)
    seen = look(cluster, config.sandbox) if cluster is not None else ()
    here = BackendsOfNodes(seen) if seen else None
    choice, tasks, refused = placed(config, folder, named, refused, public_root, out if resume else None, here)
    configs, told = settle(drafted)
    models = configs[0].models
    given = _given(config)
    config = configs[0].config.model_copy(update={"configs": config.configs, "grid": config.grid})
    trials = _trials(configs, tasks, choice.backend, {})
    sealed_digests = {task.digest: sealed.sealed_digests[task.digest] for task in tasks}
    sealed_digest = digest_of(sealed_digests)
    found = reconcile(out, config, sealed_digest, resume, {key.name for key in trials})
    finished = set(found.finished)
    open_trials = [key for key in trials if key.name not in finished]
    tokens = expected_tokens(open_trials)
    arms = len({arm for one in configs for arm in one.stands.items() if arm[0] not in WITHOUT_MODEL})
    plan = Plan(
        out=out,
        config=config.model_copy(update={"out": out, "mlflow_uri": anywhere(config.mlflow_uri)}),
        given=given,
        configs=configs,
        dataset=str(folder),
        public_root=str(public_root),
        sealed_root=str(sealed_root),
        sealed_digest=sealed_digest,
        sealed_digests=sealed_digests,
        taken=tuple(tasks),
        refused=tuple(refused),
        holdout=tuple(task.digest for task in tasks if split and task.name in split.holdout),
        trials=tuple(trials),
        found=found,
        models=models,
        holdout_looks=verifiers.count_looks(dataset_home(folder)) if split else 0,
        estimated_tokens=tokens if models else 0,
        estimated_seconds=expected_seconds(tokens, len(open_trials), models),
        arms=arms,
        minimal_effect=minimal_detectable_effect(len(tasks), config.seeds) if arms > 1 else None,
        sandbox=choice.backend,
        sandbox_why=choice.why,
        place=cluster.where if cluster is not None else place,
        nodes=seen,
        tuned_on=tuple(tuned_on),
        notes=(
            *choice.notes,
            *told,
            *found.notes,
            *_notes(config, split, sealed, tasks, tuned_on),
        ),
    )
    for engine in plan.engines if seen and open_trials else ():
        has_place(engine, seen, plan.place)
    return plan


def varied(plan: Plan, config: SweepConfig, seeds: Mapping[str, Sequence[int]], *, resume: bool) -> Plan:
    """Another sweep over a plan's tasks and sandboxes, planned without access to sealed files, which a driver loses
    once its first sweep has started. ``config`` names its ``out``; ``seeds``: config name → its seeds."""
    configs, told = settle(drafts(config))
    shared = configs[0].config.model_copy(update={"configs": config.configs, "grid": config.grid})
    trials, out = _trials(configs, list(plan.taken), plan.sandbox, seeds), config.out or plan.out
    found = reconcile(out, shared, plan.sealed_digest, resume, {key.name for key in trials})
    own = {
        "out": out,
        "config": shared,
        "given": _given(config),
        "configs": configs,
        "trials": tuple(trials),
        "found": found,
        "models": configs[0].models,
        "notes": told,
    }
    return plan.model_copy(update=own)


def _trials(
    configs: Sequence[PlannedConfig], tasks: list[Task], backend: str, seeds: Mapping[str, Sequence[int]] = {}
) -> list[TrialKey]:
    """The trials in order: seeds outermost, so that an interrupted sweep has complete repeats; a task's configs and
    agents side by side, so that they share suites and prompt prefixes. An agent runs once under configs that are the
    same to it."""
    shared = configs[0].config
    planned = range(shared.first_seed, shared.first_seed + shared.seeds)
    own = {one.name: seeds.get(one.name, planned) for one in configs}
    return [
        TrialKey(
            task=task.name,
            task_digest=task.digest,
            agent=agent,
            seed=own[one.name][place],
            **one.of_trials(agent),
            sandbox=backend,
            grading=task.grading,
            threshold=shared.pass_threshold,
            network=shared.network,
        )
        for place in range(max(map(len, own.values())))
        for task in tasks
        for one in configs
        for agent in shared.agents
        if one.stands[agent] == one.hash and place < len(own[one.name])
    ]


def _given(config: SweepConfig) -> dict[str, Any]:
    settled = {"solver", "budget"}
    given = config.model_dump(mode="json", exclude={"out", *settled})
    return given | config.model_dump(mode="json", include=settled, exclude_unset=True)


def _default_out(folder: Path) -> str:
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    return str(Path("runs").absolute() / f"{folder.name}-{stamp}")


def anywhere(uri: str | None) -> str | None:
    """A tracking URI that does not depend on the working directory, which differs in actors."""
    if uri is None or uri == "none":
        return uri
    if uri.startswith("sqlite:///"):
        return f"sqlite:///{Path(uri.removeprefix('sqlite:///')).absolute()}"
    return uri if "://" in uri else Path(uri).absolute().as_uri()


def _notes(
    config: SweepConfig, split: Split | None, sealed: SealedDataset, tasks: Sequence[Task],
    tuned_on: Sequence[str] = (),
) -> tuple[str, ...]:  # fmt: skip
    taken = {task.name for task in tasks}
    notes = tuned(tuned_on, taken)
    for says, names in sealed.unknown.items():
        if own := [name for name in names if name in taken]:
            notes.append(f"task.toml of {named(own)}: {says}")
    if own := [name for name in sealed.unproven if name in taken]:
        notes.append(f"no reference solution shows that the tests of {named(own)} can pass: a fail there may be theirs")
    if split is None:
        notes.append("this dataset has no holdout, so every task counts as dev (hc-ray tasks split makes one)")
    if config.network == "task":
        notes.append("tasks that declare no network mode get a network (Harbor's default)")
    if config.budget.timeout_multiplier != 1.0:
        notes.append(f"task time limits are multiplied by {config.budget.timeout_multiplier}")
    return tuple(notes)
