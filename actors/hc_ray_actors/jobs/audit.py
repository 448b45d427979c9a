"""The audit of a finished sweep: the quality of its self-tests, and the verdict of every candidate, measured behind the
wall. Nothing of it reaches a prompt, and nothing in it names a hidden test or quotes a reference.

The result for each end state is kept under the sealed root, so that an interrupted audit can continue, and an audit of
another tester's suites grades no candidate twice. For a holdout, only sums are kept and shown."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hc_ray.agent.budget import side_by_side
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
from hc_ray_actors.jobs.audit_subjects import NO_FILES, Audit, AuditedTrial, Outcome, Subject, read_subjects
from hc_ray_actors.verifiers import audit as figures
from hc_ray_actors.verifiers import exposure

FILE = "audit.json"
TRIVIAL: tuple[exposure.StateKind, ...] = ("empty", "stub")
REPEATS = 3
"""Number of runs on the reference and on the untouched environment."""

Told = Callable[[str], None]
LookAt = Callable[[Task, exposure.State, Sequence[SelfTest], int], Awaitable[exposure.Seen]]
Looked = tuple[figures.Evidence, dict[str, bool | None], int]
"""A task's evidence, its candidates' verdicts by digest, and the number of end states lost to failures."""


def prepare(out: str, *, self_tests: bool = True, split: str = "dev") -> Audit:
    """Plan an audit; without ``self_tests``, only of the candidates' verdicts, which is much faster. Raises
    ``UserError`` if there is no finished sweep, or if its split is a holdout that ``split`` does not name."""
    store = sweep_at(out)
    sweep = read_sweep(store)
    if status_of(store)["owner"] == "running":
        raise OutputError(f"{out}: this sweep is still running; audit it after it has ended")
    own = "holdout" if sweep["split"] == "holdout" else "dev"
    if own != split:
        remedy = "audit it with --split holdout (a counted look)" if own == "holdout" else "omit --split"
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
        gone=len(swept - sealed.sealed_digests.keys()),
        tests_changed=now != sweep["sealed_digest"],
    )


def run(audit: Audit, *, told: Told = lambda line: None) -> tuple[dict[str, Any], Outcome]:
    """Run the audit and write ``audit.json`` to the sweep directory. Returns its content, and the evidence behind it,
    which stays behind the wall."""
    if audit.split == "holdout":
        verifiers.record_look(Path(audit.home), sweep=f"audit of {audit.out}", trials=len(audit.trials))
    began = time.monotonic()
    outcome = asyncio.run(measured(audit, told))
    summary = {**summarise(audit, outcome), "seconds": round(time.monotonic() - began, 1)}
    SweepStore(audit.out).write(FILE, readable_json(summary))
    return summary, outcome


async def measured(audit: Audit, told: Told = lambda line: None) -> Outcome:
    """Measure every end state of every task."""
    place = open_place(audit.backend, data_root() / "public", label="audit")
    auditor = exposure.Auditor(sealed_root=Path(audit.sealed_root), place=place, keep=audit.split != "holdout")
    slots = max(1, (os.cpu_count() or 2) // 2)
    # One task more than there are slots, to fill the gaps between steps.
    looking, free, done = asyncio.Semaphore(slots), asyncio.Semaphore(slots + 1), 0

    async def look(task: Task, state: exposure.State, tests: Sequence[SelfTest], repeats: int) -> exposure.Seen:
        async with looking:
            return await auditor.look(task, state, tests, repeats)

    async def one(subject: Subject) -> Looked:
        nonlocal done
        async with free:
            looked = await _task(look, subject)
        done += 1
        told(f"{done} of {len(audit.subjects)} tasks")
        return looked

    try:
        found = await side_by_side([asyncio.ensure_future(one(subject)) for subject in audit.subjects])
    finally:
        await place.close()
    return Outcome(
        evidence=tuple(evidence for evidence, _, _ in found),
        verdicts={evidence.task: bits for evidence, bits, _ in found},
        lost=sum(lost for _, _, lost in found),
    )


async def _task(look_at: LookAt, subject: Subject) -> Looked:
    """Measure one task, its reference first, since without it no other result is trustworthy."""
    task, suites = subject.task, tuple(renamed(suite, number) for number, suite in enumerate(subject.suites))
    tests = tuple(test for suite in suites for test in (*suite.tests, *suite.dropped))
    evidence = partial(figures.Evidence, task=task.name, suites=suites)
    try:
        reference = await look_at(task, exposure.State(kind="reference"), tests, REPEATS)
        untouched = await look_at(task, exposure.State(kind="untouched"), tests, REPEATS)
    except (InfrastructureError, DatasetError) as fault:
        return evidence(unmeasured=str(fault)), {}, 1
    if not reference.passed:
        return evidence(unmeasured="its reference fails its own tests"), {}, 0
    trivial = {kind: exposure.State(kind=kind) for kind in TRIVIAL} if tests else {}
    states = trivial | subject.candidates
    answers = await asyncio.gather(*(_look(look_at(task, state, tests, 1)) for state in states.values()))
    bits: dict[str, bool | None] = {NO_FILES: untouched.passed}
    for name, answer in zip(states, answers, strict=True):
        if name in subject.candidates:
            bits[name] = answer.passed if answer else None
    seen = [answer for answer in answers if answer is not None]
    return evidence(seen=(reference, untouched, *seen)), bits, len(answers) - len(seen)


async def _look(look: Awaitable[exposure.Seen]) -> exposure.Seen | None:
    """One measurement; None if the infrastructure failed, so that one end state does not end the audit."""
    try:
        return await look
    except (InfrastructureError, DatasetError):
        return None


def renamed(suite: Suite, number: int) -> Suite:
    """A suite with test ids that are unique among its task's suites."""
    tests = [
        test.model_copy(update={"id": f"{number}.{place}"}) for place, test in enumerate((*suite.tests, *suite.dropped))
    ]
    admitted = len(suite.tests)
    return suite.model_copy(update={"tests": tuple(tests[:admitted]), "dropped": tuple(tests[admitted:])})


SCHEMA_VERSION = 1

DEFINITIONS = {
    "validity": "share of judging tests that the reference solution passes in all three runs",
    "triviality": "share of tests (guards excluded) that the untouched environment, empty files or an idle stub pass",
    "discrimination": "share of tests that some, but not all, candidates of the sweep pass",
    "flakiness": "share of tests whose outcome differs within three runs on the reference or untouched environment",
    "fault_detection": "share of the candidates that fail the hidden tests and some valid test of the suite too",
    "false_rejection": "share of the candidates that pass the hidden tests, but fail some test of the suite",
    "overlap": "share of hidden tests for which some self-test reaches a Matthews correlation of "
    f"{figures.COVERED:g} over the reference and the candidates. Limits: the hidden tests must use pytest "
    f"and there must be {figures.FEWEST_STATES} end states; a hidden test that no end state fails is left out; two "
    "tests that no end state distinguishes cover each other",
}


def summarise(audit: Audit, outcome: Outcome) -> dict[str, Any]:
    """The content of ``audit.json``, without its timestamp."""
    measured = [one for one in outcome.evidence if not one.unmeasured]
    pools, states = pools_of(audit, outcome), [state for one in measured for state in one.seen]
    summary: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "split": audit.split,
        "sandbox": audit.backend,
        "trials": len(audit.trials),
        "tests_changed": audit.tests_changed,
        "definitions": DEFINITIONS,
        "tasks": {
            "audited": len(outcome.evidence),
            "measured": len(measured),
            "with_overlap": sum(bool(figures.informative(one)) for one in measured),
            "lost_end_states": outcome.lost,
        },
        "faults": {
            "candidates_failing": sum(one.kind == "candidate" and one.passed is False for one in states),
            "candidates_passing": sum(one.kind == "candidate" and one.passed is True for one in states),
        },
        "whole": figures.stages(outcome.evidence).model_dump(mode="json"),
        "disagreeing_verdicts": sum(bool(pool["disagrees"]) for pool in pools),
    }
    if audit.split == "dev":
        summary["unmeasured"] = {one.task: one.unmeasured for one in outcome.evidence if one.unmeasured}
        summary["suites"] = [
            {"task": one.task, "key": suite.key, **figures.stages([alone]).model_dump(mode="json")}
            for one in outcome.evidence
            for suite in one.suites
            for alone in [one.model_copy(update={"suites": (suite,)})]
        ]
        summary["pools"] = pools
    return summary


def pools_of(audit: Audit, outcome: Outcome) -> list[dict[str, Any]]:
    """Every trial with candidates, and each candidate's blind verdict, for ``report --replay``."""
    return [_pool(trial, outcome.verdicts.get(trial.task, {})) for trial in audit.trials if trial.candidates]


def _pool(trial: AuditedTrial, bits: Mapping[str, bool | None]) -> dict[str, Any]:
    """A trial's candidates with verdicts; one without files counts as the untouched workspace. ``disagrees``: whether
    regrading the submission's files gave another verdict; None unless the trial had exactly one verdict."""
    candidates = [{"id": identity, "passed": bits.get(digest)} for identity, digest in trial.candidates]
    chosen = next((one["passed"] for one in candidates if one["id"] == trial.chosen), None)
    known = chosen is not None and trial.passed is not None and trial.verdicts == 1
    told = {"trial": trial.name, "task": trial.task, "seed": trial.seed, "chosen": trial.passed}
    return {**told, "disagrees": chosen != trial.passed if known else None, "candidates": candidates}
