"""The main job: agents × tasks × seeds over a cluster, one bounded window of trials, every result committed as it
comes.

The driver is the only writer of the sweep directory and the only holder of the verifiers; a trial gets one bit from
it."""

import asyncio
import contextlib
import itertools
import json
import signal
import time
import traceback
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hc_ray.adapters.sweep_store import SweepStore
from hc_ray.config import EngineConfig, RoleName
from hc_ray.errors import InfrastructureError, LeakError, StoreError, UserError, VerifierError
from hc_ray.events import ErrorEvent, TrialComplete, TrialStart, VerdictEvent
from hc_ray.home import data_root
from hc_ray.ports import Events
from hc_ray.task import Task
from hc_ray.trial import TrialKey, TrialResult
from hc_ray.value import Value, canonical_json
from hc_ray_actors import results
from hc_ray_actors.cluster import ENGINE, SANDBOX, VERIFIER, Cluster, RayCluster
from hc_ray_actors.engine import Endpoint, Engine
from hc_ray_actors.journal import Journal, Lease
from hc_ray_actors.plan import WITHOUT_MODEL, Plan, prepare, remember_rate, stored_config
from hc_ray_actors.sandboxes import Sandboxes, pack_public
from hc_ray_actors.tracker import Tracker
from hc_ray_actors.trials import Request, RoleSetup, Step, Trials
from hc_ray_actors.verifiers import Verifiers, pack_sealed, record_look

__all__ = ["Plan", "SweepSummary", "prepare", "run", "stored_config"]


class SweepSummary(Value):
    """How a sweep ended."""

    out: str
    done: int
    """Trials that have a result now, earlier starts included."""
    unscored: int
    interrupted: bool = False
    stopped: bool = False
    """It ended before its last trial since something that every trial needs was gone."""
    tracked: str | None = None
    """Id of the parent run in MLflow; None when tracking is off or failed."""
    problems: tuple[str, ...] = ()
    """What went wrong without spoiling the results: a tracker that did not answer, and the like."""


def run(
    plan: Plan,
    *,
    events: Events,
    max_trials: int | None = None,
    sleep: float = 0.0,
    cluster: Cluster | None = None,
    address: str | None = None,
) -> SweepSummary:
    """Run what is missing of a plan. ``max_trials`` bounds the trials of this call, ``sleep`` waits so many seconds
    before each start. SIGINT and SIGTERM stop cleanly: nothing half-done is committed, everything started is ended."""
    sweep = _Sweep(plan, events, cluster)
    try:
        todo = sweep.todo(max_trials)
        if todo:
            # Before any event loop: it blocks for seconds, and Ctrl-C must end it at once.
            sweep.start_cluster(address)
        return asyncio.run(sweep.run(todo, sleep))
    finally:
        sweep.close()


class _Sweep:
    def __init__(self, plan: Plan, events: Events, cluster: Cluster | None) -> None:
        self._plan, self._watcher, self._cluster = plan, events, cluster
        self._store = SweepStore(plan.out)
        self._lease = Lease(self._store)
        self._journal = Journal(self._store, self._lease)
        self._tasks = {task.digest: task for task in plan.taken}
        self._problems: list[str] = []
        self._unscored = 0
        self._engines: list[Any] = []
        self._sandboxes: list[Any] = []
        self._verifiers: list[Any] = []
        self._verifier_turn = 0
        self._trials: Any = None
        self._limits: dict[str, str] = {}
        self._pump: asyncio.Task[None] | None = None
        self._said: dict[str, list[bytes]] = {}
        """Events by trial that no scan has seen yet."""

    def emit(self, event: Any) -> None:
        """One stream: the journal and the watcher see the same events in the same order."""
        stamped = event if event.at else event.model_copy(update={"at": time.time()})
        self._said.setdefault(stamped.trial, []).append(stamped.model_dump_json().encode())
        self._journal.emit(stamped)
        self._watcher.emit(stamped)

    def todo(self, max_trials: int | None) -> list[TrialKey]:
        """The trials that are still missing, at most ``max_trials`` of them."""
        finished = set(self._plan.finished)
        return [key for key in self._plan.trials if key.name not in finished][:max_trials]

    def start_cluster(self, address: str | None) -> None:
        if self._cluster is None:
            self._cluster = RayCluster(address=address)

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        self._lease.release()

    async def run(self, todo: list[TrialKey], sleep: float) -> SweepSummary:
        self._catch_signals()
        interrupted = stopped = False
        tracked = None
        looks = self._plan.holdout_looks + self._look(todo)
        results.write_sweep(self._store, self._plan, looks)
        try:
            if todo:
                await self._open()
                await self._drive(todo, sleep)
        except asyncio.CancelledError:
            interrupted = True
        except Broken as fault:
            stopped = True
            self._problems.append(f"{fault}; go on with --resume")
        finally:
            await self._close_trials()
        # What is derived from the directory is rebuilt even after an interruption: it speaks of what is there.
        summary = results.derive(self._store)
        try:
            await self._scan("", [canonical_json(summary).encode(), *itertools.chain(*self._said.values())])
        except InfrastructureError:
            if not (interrupted or stopped):
                raise
        if not interrupted:
            tracked = await self._track(summary)
        return SweepSummary(
            out=self._plan.out,
            done=len(self._store.finished() & {key.name for key in self._plan.trials}),
            unscored=results.count_unscored(summary),
            interrupted=interrupted,
            stopped=stopped,
            tracked=tracked,
            problems=tuple(self._problems),
        )

    def _catch_signals(self) -> None:
        """SIGINT and SIGTERM cancel the sweep (``ray.init`` has put a handler of its own on SIGTERM)."""
        me = asyncio.current_task()
        assert me is not None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, me.cancel)

    async def _open(self) -> None:
        """Bring up what trials need, each on the nodes that have its resource."""
        plan, config = self._plan, self._plan.config
        cluster = self._cluster
        assert cluster is not None
        guard = str(data_root() / "sealed") if not _in_process(cluster) else None
        roots = (None, None) if cluster.where not in {"laptop", "in-process"} else (plan.public_root, plan.sealed_root)
        roles_task = asyncio.ensure_future(self._open_roles(cluster))
        for node in cluster.nodes(SANDBOX):
            solver_side = (plan.sandbox, roots[0], config.sandbox_slots, guard)
            self._sandboxes.append(cluster.spawn(Sandboxes, *solver_side, node=node, resource=SANDBOX, units=0.01))
        for node in cluster.nodes(VERIFIER):
            blind_side = (plan.sandbox, *roots, None)
            self._verifiers.append(cluster.spawn(Verifiers, *blind_side, node=node, resource=VERIFIER, units=0.01))
        if not self._sandboxes or not self._verifiers:
            roles_task.cancel()
            raise InfrastructureError(f"no node of {cluster.where} offers {SANDBOX} and {VERIFIER}")
        await self._ship()
        self._limits = await self._sandboxes[0].limits()
        roles = await roles_task
        if roles:
            self._trials = cluster.spawn(Trials, roles, self._sandboxes, self._limits, plan.out, guard)
            self._pump = asyncio.ensure_future(self._pump_events())

    async def _ship(self) -> None:
        """Give every node the public tasks, and the verifiers' nodes the sealed parts, where they are missing."""
        public, sealed = Path(self._plan.public_root), Path(self._plan.sealed_root)
        digests = list(self._tasks)
        for actor in self._sandboxes:
            for digest in await actor.missing(digests):
                await actor.install(pack_public(public, digest))
        for actor in self._verifiers:
            for digest in await actor.missing(digests):
                await actor.install(pack_public(public, digest), pack_sealed(sealed, digest))

    async def _open_roles(self, cluster: Cluster) -> dict[RoleName, RoleSetup]:
        """One set of replicas for each distinct engine, whatever number of roles share it."""
        started: dict[EngineConfig, tuple[Endpoint, ...]] = {}
        roles: dict[RoleName, RoleSetup] = {}
        for role, (engine, profile, digest) in self._plan.models.items():
            if engine not in started:
                replicas = [cluster.spawn(Engine, engine, resource=ENGINE, units=0.01) for _ in range(engine.replicas)]
                self._engines += replicas
                started[engine] = tuple(await asyncio.gather(*(replica.start() for replica in replicas)))
            roles[role] = RoleSetup(engine=engine, endpoints=started[engine], profile=profile, digest=digest)
        return roles

    def _look(self, todo: list[TrialKey]) -> int:
        """A model that runs on holdout tasks is a look, whatever comes of it. Answers how many looks were added."""
        asked = [key for key in todo if key.agent not in WITHOUT_MODEL]
        if self._plan.split != "holdout" or not asked:
            return 0
        folder = Path(self._plan.dataset)
        home = folder.parent if (folder / "task.toml").is_file() else folder
        record_look(home, sweep=self._plan.out, trials=len(asked))
        return 1

    def _window(self) -> int:
        """Trials in flight: enough to keep every engine replica's knee busy."""
        if self._plan.config.concurrency:
            return self._plan.config.concurrency
        engines = {engine for engine, _, _ in self._plan.models.values()}
        return max([engine.parallel * engine.replicas for engine in engines], default=4)

    async def _drive(self, todo: list[TrialKey], sleep: float) -> None:
        """One bounded window over the trials, refilled as they end."""
        waiting: Iterator[TrialKey] = iter(todo)
        began = time.monotonic()
        tokens = 0
        flying: set[asyncio.Task[TrialResult]] = set()
        try:
            async for key in _paced(waiting, sleep):
                flying.add(asyncio.ensure_future(self._trial(key)))
                if len(flying) >= self._window():
                    done, flying = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
                    tokens += sum(results.tokens(task.result()) for task in done)
            while flying:
                done, flying = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
                tokens += sum(results.tokens(task.result()) for task in done)
        finally:
            for task in flying:
                task.cancel()
            await asyncio.gather(*flying, return_exceptions=True)
        if self._plan.models and tokens and (seconds := time.monotonic() - began) > 5:
            remember_rate(self._plan.models["solver"][2], tokens / seconds)

    async def _trial(self, key: TrialKey) -> TrialResult:
        """One trial from its start to its committed result."""
        task = self._tasks[key.task_digest]
        self.emit(TrialStart(trial=key.name, task=key.task, agent=key.agent, seed=key.seed))
        record = results.Record(key, task, self._plan, self._limits)
        try:
            if key.agent in WITHOUT_MODEL:
                await self._without_model(key, task, record)
            else:
                await self._with_model(key, task, record)
        except (StoreError, LeakError, Broken):
            raise
        except Exception as fault:
            # One trial's trouble is not the sweep's: it is unscored, with its evidence, and the others go on.
            trace = "" if isinstance(fault, InfrastructureError | UserError) else traceback.format_exc()
            record.failed(type(fault).__name__, str(fault), trace)
            self.emit(ErrorEvent(trial=key.name, text=str(fault), cause=type(fault).__name__))
        result = record.result()
        packed = results.files(record, result)
        await self._scan(key.name, [*results.plain(record, packed), *self._said.pop(key.name, [])])
        self._lease.check()
        results.commit(self._store, record, packed)
        metadata = result.agent_result.metadata
        self.emit(
            TrialComplete(
                trial=key.name, passed=result.passed, progress=metadata.get("progress"), score=metadata.get("score")
            )
        )
        return result

    async def _without_model(self, key: TrialKey, task: Task, record: "results.Record") -> None:
        verifier = self._verifier()
        submission = await verifier.reference(task) if key.agent == "oracle" else None
        record.submitted(submission)
        record.judged(await verifier.grade(task, submission, self._keeps_output(task)))
        self.emit(VerdictEvent(trial=key.name, passed=bool(record.passed)))

    async def _with_model(self, key: TrialKey, task: Task, record: "results.Record") -> None:
        step: Step = await self._trials.start(Request(key=key, task=task, budget=self._plan.config.budget))
        while step.kind == "submission":
            record.submitted(step.submission)
            try:
                verdict = await self._grade(task, step)
            except (InfrastructureError, UserError) as fault:
                # What the verifier says of itself is for people: the trial learns only that there is no verdict.
                record.failed(type(fault).__name__, str(fault))
                self.emit(ErrorEvent(trial=key.name, text=str(fault), cause=type(fault).__name__))
                await self._trials.fail(key.name, "no verdict could be had")
                return
            record.judged(verdict)
            self.emit(VerdictEvent(trial=key.name, passed=bool(verdict.passed)))
            step = await self._trials.resume(key.name, bool(verdict.passed))
        if step.kind == "failed":
            await self._check_engines()
            record.failed(step.error_type, step.error, step.trace)
            self.emit(ErrorEvent(trial=key.name, text=step.error, cause=step.error_type))
            return
        record.ended(step.outcome)

    async def _grade(self, task: Task, step: Step) -> Any:
        """A verdict is believed only of a task whose own reference passes; a pass no more than a fail, or a broken task
        could only ever help the rate."""
        verifier = self._verifier()
        control = await verifier.control(task)
        if control.passed is False:
            raise VerifierError(f"the task's own reference solution does not pass: {control.cause}")
        return await verifier.grade(task, step.submission, self._keeps_output(task))

    def _keeps_output(self, task: Task) -> bool:
        """Verifier output is kept, sealed, of dev tasks only."""
        return task.digest not in self._plan.holdout

    async def _check_engines(self) -> None:
        """A trial failed outside its sandbox: if an engine is gone, no further trial can succeed, and the sweep stops
        rather than mark them all unscored."""
        for engine in self._engines:
            try:
                alive = await engine.alive()
            except InfrastructureError:
                alive = False
            if not alive:
                raise Broken("an engine died")

    async def _scan(self, trial: str, blobs: Sequence[bytes]) -> None:
        """Raises ``LeakError`` where a canary of the sealed files stands in what is about to be written. Only a
        verifier knows the canaries."""
        if not self._verifiers:
            return
        if found := await self._verifier().leaks(blobs):
            where = f"trial {trial}" if trial else "the sweep's journal or report"
            told = ", ".join(digest[:12] for digest in found[:3])
            raise LeakError(f"{where} holds a canary of the sealed files of task {told}: no result of it counts")

    def _verifier(self) -> Any:
        self._verifier_turn += 1
        return self._verifiers[self._verifier_turn % len(self._verifiers)]

    async def _pump_events(self) -> None:
        while True:
            for event in await self._trials.events():
                self.emit(event)

    async def _track(self, summary: Mapping[str, Any]) -> str | None:
        """Export to MLflow from a process of its own. A tracker that fails costs no result: ``export mlflow`` mends
        it."""
        uri = self._plan.config.mlflow_uri or results.default_tracking_uri(self._plan.out)
        if uri is None or uri == "none":
            return None
        tracker = self._cluster.spawn(Tracker, uri) if self._cluster else Tracker(uri)
        try:
            return str(await tracker.export(dict(summary)))
        except Exception as fault:
            self._problems.append(f"MLflow at {uri}: {fault}")
            return None

    async def _close_trials(self) -> None:
        """End what trials use, and only then write the journal's last events."""
        if self._trials is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._trials.stop(), 15)
        if self._pump is not None:
            if self._trials is not None:
                with contextlib.suppress(Exception):
                    for event in await self._trials.events(0):
                        self.emit(event)
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        closing = [engine.stop() for engine in self._engines]
        closing += [actor.close_all() for actor in (*self._sandboxes, *self._verifiers)]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), 20)
        with contextlib.suppress(InfrastructureError):
            self._journal.flush()


class Broken(Exception):
    """Something that every trial needs is gone; what is committed stays, a resume does the rest."""


def _in_process(cluster: Cluster) -> bool:
    return cluster.where == "in-process"


async def _paced(keys: Iterator[TrialKey], sleep: float) -> AsyncIterator[TrialKey]:
    for count, key in enumerate(keys):
        if sleep and count:
            await asyncio.sleep(sleep)
        yield key


def load_result(store: SweepStore, name: str) -> dict[str, Any]:
    """A committed trial's result.json."""
    loaded: dict[str, Any] = json.loads(store.read(f"trials/{name}/result.json"))
    return loaded
