"""One trial as the driver sees it: from its start over its submission and its verdict to its committed result."""

import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hc_ray.adapters.sweep_store import SweepStore
from hc_ray.errors import InfrastructureError, LeakError, StoreError, UserError, VerifierError
from hc_ray.events import ErrorEvent, TrialComplete, TrialStart, VerdictEvent
from hc_ray.task import Task
from hc_ray.trial import TrialKey, TrialResult
from hc_ray_actors import results
from hc_ray_actors.crew import Broken, Crew
from hc_ray_actors.journal import Lease
from hc_ray_actors.plan import WITHOUT_MODEL, Plan
from hc_ray_actors.trials import Request, Step


class Journeys:
    """Sends trials on their way; each ends with a committed result, whatever happened to it."""

    def __init__(
        self,
        plan: Plan,
        crew: Crew,
        store: SweepStore,
        lease: Lease,
        *,
        emit: Callable[[Any], None],
        scan: Callable[[str, Sequence[bytes]], Awaitable[None]],
    ) -> None:
        self._plan, self._crew, self._store, self._lease = plan, crew, store, lease
        self._emit, self._scan = emit, scan
        self._tasks = {task.digest: task for task in plan.taken}

    async def one(self, key: TrialKey) -> TrialResult:
        """One trial from its start to its committed result."""
        task = self._tasks[key.task_digest]
        self._emit(TrialStart(trial=key.name, task=key.task, agent=key.agent, seed=key.seed))
        record = results.Record(key, task, self._plan, self._crew.limits)
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
            self._emit(ErrorEvent(trial=key.name, text=str(fault), cause=type(fault).__name__))
        result = record.result()
        packed = results.files(record, result)
        await self._scan(key.name, results.plain(record, packed))
        self._lease.check()
        results.commit(self._store, record, packed)
        metadata = result.agent_result.metadata
        self._emit(
            TrialComplete(
                trial=key.name, passed=result.passed, progress=metadata.get("progress"), score=metadata.get("score")
            )
        )
        return result

    async def _without_model(self, key: TrialKey, task: Task, record: "results.Record") -> None:
        verifier = self._crew.verifier()
        submission = await verifier.reference(task) if key.agent == "oracle" else None
        record.submitted(submission)
        record.judged(await verifier.grade(task, submission, self._keeps_output(task)))
        self._emit(VerdictEvent(trial=key.name, passed=bool(record.passed)))

    async def _with_model(self, key: TrialKey, task: Task, record: "results.Record") -> None:
        trials = self._crew.trials
        step: Step = await trials.start(Request(key=key, task=task, budget=self._plan.config.budget))
        while step.kind == "submission":
            record.submitted(step.submission)
            try:
                verdict = await self._grade(task, step)
            except (InfrastructureError, UserError) as fault:
                # What the verifier says of itself is for people: the trial learns only that there is no verdict.
                record.failed(type(fault).__name__, str(fault))
                self._emit(ErrorEvent(trial=key.name, text=str(fault), cause=type(fault).__name__))
                await trials.fail(key.name, "no verdict could be had")
                return
            record.judged(verdict)
            self._emit(VerdictEvent(trial=key.name, passed=bool(verdict.passed)))
            step = await trials.resume(key.name, bool(verdict.passed))
        if step.kind == "failed":
            await self._crew.check_engines()
            record.failed(step.error_type, step.error, step.trace)
            self._emit(ErrorEvent(trial=key.name, text=step.error, cause=step.error_type))
            return
        record.ended(step.outcome)

    async def _grade(self, task: Task, step: Step) -> Any:
        """A verdict is believed only of a task whose own reference passes; a pass no more than a fail, or a broken task
        could only ever help the rate."""
        verifier = self._crew.verifier()
        control = await verifier.control(task)
        if control.passed is False:
            raise VerifierError(f"the task's own reference solution does not pass: {control.cause}")
        return await verifier.grade(task, step.submission, self._keeps_output(task))

    def _keeps_output(self, task: Task) -> bool:
        """Verifier output is kept, sealed, of dev tasks only."""
        return task.digest not in self._plan.holdout
