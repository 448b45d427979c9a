"""The audit of a finished sweep: how good its self-tests were, and what every candidate was worth, seen from behind the
wall and after the fact. Nothing of it reaches a prompt, and nothing in it names a hidden test or quotes a reference.

What the auditor saw of each end state is kept under the sealed root, so that an audit that was broken off goes on where
it was, and one of another tester's suites grades no candidate twice. Of a holdout nothing is kept or told but sums."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from hc_ray.domain.errors import ConfigError, DatasetError, InfrastructureError, OutputError
from hc_ray.domain.suite import SelfTest, Suite
from hc_ray.domain.task import Task
from hc_ray.domain.value import digest_of, readable_json
from hc_ray.machine.paths import data_root
from hc_ray.reports.report import read_sweep
from hc_ray.reports.status import status_of
from hc_ray.stores.sweep_directory import SweepStore, sweep_at
from hc_ray_actors import verifiers
from hc_ray_actors.backends import choose, open_place
from hc_ray_actors.driver.task_choice import dataset_home, sealed_dataset, sealed_folder, with_network
from hc_ray_actors.jobs.audit_subjects import (
    NO_FILES,
    Audit,
    Outcome,
    Subject,
    read_subjects,
)
from hc_ray_actors.jobs.audit_summary import summarise
from hc_ray_actors.verifiers import audit as figures
from hc_ray_actors.verifiers import exposure

FILE = "audit.json"
REPEATS = 3
"""Runs on the reference and on the untouched environment."""

Told = Callable[[str], None]
LookAt = Callable[[Task, exposure.State, Sequence[SelfTest], int], Awaitable[exposure.Seen]]


def prepare(out: str, *, self_tests: bool = True, split: str = "dev") -> Audit:
    """Work out an audit; without ``self_tests`` of the candidates' verdicts alone, a fraction of the work. Raises
    ``UserError``: no sweep, one that runs, a holdout that was not asked for by name."""
    store = sweep_at(out)
    sweep = read_sweep(store)
    if status_of(store)["owner"] == "running":
        raise OutputError(f"{out}: this sweep is still running; audit it when it has ended")
    own = "holdout" if sweep["split"] == "holdout" else "dev"
    if own != split:
        remedy = "audit it with --split holdout (a counted look)" if own == "holdout" else "leave out --split"
        raise ConfigError(f"{out}: this sweep ran on {own}: {remedy}")
    folder, sealed = sealed_dataset(sweep, "the sweep cannot be audited")
    home = dataset_home(folder)
    fixed = verifiers.load_split(home)
    swept = {task["digest"] for task in sweep["tasks"]}
    tasks = {
        task.digest: with_network(task, sweep["config"]["network"]) for task in sealed.tasks if task.digest in swept
    }
    if own == "dev" and fixed is not None:
        tasks = {digest: task for digest, task in tasks.items() if fixed.side(digest) != "holdout"}
    subjects, trials = read_subjects(store, tasks)
    if not self_tests:
        subjects = tuple(subject.model_copy(update={"suites": ()}) for subject in subjects)
    now = digest_of({digest: sealed.sealed_digests.get(digest) for digest in swept})
    return Audit(
        out=out,
        split=own,
        backend=choose(sweep["sandbox"]).backend,
        sealed_root=str(sealed_folder(folder)),
        home=str(home),
        subjects=subjects,
        trials=trials,
        tests_changed=now != sweep["sealed_digest"],
    )


def run(audit: Audit, *, told: Told = lambda line: None) -> tuple[dict[str, Any], Outcome]:
    """Audit, and leave ``audit.json`` in the sweep directory. Answers what it holds, and what it was made of (which
    stays behind the wall)."""
    if audit.split == "holdout":
        verifiers.record_look(Path(audit.home), sweep=f"audit of {audit.out}", trials=len(audit.trials))
    began = time.monotonic()
    outcome = asyncio.run(measured(audit, told))
    summary = {**summarise(audit, outcome), "seconds": round(time.monotonic() - began, 1)}
    SweepStore(audit.out).write(FILE, readable_json(summary))
    return summary, outcome


async def measured(audit: Audit, told: Told = lambda line: None) -> Outcome:
    """Look at every end state of every task."""
    place = open_place(audit.backend, data_root() / "public", label="audit")
    auditor = exposure.Auditor(sealed_root=Path(audit.sealed_root), place=place, keep=audit.split != "holdout")
    slots = max(1, (os.cpu_count() or 2) // 2)
    # As many tasks at once as there are slots, and one more to fill the gaps between their steps.
    looking, free, done = asyncio.Semaphore(slots), asyncio.Semaphore(slots + 1), 0

    async def look(task: Task, state: exposure.State, tests: Sequence[SelfTest], repeats: int) -> exposure.Seen:
        async with looking:
            return await auditor.look(task, state, tests, repeats)

    async def one(subject: Subject) -> Outcome:
        nonlocal done
        async with free:
            outcome = await _task(look, subject)
        done += 1
        told(f"{done} of {len(audit.subjects)} tasks")
        return outcome

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(subject)) for subject in audit.subjects]
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None
    finally:
        await place.close()
    found = [task.result() for task in running]
    return Outcome(
        evidence=tuple(one for outcome in found for one in outcome.evidence),
        verdicts={task: bits for outcome in found for task, bits in outcome.verdicts.items()},
        lost=sum(outcome.lost for outcome in found),
    )


async def _task(look_at: LookAt, subject: Subject) -> Outcome:
    """All that is looked at of one task: the reference first, since without it nothing else can be believed."""
    task, suites = subject.task, tuple(renamed(suite, number) for number, suite in enumerate(subject.suites))
    tests = tuple(test for suite in suites for test in (*suite.tests, *suite.dropped))
    try:
        reference = await look_at(task, exposure.State(kind="reference"), tests, REPEATS)
        untouched = await look_at(task, exposure.State(kind="untouched"), tests, REPEATS)
    except (InfrastructureError, DatasetError) as fault:
        evidence = figures.Evidence(task=task.name, suites=suites, unmeasured=str(fault))
        return Outcome(evidence=(evidence,), verdicts={task.name: {}}, lost=1)
    seen = [reference, untouched]
    if not reference.passed:
        evidence = figures.Evidence(task=task.name, suites=suites, unmeasured="its reference fails its own tests")
        return Outcome(evidence=(evidence,), verdicts={task.name: {}}, lost=0)
    states = [exposure.State(kind="empty"), exposure.State(kind="stub")] if tests else []
    states += [exposure.State(kind="candidate", files=files, tar=subject.differences.get(digest, ""))
               for digest, files in subject.candidates.items()]  # fmt: skip
    answers = await asyncio.gather(*(_look(look_at(task, state, tests, 1)) for state in states))
    bits: dict[str, bool | None] = {NO_FILES: untouched.passed}
    for state, answer in zip(states, answers, strict=True):
        if state.kind == "candidate":
            digest = next(digest for digest, own in subject.candidates.items() if own == state.files)
            bits[digest] = answer.passed if answer else None
    seen += [answer for answer in answers if answer is not None]
    evidence = figures.Evidence(task=task.name, suites=suites, seen=tuple(seen))
    lost = sum(answer is None for answer in answers)
    return Outcome(evidence=(evidence,), verdicts={task.name: bits}, lost=lost)


async def _look(look: Awaitable[exposure.Seen]) -> exposure.Seen | None:
    """One look; None where the machinery failed: one end state's trouble is not the audit's."""
    try:
        return await look
    except (InfrastructureError, DatasetError):
        return None


def renamed(suite: Suite, number: int) -> Suite:
    """A suite with ids that no test of another suite of its task has."""
    tests = [
        test.model_copy(update={"id": f"{number}.{place}"}) for place, test in enumerate((*suite.tests, *suite.dropped))
    ]
    admitted = len(suite.tests)
    return suite.model_copy(update={"tests": tuple(tests[:admitted]), "dropped": tuple(tests[admitted:])})
