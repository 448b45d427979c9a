"""Changes that the incumbent's stored trials can judge, before any trial is run for them: its searches are decided
again as the changed config would have decided them, with the verdict of every candidate. Those verdicts are the
auditor's, and stay in a process behind the wall: of each change one number leaves it, which is kept and counted."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from hc_ray.domain.config import SolverConfig
from hc_ray.domain.errors import InfrastructureError, UserError
from hc_ray.domain.trial import TrialKey
from hc_ray.domain.value import Value, digest_of, readable_json
from hc_ray.reports.climb_report import REPLAYS
from hc_ray.reports.replay import Pool, choose, read_pools
from hc_ray.reports.report import stored_json
from hc_ray.statistics.estimators import FEWEST_TASKS
from hc_ray.stores.sweep_directory import SweepStore, read_parquet
from hc_ray_actors.cluster import VERIFIER, Cluster
from hc_ray_actors.jobs import audit
from hc_ray_actors.jobs.audit_subjects import NO_FILES, AuditSettings, Subject

_VERDICTS_ALONE = AuditSettings(self_tests=False)


class Look(Value):
    """All that leaves the audit of one change."""

    gain: float | None = None
    """How much larger a share of the pools would be picked right, tasks weighing alike; None: it cannot be told."""
    pools: int = 0


class StoredTrials:
    """``Replay`` over the sweeps of a climb."""

    def __init__(
        self, out: str, cluster: Cluster, sweeps: Callable[[], Sequence[str]], note: Callable[[str], None]
    ) -> None:
        self._store, self._cluster, self._sweeps, self._note = SweepStore(out), cluster, sweeps, note

    def __call__(self, incumbent: SolverConfig, changed: SolverConfig) -> float | None:
        looks: dict[str, Any] = stored_json(self._store, REPLAYS) or {}
        name = digest_of([incumbent.hash, changed.hash])
        if name not in looks:
            looks[name] = asyncio.run(self._look(incumbent, changed)).model_dump()
            self._store.write(REPLAYS, readable_json(looks))
        gain: float | None = looks[name]["gain"]
        return gain

    async def _look(self, incumbent: SolverConfig, changed: SolverConfig) -> Look:
        if self._cluster.free(VERIFIER).get(self._cluster.here, 0) < 1:
            self._note("stored trials were not looked at: the driver's node has no free verifier_slot")
            return Look()
        actor = self._cluster.spawn(Auditing, node=self._cluster.here, resource=VERIFIER, units=1)
        try:
            found: Look = await actor.look(self._sweeps(), incumbent, changed)
            return found
        except (InfrastructureError, UserError) as fault:
            self._note(f"stored trials were not looked at: {str(fault).splitlines()[0]}")
            return Look()
        finally:
            self._cluster.kill(actor)


class Auditing:
    """An actor on the driver's node, for one look."""

    opens_sealed, needs_keys = True, False

    async def look(self, folders: Sequence[str], incumbent: SolverConfig, changed: SolverConfig) -> Look:
        """Raises ``HcRayError`` where the trials cannot be audited."""
        pools = await _graded(folders, incumbent)
        return look_at(pools, incumbent, changed)


async def _graded(folders: Sequence[str], solver: SolverConfig) -> list[Pool]:
    """The pools of the trials that ran with this config, every candidate with its verdict."""
    found: list[tuple[Pool, dict[str, str]]] = []
    subjects: dict[str, Subject] = {}
    audits = [audit.prepare(folder, _VERDICTS_ALONE) for folder in folders]
    for one in audits:
        store = SweepStore(one.out)
        keys = {key.name: key for trial in one.trials if (key := _key(store, trial.name)).solver == solver}
        digests = {trial.name: {made: digest for made, digest, _ in trial.candidates}
                   for trial in one.trials if trial.name in keys}  # fmt: skip
        pools = read_pools(store, read_table=read_parquet) if digests else ()
        found += [(pool, digests[pool.trial]) for pool in pools if pool.trial in digests]
        wanted = {(keys[name].task_digest, digest) for name, made in digests.items() for digest in made.values()}
        for subject in one.subjects:
            task, known = subject.task.digest, subjects.get(subject.task.digest, subject)
            own = {digest: files for digest, files in subject.candidates.items() if (task, digest) in wanted}
            held = known.candidates if task in subjects else {}
            subjects[task] = known.model_copy(
                update={"candidates": {**held, **own}, "differences": {**known.differences, **subject.differences}}
            )
    if not found:
        return []
    looked_at = tuple(one for one in subjects.values() if one.candidates)
    verdicts = (await audit.measured(audits[0].model_copy(update={"subjects": looked_at}))).verdicts
    return [_with(pool, digests, verdicts.get(pool.task, {})) for pool, digests in found]


def _key(store: SweepStore, trial: str) -> TrialKey:
    return TrialKey.model_validate_json(store.read(f"trials/{trial}/config.json"))


def _with(pool: Pool, digests: dict[str, str], verdicts: dict[str, bool | None]) -> Pool:
    attempts = tuple(one.model_copy(update={"passed": verdicts.get(digests[one.id])}) for one in pool.attempts)
    return pool.model_copy(update={"attempts": attempts, "untouched": verdicts.get(NO_FILES)})


def look_at(pools: Sequence[Pool], incumbent: SolverConfig, changed: SolverConfig) -> Look:
    """What graded pools say of a change. Too few tasks say nothing."""
    gains: dict[str, list[int]] = defaultdict(list)
    for pool in pools:
        before = choose(pool, incumbent.selector).passed
        after = choose(as_if(pool, incumbent, changed), changed.selector).passed
        if pool.graded and before is not None and after is not None:
            gains[pool.task].append(after - before)
    means = [sum(group) / len(group) for group in gains.values()]
    enough = len(means) >= FEWEST_TASKS
    return Look(gain=sum(means) / len(means) if enough else None, pools=sum(map(len, gains.values())))


def as_if(pool: Pool, incumbent: SolverConfig, changed: SolverConfig) -> Pool:
    """The pool of a narrower or shorter search: without what it would not have asked for, and what hangs on that. A
    round that was wider than ordinary ones is left as it was."""
    kept: list[str] = []
    left_out: set[int] = set()
    for number in range(1, changed.max_rounds + 1):
        here = [one for one in pool.attempts if one.round == number]
        lineages = list(dict.fromkeys(one.lineage for one in here))
        if len(lineages) <= incumbent.samples:
            left_out |= set(lineages[changed.samples :])
        kept += [one.id for one in here if one.lineage not in left_out and one.repairs <= changed.repairs]
    return pool.only(kept).model_copy(update={"rounds": pool.rounds[: changed.max_rounds]})
