"""Shared grading (Harbor's way): the tests run in the candidate's own living sandbox, since they need what runs there.

The candidate's processes are root in there and alive. The locks: ``inside/grading/shared.py`` (tests and reward in a
mount namespace that nobody else sees, a mark that keeps others from tracing), the runner at a place that cannot be
moved, and what the tests stand on compared with the untouched image: before (what isolated grading would leave behind
is put back as the image has it, what it would void voids here), while the tests run (times of change that nobody can
set back) and after. What the tests themselves change of it is learnt from the task's own reference, which is no
adversary: ``Verdict.restless``, kept with the control."""

from typing import Any, Unpack

from hc_ray.blind.grading import verify
from hc_ray.blind.grading.contents import refusing
from hc_ray.blind.grading.shared_grading import Grading
from hc_ray.blind.grading.untouched import Untouched
from hc_ray.blind.grading.verdict import Verdict
from hc_ray.blind.sealing.solution import run_solution
from hc_ray.blind.sealing.vault import VerifierSpec
from hc_ray.domain.candidate import Submission
from hc_ray.domain.errors import DatasetError, VerifierError
from hc_ray.domain.ports import Adopts, SandboxPlace
from hc_ray.domain.task import Task


async def grade_shared(
    task: Task,
    submission: Submission | None,
    *,
    spared: tuple[str, ...] | None,
    solve: bool = False,
    careful: bool = True,
    **terms: Unpack[verify.Terms],
) -> Verdict:
    """The verdict on a submission in the sandbox that its ticket names, which ends with it. None: on the untouched
    environment, with ``solve`` on the reference solution, in a sandbox of its own. ``spared``: what the control of the
    task said that its tests change (``Verdict.restless``); None asks for just that. ``careful``: look for what was
    tampered with. Raises as ``verify.grade``."""
    if submission is not None and submission.living is None:
        raise VerifierError("shared grading needs the candidate's running sandbox, but the submission came without it")

    async def work(spec: VerifierSpec, tests: verify.Files) -> dict[str, Any]:
        place, network = _shared(terms["place"]), verify.has_network(task)
        if verify.wants_network(task, spec) != network:
            raise DatasetError(
                f"{task.name}: its verifier and its environment ask for different networks, but shared grading uses "
                "one sandbox for both: use --grading isolated"
            )
        untouched = Untouched(place, task, network=network)
        adopted = submission and verify.closing(place.adopt(task, submission.living or ""))
        with refusing():
            async with adopted or untouched.fresh() as sandbox:
                grading = Grading(task, sandbox, spec, tests, untouched=untouched, spared=spared)
                if not careful:
                    # The look leaves the witness's name in the sandbox, which would be a difference.
                    await grading.plain()
                kept = terms.get("keep_solution")
                ended = await run_solution(sandbox, task, spec, terms["sealed_root"], kept) if solve else ""
                return {**await grading.fields(terms, careful=careful), "solution": ended}

    return await verify.judged(task, submission, "shared", terms, work)


def _shared(place: SandboxPlace) -> Adopts:
    """The place, if anybody's sandbox can be graded in there. The plan refuses such tasks before any trial starts."""
    if isinstance(place, Adopts):
        return place
    raise DatasetError("shared grading needs Docker: use --sandbox docker or --grading isolated")
