"""The reference solution: the ``oracle`` agent's submission, and the control that a task must pass before its fails
count."""

import asyncio
from typing import Unpack

from hc_ray.blind.grading.separate import grade_fresh
from hc_ray.blind.grading.shared import grade_shared
from hc_ray.blind.grading.verdict import Verdict, excused
from hc_ray.blind.grading.verify import Terms, fresh_sandbox, has_network
from hc_ray.blind.sealing.kept import keep_value, read_kept
from hc_ray.blind.sealing.solution import run_solution, without_solution
from hc_ray.blind.sealing.vault import check_expected, load_spec
from hc_ray.domain.candidate import Submission
from hc_ray.domain.errors import SandboxError, VerifierError
from hc_ray.domain.task import Task
from hc_ray.domain.value import digest_of


async def reference(task: Task, *, trial: str = "oracle", **terms: Unpack[Terms]) -> Submission:
    """What ``solution/solve.sh`` changes in a fresh sandbox. Its exit code decides nothing: the tests do.
    Raises ``DatasetError`` when the task has no solution, ``VerifierError`` when sandbox or sealed files fail."""
    spec = check_expected(load_spec(terms["sealed_root"], task.digest), terms.get("expected"))
    try:
        async with fresh_sandbox(terms["place"], task, "oracle", network=has_network(task)) as sandbox:
            ended = await run_solution(sandbox, task, spec, terms["sealed_root"], terms.get("keep_solution"))
            tar = await without_solution((await sandbox.difference()).tar, task, terms["sealed_root"])
    except (SandboxError, ValueError) as error:
        raise VerifierError(f"the reference solution could not be run: {error}") from error
    return make_submission(task, tar, trial).model_copy(update={"ended": ended})


def make_submission(task: Task, tar: bytes, trial: str) -> Submission:
    """A submission of this tar."""
    return Submission.of(tar, id=trial, trial=trial, task_digest=task.digest)


async def control(task: Task, **terms: Unpack[Terms]) -> Verdict:
    """The verdict on the task's own reference; unless it passes, a fail of the task means nothing and is unscored.

    Run once per public digest, sealed digest, mode, network, threshold and kind of place; a pass is kept, sealed.
    A fail is not: a busy machine can make a reference late, and the next sweep looks again. ``passed`` is None, with
    cause ``no_reference``, for a task that has none. Raises ``VerifierError`` for machinery."""
    spec = check_expected(load_spec(terms["sealed_root"], task.digest), terms.get("expected"))
    kind, mode, threshold = type(terms["place"]).__name__, task.grading, terms.get("threshold", 1.0)
    known = digest_of([task.digest, spec.sealed_digest, mode, has_network(task), kind, threshold])
    path = terms["sealed_root"] / "controls" / f"{known}.json"
    if (passed := await asyncio.to_thread(read_kept, path, Verdict)) is not None:
        return passed
    if not spec.has_solution:
        digests = {"task_digest": task.digest, "sealed_digest": spec.sealed_digest}
        verdict = Verdict(passed=None, cause="no_reference", mode=mode, **digests)
    elif mode == "shared":
        verdict = await grade_shared(task, None, spared=None, solve=True, **terms)
    else:
        verdict = await grade_fresh(task, await reference(task, **terms), **terms)
    verdict = excused(verdict)
    if verdict.passed:
        await asyncio.to_thread(keep_value, path, verdict)
    return verdict
