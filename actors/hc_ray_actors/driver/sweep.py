"""The main job: agents × tasks × seeds over a cluster, with a bounded window of running trials. Each result is
committed as it arrives.

The driver is the only writer of the sweep directory and the only holder of the verifiers; a trial gets one bit from
it."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hc_ray.domain.credentials import Censor, scrub, secret_values
from hc_ray.domain.errors import InfrastructureError, StoreError
from hc_ray.domain.events import TrialComplete
from hc_ray.domain.ports import Events
from hc_ray.domain.trial import WITHOUT_MODEL, TrialKey
from hc_ray.domain.value import Value, canonical_json
from hc_ray.machine import processor_use
from hc_ray.machine.cleanup import handlers_kept
from hc_ray.reports import report
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.cluster import SANDBOX, Cluster
from hc_ray_actors.driver import concurrency_window, results
from hc_ray_actors.driver.concurrency_window import Slot
from hc_ray_actors.driver.crew.crew import Crew
from hc_ray_actors.driver.crew.roster import Broken
from hc_ray_actors.driver.estimate import remember_rate
from hc_ray_actors.driver.journal import Journal, Lease
from hc_ray_actors.driver.leak_scan import LeakScan
from hc_ray_actors.driver.plan import Plan, prepare
from hc_ray_actors.driver.signals import Signals
from hc_ray_actors.driver.task_choice import dataset_home
from hc_ray_actors.driver.tracking import Tracking
from hc_ray_actors.driver.trial_driver import Journeys
from hc_ray_actors.driver.trial_record import tokens as tokens_of
from hc_ray_actors.ray_cluster import RayCluster
from hc_ray_actors.verifiers import record_look

TRIALS_PER_SLOT = {"direct": 1, "loop": 2}
"""Style → running trials per parallel request of an engine: a trial of style ``direct`` asks for several answers at a
time, one of style ``loop`` for one and then works in its sandbox."""

__all__ = ["Plan", "SweepSummary", "prepare", "run"]


class SweepSummary(Value):
    """How a sweep ended."""

    out: str
    done: int
    """Trials that have a result, including those of earlier starts, excluding those to be retried."""
    unscored: int
    interrupted: bool = False
    signalled: bool = False
    """A signal arrived, possibly after the last trial: start nothing else."""
    stopped: bool = False
    """It ended early because something that every trial needs was gone."""
    tracked: str | None = None
    """Id of the parent run in MLflow; None if tracking is off or failed."""
    problems: tuple[str, ...] = ()
    """Problems that do not affect the results, such as a tracker that did not answer."""
    report: dict[str, Any] = {}
    """The data of ``report --json``."""


def run(
    plan: Plan,
    *,
    events: Events,
    max_trials: int | None = None,
    max_tokens: int | None = None,
    sleep: float = 0.0,
    cluster: Cluster | None = None,
    address: str | None = None,
) -> SweepSummary:
    """Run the missing trials of a plan. ``max_trials`` limits the trials of this call; after ``max_tokens`` no trial
    starts; ``sleep`` is a delay in seconds before each. Does not close a given ``cluster``. SIGINT and SIGTERM stop
    cleanly: nothing partial is committed, and everything started is ended. Raises ``KeyboardInterrupt`` on a second
    signal once that takes longer than ``cleanup.PATIENCE``."""
    sweep = _Sweep(plan, events, cluster, max_tokens)
    try:
        todo = sweep.todo(max_trials)
        if todo:
            # Outside the event loop: it blocks for seconds, and Ctrl-C must end it at once.
            sweep.start_cluster(address)
        with handlers_kept():
            return asyncio.run(sweep.run(todo, sleep))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        sweep.close()


class _Sweep:
    def __init__(self, plan: Plan, events: Events, cluster: Cluster | None, max_tokens: int | None) -> None:
        self._plan, self._watcher, self._cluster, self._max_tokens = plan, events, cluster, max_tokens
        self._own_cluster: RayCluster | None = None
        self._doing = getattr(events, "doing", lambda step: None)
        """Shows the current step if the watcher can display it, so that a person sees why the command still runs."""
        self._store = SweepStore(plan.out)
        self._lease = Lease(self._store)
        self._journal = Journal(self._store, self._lease)
        named = [engine.api_key_env for engine in plan.engines if engine.api_key_env]
        self._censor = Censor(secret_values(named=named))
        self._problems: list[str] = []
        self._crew: Crew | None = None
        self._again = set(plan.found.unscored)
        """Trials that still have an unscored result of an earlier start."""
        self._leaks = LeakScan(lambda: self._crew)
        self._tracking = Tracking(plan, self._store, lambda told: self._leaks.look("", [told]))

    def emit(self, event: Any) -> None:
        """Send an event to journal and watcher, which see the same events in the same order."""
        stamped = event if event.at else event.model_copy(update={"at": time.time()})
        told = stamped.model_dump_json().encode()
        if (censored := self._censor.clean(told)) != told:
            stamped, told = type(stamped).model_validate_json(censored), censored
        self._leaks.hear(stamped.trial, told)
        self._journal.emit(stamped)
        if isinstance(stamped, TrialComplete):
            self._again.discard(stamped.trial)
        self._watcher.emit(stamped)

    def todo(self, max_trials: int | None) -> list[TrialKey]:
        """The missing trials, at most ``max_trials``."""
        finished = set(self._plan.found.finished)
        return [key for key in self._plan.trials if key.name not in finished][:max_trials]

    def start_cluster(self, address: str | None) -> None:
        if self._cluster is None:
            slots = self._plan.config.sandbox_slots
            self._cluster = self._own_cluster = RayCluster(address=address, slots={SANDBOX: slots} if slots else None)

    def close(self) -> None:
        if self._own_cluster is not None:
            self._doing("ending the processes of this sweep")
            self._own_cluster.close()
        elif self._crew is not None:
            self._crew.leave()
        with contextlib.suppress(StoreError):  # on a full disk; the next start sees that this process is gone
            self._lease.release()

    async def run(self, todo: list[TrialKey], sleep: float) -> SweepSummary:
        signals = Signals()
        interrupted = stopped = broken = False
        looks = self._plan.holdout_looks + self._look(todo)
        results.write_sweep(self._store, self._plan, looks)
        try:
            if todo:
                assert self._cluster is not None
                self._crew = Crew(self._plan, self._cluster, self.emit)
                self._tracking.prepare(self._cluster)
                with signals.cancelling():
                    await self._crew.open()
                    results.record_engines(self._store, self._crew.roles())
                    self._tracking.begin()
                    await self._drive(todo, sleep, self._crew)
        except asyncio.CancelledError:
            # A signal after the last trial interrupted nothing.
            interrupted = bool({key.name for key in todo} - self._done())
        except Broken as fault:
            stopped = broken = True
            self._problems.append(str(fault))
        except StoreError as fault:
            stopped = True
            self._problems.append(f"{fault}; committed trials are kept")
        finally:
            if self._crew is not None:
                self._doing("closing sandboxes and engines")
                await self._crew.close_trials()
                await self._crew.close()
            with contextlib.suppress(InfrastructureError):
                self._journal.flush()
        if self._crew is not None and self._crew.renewed:
            self._problems.append(f"processes of the sweep that died and were restarted: {self._crew.renewed}")
        self._doing("writing the report and the tables")
        summary = self._derive()
        self._doing("scanning the results for hidden tests")
        try:
            await self._leaks.rest([canonical_json(summary).encode()])
        except InfrastructureError:
            if not (interrupted or stopped):
                raise
        tracked = await self._track(summary, signals, interrupted=interrupted, broken=broken)
        return SweepSummary(
            out=self._plan.out,
            done=len(self._done() & {key.name for key in self._plan.trials}),
            unscored=sum(config["unscored"] for config in summary["configs"]),
            interrupted=interrupted,
            signalled=signals.seen > 0,
            stopped=stopped,
            tracked=tracked,
            problems=tuple(scrub(problem) for problem in self._problems),
            report=summary,
        )

    def _done(self) -> set[str]:
        return set(report.finished(self._store)) - self._again

    def _derive(self) -> dict[str, Any]:
        """Rebuild report and tables, even after an interruption, from the trials that are there."""
        try:
            return results.derive(self._store)
        except StoreError as fault:
            self._problems.append(f"the report could not be written ({fault}); hc-ray report can write it later")
            return report.summarise(self._store)

    def _look(self, todo: list[TrialKey]) -> int:
        """Record a holdout look, which any run of a model on holdout tasks is. Returns how many looks were added."""
        asked = [key for key in todo if key.agent not in WITHOUT_MODEL]
        if self._plan.config.split != "holdout" or not asked:
            return 0
        record_look(dataset_home(Path(self._plan.dataset)), sweep=self._plan.out, trials=len(asked))
        return 1

    def _width(self) -> int:
        """Number of running trials: enough to keep every engine replica busy at its knee while some run tests."""
        if self._plan.config.concurrency:
            return self._plan.config.concurrency
        slots = max([engine.parallel * engine.replicas for engine in self._plan.engines], default=4)
        return slots * max(TRIALS_PER_SLOT[key.solver.agent_style] for key in self._plan.trials)

    async def _drive(self, todo: list[TrialKey], sleep: float, crew: Crew) -> None:
        """Run the trials in a bounded window, refilled as they end."""
        journeys = Journeys(
            self._plan,
            crew,
            self._store,
            self._lease,
            emit=self.emit,
            scan=self._leaks.end_of,
            sleep=sleep,
            censor=self._censor,
        )
        began = time.monotonic()
        ended = asyncio.Event()
        watch = asyncio.ensure_future(processor_use.watch(self.emit, ended, lambda: crew.processes))
        tokens = 0

        async def one(key: TrialKey, slot: Slot) -> None:
            nonlocal tokens
            if self._max_tokens is not None:
                await slot.take()
                if tokens >= self._max_tokens:
                    return
            result = await journeys.one(key, slot)
            tokens += tokens_of(result)  # before the next trial gets the slot

        try:
            await concurrency_window.drive(todo, one, width=self._width())
        finally:
            ended.set()
            await asyncio.gather(watch, return_exceptions=True)
            await journeys.close()
        one_model = len({one.models["solver"][2] for one in self._plan.configs if one.models}) < 2
        if self._plan.models and one_model and tokens and (seconds := time.monotonic() - began) > 5:
            remember_rate(self._plan.models["solver"][2], tokens / seconds)

    async def _track(
        self, summary: Mapping[str, Any], signals: Signals, *, interrupted: bool, broken: bool
    ) -> str | None:
        """Export to MLflow; the first signal after the trials' end interrupts it. With ``broken``, Ray itself may be
        gone, and asking it for a process would block forever."""
        if self._tracking.uri is None:
            return None
        later = f"to export: hc-ray export mlflow {self._plan.out}"
        if broken:
            self._problems.append(f"not exported to MLflow; {later}")
            return None
        self._doing("exporting to MLflow")
        try:
            if signals.seen and not interrupted:  # it arrived while the report was written
                raise asyncio.CancelledError
            with signals.cancelling():
                return await self._tracking.end(summary, self._cluster, interrupted=interrupted)
        except asyncio.CancelledError:  # by a signal; the results are complete
            self._problems.append(f"the export to MLflow was interrupted; {later}")
        except Exception as fault:
            if not interrupted:
                says = str(fault).partition("\n")[0]  # on a full disk, SQLAlchemy quotes the whole statement
                self._problems.append(f"not exported to MLflow: {says}; {later}")
        return None
