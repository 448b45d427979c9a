"""Drives one trial from its start through submission and verdict to its committed result, with retries
(``attempts`` decides between fail and unscored)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from operator import methodcaller
from typing import Any, TypeVar

from hc_ray.domain.candidate import Submission
from hc_ray.domain.credentials import Censor
from hc_ray.domain.errors import ConfigError, InfrastructureError, LeakError, StoreError
from hc_ray.domain.events import ErrorEvent, TrialComplete, TrialStart, VerdictEvent
from hc_ray.domain.task import Task
from hc_ray.domain.trial import WITHOUT_MODEL, Attempt, Stage, TrialKey, TrialResult
from hc_ray.reports.report import result_of
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.attempts import Failed, attempt_of, backoff, fault_of, now, persist
from hc_ray_actors.driver import trial_files
from hc_ray_actors.driver.concurrency_window import Slot
from hc_ray_actors.driver.crew.crew import Crew
from hc_ray_actors.driver.crew.roster import Broken
from hc_ray_actors.driver.journal import Lease
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.driver.task_setup import Chores
from hc_ray_actors.driver.trial_record import Record, waits_for_verdict
from hc_ray_actors.trials import Step

T = TypeVar("T")


class Journeys:
    """Runs trials; each ends with a committed result, whatever happens to it."""

    def __init__(
        self,
        plan: Plan,
        crew: Crew,
        store: SweepStore,
        lease: Lease,
        *,
        emit: Callable[[Any], None],
        scan: Callable[[str, Sequence[bytes]], Awaitable[None]],
        sleep: float,
        censor: Censor,
    ) -> None:
        """``scan`` raises ``LeakError`` if the data to be written contains a canary; ``sleep``: delay in seconds before
        every trial but the first."""
        self._plan, self._crew, self._store, self._lease = plan, crew, store, lease
        self._emit, self._scan, self._sleep, self._censor = emit, scan, sleep, censor
        self._begun = False
        self._tasks = {task.digest: task for task in plan.taken}
        self._configs = {one.hash: one.name for one in plan.configs}
        self._chores = Chores(plan.config.retries, crew, tell=self._tell)
        self.close = self._chores.close
        self._retried = set(plan.found.unscored)
        self._troubled: set[asyncio.Task[Any]] = set()
        """Trials with a failed attempt."""

    async def one(self, key: TrialKey, slot: Slot) -> TrialResult:
        """Run one trial up to its committed result. Raises ``Broken``, ``StoreError`` and ``LeakError``, which end the
        sweep."""
        task = self._tasks[key.task_digest]
        earlier = None
        if key.name in self._retried:
            earlier = result_of(self._store, key.name)
        record = Record(key, task, self._plan, self._crew.limits, earlier=earlier)
        try:
            await self._travel(key, task, record, slot, earlier)
        except Broken:
            if not record.attempts:
                # This trial has nothing worth keeping. Trials that met the failure may need its slot to commit their
                # evidence first.
                slot.give()
                await asyncio.gather(*self._troubled, return_exceptions=True)
                raise
            if not record.verdicts:
                record.unscored()
            await self._commit(record)
            raise
        except (LeakError, StoreError):
            raise
        except Exception as fault:
            if record.verdicts:
                record.cut_short(str(fault))
            else:
                self._give_up(record, fault)
        return await self._commit(record)

    def _give_up(self, record: Record, error: Exception) -> None:
        """Mark a trial as unscored. The failure is already in the record, unless it was outside any attempt."""
        fault = fault_of(error)
        if not record.attempts or record.attempts[-1].error != fault.text:
            note = attempt_of(fault, "solve", 1, None)
            record.note(note)
            self._tell(record.key.name, note)
        record.unscored()

    async def _travel(self, key: TrialKey, task: Task, record: Record, slot: Slot, earlier: TrialResult | None) -> None:
        began = now()
        start = TrialStart(trial=key.name, task=key.task, agent=key.agent, seed=key.seed,
                           config=self._configs.get(key.config_hash, ""))  # fmt: skip
        try:
            # Without a slot, so that a hung build blocks no other trial.
            await self._chores.image(task, record)
        except Exception:
            self._emit(start)
            raise
        record.environment(began, self._crew.image_of(task.digest), self._crew.runners)
        await slot.take()
        await self._crew.mended()
        if self._sleep and self._begun:
            await asyncio.sleep(self._sleep)
        self._begun = True
        self._emit(start)
        record.begin()
        stored = self._handed_in(key, task, earlier)
        if earlier is not None and stored is not None:
            record.restore(earlier, stored)
            await self._judge(task, stored, record, slot)
        elif key.agent in WITHOUT_MODEL:
            await self._without_model(task, record, slot)
        else:
            await self._with_model(task, record, slot)

    def _handed_in(self, key: TrialKey, task: Task, earlier: TrialResult | None) -> Submission | None:
        """An earlier start's ungraded submission, for which no model need be asked again; None if there is none."""
        if earlier is None or not waits_for_verdict(earlier) or task.grading == "shared":
            return None  # shared grading: the submission was a live sandbox, now gone
        tar = self._store.find(f"trials/{key.name}/artifacts/submission.tar")
        if tar is None:
            return None
        found = Submission.of(tar, id=f"{key.name}-0", trial=key.name, task_digest=task.digest)
        # A different digest means that a power cut left the file half-written.
        return found if found.digest == earlier.agent_result.metadata.get("submission") else None

    async def _without_model(self, task: Task, record: Record, slot: Slot) -> None:
        submission, oracle = None, record.key.agent == "oracle"
        if oracle and task.grading != "shared":
            kept = self._keeps_output(task)
            submission = await self._persist(
                "reference", record, slot,
                lambda: slot.during(self._crew.verify(task, lambda verifier: verifier.reference(task, kept))),
            )  # fmt: skip
        record.submitted(submission)
        await self._grade(task, submission, record, slot, reference=oracle)

    async def _with_model(self, task: Task, record: Record, slot: Slot) -> None:
        """Run a trial of an agent with a model. With shared grading, the verifier takes over the candidate's sandbox;
        if that breaks, only a new attempt can provide another."""
        retries = self._plan.config.retries
        for number in range(1, retries.attempts + 1):
            try:
                return await self._solve_and_judge(task, record, slot)
            except Exception as fault:
                again = task.grading == "shared" and fault_of(fault).kind == "infrastructure"
                if not again or record.verdicts or not record.submissions or number == retries.attempts:
                    raise
                await asyncio.sleep(backoff(retries, number, f"{record.key.digest}:again"))
                await slot.take()

    async def _solve_and_judge(self, task: Task, record: Record, slot: Slot) -> None:
        key = record.key

        async def solve() -> Step:
            record.begin()
            return _sound(await self._crew.step(key, lambda actor: actor.start(key, task)))

        step = await self._persist("solve", record, slot, solve)
        while step.submission is not None:
            if len(record.verdicts) > (key.solver.refinement if key.agent == "hc" else 0):
                await self._let_go(key)
                raise ConfigError(f"agent {key.agent} asked for another verdict; it has {len(record.verdicts)}")
            record.submitted(step.submission, step.outcome)
            try:
                await self._judge(task, step.submission, record, slot)
            except Exception:
                # The verifier's message is for people: the trial learns only that there is no verdict.
                await self._let_go(key)
                raise
            passed = bool(record.verdicts[-1].passed)
            if not passed and key.solver.refinement:
                record.enter("queue for a slot")
                await slot.take()
            record.enter("solving")
            step = _sound(await self._crew.step(key, methodcaller("resume", key.name, passed)))
        record.ended(step.outcome, step.changed)
        record.enter("recording")

    async def _let_go(self, key: TrialKey) -> None:
        """End a parked trial; if its process is gone, it has ended already."""
        with contextlib.suppress(InfrastructureError):
            await self._crew.step(key, methodcaller("resume", key.name, None))

    async def _judge(self, task: Task, submission: Submission, record: Record, slot: Slot) -> None:
        """Grade a submission. A verdict counts only if the task's reference passes; this holds for passes too, or a
        broken task could only raise the rate."""
        await self._chores.control(task, record, slot)
        await self._grade(task, submission, record, slot)

    def _keeps_output(self, task: Task) -> bool:
        """Whether the verifier's output is kept: sealed, and for dev tasks only."""
        return task.digest not in self._plan.holdout

    async def _grade(
        self, task: Task, submission: Submission | None, record: Record, slot: Slot, *, reference: bool = False
    ) -> None:
        """Get and record a verdict. ``reference``: the submission is the task's own solution; shared grading runs it in
        the grading sandbox."""
        keeps_output = self._keeps_output(task)

        def graded() -> Awaitable[Any]:
            return slot.during(self._crew.verify_near(
                task, submission, lambda verifier, known: verifier.grade(task, known, keeps_output, reference)
            ))  # fmt: skip

        once = submission is not None and submission.living is not None
        verdict = await self._persist("grade", record, slot, graded, once=once)
        record.judged(verdict)
        self._emit(VerdictEvent(trial=record.key.name, passed=bool(verdict.passed)))

    async def _persist(
        self, stage: Stage, record: Record, slot: Slot, work: Callable[[], Awaitable[T]], *, once: bool = False
    ) -> T:
        """Retry ``work`` (unless ``once``), giving up the slot between two attempts."""
        retries = self._plan.config.retries
        if once:
            retries = retries.model_copy(update={"attempts": 1})

        def note(attempt: Attempt) -> None:
            if (trial := asyncio.current_task()) is not None and trial not in self._troubled:
                self._troubled.add(trial)
                trial.add_done_callback(self._troubled.discard)
            record.note(attempt)
            self._tell(record.key.name, attempt)
            slot.give()

        async def pause(seconds: float) -> None:
            await asyncio.sleep(seconds)
            if stage != "grade":
                await slot.take()

        return await persist(work, stage=stage, who=record.key.digest, retries=retries, note=note,
                             mend=self._crew.mend, pause=pause)  # fmt: skip

    def _tell(self, trial: str, attempt: Attempt, task: str = "") -> None:
        lines = attempt.error.strip().splitlines()
        where = f"{task}: " if task else ""
        says = lines[0].removeprefix(where) if lines else attempt.error_type
        again = f"; again in {attempt.again_after_sec:.1f} s" if attempt.again_after_sec is not None else ""
        text = f"{where}{attempt.stage}: {says}{again}"
        self._emit(ErrorEvent(trial=trial, text=text, cause=attempt.error_type))

    async def _commit(self, record: Record) -> TrialResult:
        result = record.result()
        packed = trial_files.files(record, result, self._censor)
        await self._scan(record.key.name, trial_files.plain(record, packed))
        await trial_files.keep(self._store, self._lease, record, packed)
        metadata = result.agent_result.metadata
        self._emit(
            TrialComplete(
                trial=record.key.name,
                passed=result.passed,
                progress=metadata.get("progress"),
                score=metadata.get("score"),
            )
        )
        return result


def _sound(step: Step) -> Step:
    """Return the step, or raise ``Failed`` if it reports a fault."""
    if step.fault is not None:
        raise Failed(step.fault)
    return step
