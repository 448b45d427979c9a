"""The climb over real sweeps: every evaluation is a sweep directory below the climb's own, whose trials' results are
the climb's only input."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from hc_ray.agent.skills import installed
from hc_ray.climb.climb import PROPOSERS, Climb
from hc_ray.climb.knobs import Site
from hc_ray.climb.proposals import Record
from hc_ray.climb.race import ClimbConfig
from hc_ray.domain.config import ClimbSettings, SweepConfig
from hc_ray.domain.errors import ConfigError, InfrastructureError, LeakError, OutputError, UserError
from hc_ray.domain.ports import Events
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.domain.value import Value, readable_json
from hc_ray.reports.best import SHARED, sealed
from hc_ray.reports.climb_page import climb_html
from hc_ray.reports.climb_report import records_of, summarise_climb
from hc_ray.reports.report import leave, stored_json
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors import verifiers
from hc_ray_actors.attempts import now
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver import results, sweep
from hc_ray_actors.driver.configs import drafts, settle
from hc_ray_actors.driver.journal import Lease
from hc_ray_actors.driver.plan import anywhere
from hc_ray_actors.driver.resumption import comparable, goes_on
from hc_ray_actors.driver.task_choice import vocabulary_of
from hc_ray_actors.jobs import meta_reasoner
from hc_ray_actors.jobs.climb_story import told
from hc_ray_actors.jobs.sweep_evaluator import SWEEPS, SweepEvaluator, Watch
from hc_ray_actors.ray_cluster import RayCluster

SETTINGS = "settings.json"
"""The file with the settings that the climb was started with."""


class ClimbPlan(Value):
    """A climb that is ready to run."""

    out: str
    terms: ClimbConfig
    sweep: sweep.Plan
    """The first incumbent's plan: tasks, models, sandbox, and the settings that all sweeps of the climb share."""
    given: dict[str, Any]
    """The settings as given, from which a resume starts."""
    known: tuple[Record, ...] = ()
    """Proposals and decisions of an earlier run."""
    tracked: str | None = None
    """The climb's tracking URI; its sweeps are tracked as parts of it."""

    @property
    def says(self) -> tuple[str, ...]:
        """The declared terms, one sentence each."""
        return self.terms.says(len(self.sweep.taken), PROPOSERS)

    @property
    def cost(self) -> tuple[tuple[int, float], ...] | None:
        """The most (tokens, seconds), if every trial uses its whole budget: for a generation without a confirmation,
        for confirming one change, and for the whole climb. None if the engine's speed is unknown."""
        plan, terms = self.sweep, self.terms
        if not plan.estimated_tokens or plan.estimated_seconds is None:
            return None
        race, confirm = (len(plan.taken) * sum(seeds) for seeds in (terms.looks, terms.confirm))
        race, whole = race * (PROPOSERS + 1), (race + confirm) * (PROPOSERS + 1) * terms.generations
        tokens, seconds = plan.estimated_tokens / len(plan.trials), plan.estimated_seconds / len(plan.trials)
        trials = race, 2 * confirm, min(whole, terms.tokens / tokens)
        return tuple((round(count * tokens), count * seconds) for count in trials)

    @property
    def start(self) -> Site:
        return Site(solver=self.sweep.config.solver, profile=self.sweep.models["solver"][1])

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a resume must repeat."""
        told = {"sandbox": self.sweep.sandbox, "sealed_digest": self.sweep.sealed_digest}
        return {**comparable(self.sweep.config), **told}


def prepare(config: SweepConfig, *, resume: bool = False, cluster: RayCluster | None = None) -> ClimbPlan:
    """Plan a climb; writes nothing. Raises ``UserError``."""
    _is_of_a_climb(config)
    stored = _stored(config.out, resume) if config.out else None
    given = config.model_dump(mode="json", exclude_unset=True, exclude={"out"})
    own = {"agents": ["hc"], "climb": None, "mlflow_uri": "none"}
    if stored and config.sandbox == "auto":
        own["sandbox"] = stored["identity"]["sandbox"]
    if config.out:
        own["out"] = f"{config.out}/sweeps/0"  # never exists; ``out`` itself has been checked
    plan = sweep.prepare(SweepConfig.model_validate(given | own), cluster=cluster)
    terms = ClimbConfig.model_validate((config.climb or ClimbSettings()).model_dump())
    _can_lead_anywhere(terms, plan)
    out = config.out or plan.out
    uri = anywhere(config.mlflow_uri) or results.default_tracking_uri(out)
    found = ClimbPlan(out=out, terms=terms, sweep=plan, given=given, tracked=None if uri == "none" else uri,
                      known=tuple(records_of(SweepStore(out))) if stored else ())  # fmt: skip
    if stored and stored["identity"] != found.identity:
        differing = sorted(key for key, now in found.identity.items() if stored["identity"].get(key) != now)
        raise OutputError(f"{found.out} holds a climb with other settings ({', '.join(differing)}); choose another -o")
    return found


def stored_settings(out: str) -> dict[str, Any]:
    """The settings that a climb was started with, as data. Raises ``OutputError`` if there is none."""
    stored = _stored(out, resume=True)
    return {**(stored or {})["given"], "out": out}


def _stored(out: str, resume: bool) -> dict[str, Any] | None:
    store = SweepStore(out)
    return stored_json(store, SETTINGS) if goes_on(store, "climb", SETTINGS, resume=resume) else None


def _is_of_a_climb(config: SweepConfig) -> None:
    """Raise ``ConfigError`` for settings that only a sweep can have."""
    given = config.model_fields_set
    if config.split != "dev":
        raise ConfigError(f"split: {config.split}: a climb tunes on its tasks, so it runs on dev only")
    if "agents" in given and config.agents != ("hc",):
        raise ConfigError(f"agents: a climb tunes only hc, not {', '.join(config.agents)}; omit agents")
    if config.configs or config.grid:
        raise ConfigError("configs and grid: a climb proposes its own changes; compare configs with hc-ray sweep")
    if seeds := given & {"seeds", "first_seed"}:
        raise ConfigError(f"{min(seeds)}: a climb derives its seeds from climb.looks and climb.confirm; omit it")


def _can_lead_anywhere(terms: ClimbConfig, plan: sweep.Plan) -> None:
    """Raise ``ConfigError`` for a climb that could never accept a change."""
    tasks, most = len(plan.taken), plan.config.budget.tokens
    if not terms.can_accept(tasks):
        needs = next(number for number in count(tasks) if terms.can_accept(number))
        raise ConfigError(f"{terms.says(tasks, PROPOSERS)[-1]}; under these terms a climb needs {needs} dev tasks")
    trials = tasks * (PROPOSERS + 1) * terms.looks[0]
    if terms.tokens < trials * most:
        raise ConfigError(
            f"climb.tokens: {terms.tokens:,} may not pay for one look, {trials} trials of up to {most:,} tokens "
            f"(budget.tokens); give at least {trials * most:,}"
        )


class _Scanned(SweepStore):
    """A climb's store, which refuses to write canaries of the sealed files."""

    def __init__(self, out: str, sealed_root: str) -> None:
        super().__init__(out)
        self._sealed_root = sealed_root

    def write(self, path: str, data: bytes) -> None:
        """Raises ``LeakError``."""
        if verifiers.leaks(self._sealed_root, [data]):
            raise LeakError(f"{path} would contain a canary from the sealed files; it was not written")
        super().write(path, data)


def run(
    plan: ClimbPlan, *, watch: Watch, tell: Callable[[Record], None], note: Callable[[str], None],
    waiting: Callable[[str], AbstractContextManager[Any]] = nullcontext, cluster: Cluster | None = None,
    address: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Climb to the end, and write ``champion.yaml``, ``climb.json`` and the report, which is returned. ``watch``
    follows the sweeps, and ``waiting`` shows other steps that take long. Raises ``OutputError`` if another climb runs
    in the same folder, ``LeakError`` if a canary is found, ``KeyboardInterrupt`` on SIGINT and SIGTERM; a resume
    continues."""
    store = SweepStore(plan.out)
    lease = Lease(store)
    opened: RayCluster | None = None
    try:
        if not store.exists(SETTINGS):
            about = {"schema_version": 1, "given": plan.given, "identity": plan.identity, "began": now()}
            store.write(SETTINGS, readable_json(about))
        if cluster is None:
            cluster = opened = RayCluster(address=address)
        up, config, folders = cluster, plan.sweep.config, (plan.sweep.public_root, plan.sweep.sealed_root)

        def ask(prompt: Prompt) -> Completion | None:
            try:
                with waiting("asking the meta-reasoner"):
                    return asyncio.run(
                        meta_reasoner.answer(config.roles.get("meta", config.engine), plan.sweep, up, prompt)
                    )
            except (InfrastructureError, UserError) as fault:
                note(f"the meta-reasoner's engine does not answer; the rules propose: {str(fault).splitlines()[0]}")
                return None

        tasks = verifiers.seal(Path(plan.sweep.dataset), *map(Path, folders)).tasks
        store = _Scanned(plan.out, folders[1])
        with told(plan.tracked, plan.out, cluster=up, sealed_root=folders[1], note=note) as more:

            def watched(trials: int, purpose: str) -> AbstractContextManager[Events]:
                more()  # export everything so far before the next sweep
                return watch(trials, purpose)

            climb = Climb(
                plan.start, [task.name for task in plan.sweep.taken], plan.terms,
                evaluator=SweepEvaluator(plan.sweep, plan.out, cluster=up, watch=watched), store=store,
                ask=ask, speaks=vocabulary_of(tasks).found, learned_from=_learned_from(plan), tell=tell,
            )  # fmt: skip
            climb.run()
            return _conclude(plan, climb, store)
    finally:
        if opened is not None:
            opened.close()
        lease.release()


def _learned_from(plan: ClimbPlan) -> tuple[str, ...]:
    """The climb's tasks from which installed skills were learned."""
    digests = {digest for skill in installed() for came in skill.provenance for digest in came.get("tasks_digests", ())}
    return tuple(task.name for task in plan.sweep.taken if task.digest in digests)


def _conclude(plan: ClimbPlan, climb: Climb, store: SweepStore) -> dict[str, Any]:
    """Write ``champion.yaml``, the report, and ``climb.json``, which marks the climb as finished."""
    folders = [f"{results.absolute(plan.out)}/sweeps/{name}" for name in (stored_json(store, SWEEPS) or {}).values()]
    whole = summarise_climb(store, lambda folder: SweepStore(f"{plan.out}/{folder}"))
    whole["climb"]["ended_by"] = climb.ended_by
    path = [record for record in climb.history if record.accepted]
    tuned = f"tuned on {len(climb.tasks)} dev tasks"
    best = settle(drafts(plan.sweep.config.model_copy(update={"solver": climb.site.solver})))[0][0]
    document = sealed(
        config_hash=best.hash, found={"accepted": len(path), "says": tuned},
        among=len({row["config_hash"] for row in whole["trials"]}), sweeps=folders,
        tuned_on=list(climb.tasks),
        settings={**{name: best.config.model_dump(mode="json")[name] for name in SHARED}, "agents": ["hc"],
                  "sandbox": plan.given.get("sandbox", "auto"), **best.settings},
    )  # fmt: skip
    store.write("champion.yaml", f"# For hc-ray sweep --from: {tuned}.\n".encode()
                + yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode())  # fmt: skip
    leave(store, whole, climb_html)
    ended = {"ended_by": climb.ended_by, "accepted": len(path), "says": tuned, "config_hash": best.hash}
    store.write("climb.json", readable_json({"schema_version": 1, **ended, "sweeps": folders}))
    return whole
