"""Separate grading: the tests run in the verifier's own image, and only the artefacts that the task declares are
transferred from a submission.

The submission is applied to the task's own image in a sandbox where nothing of it runs, the artefacts are packed from
there (unchanged files of the image too, as in Harbor), and the tests are given them at the places that they had. The
verifier's image is the untouched image of this grading: artefacts that touch what its tests stand on void the trial.
Unlike Harbor, ``/logs/artifacts`` does not cross: no submission holds anything below ``/logs``."""

import asyncio
import json
from typing import Any, Unpack

from hc_ray.blind.grading import verify
from hc_ray.blind.grading.contents import Refused, read_contents, refusing
from hc_ray.blind.grading.verdict import Verdict
from hc_ray.blind.sealing.own_image import OwnImage
from hc_ray.blind.sealing.vault import VerifierSpec, own_image_name
from hc_ray.domain.candidate import Submission
from hc_ray.domain.errors import VerifierError
from hc_ray.domain.filetree import absolute
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.runner_paths import machinery_command
from hc_ray.domain.task import Task

_COLLECT_SECONDS = 120.0
_LIMIT = 64 << 20
"""Maximum bytes of artefacts, as for any submission."""
_TOO_MUCH = 3


async def grade_fresh(task: Task, submission: Submission | None, **terms: Unpack[verify.Terms]) -> Verdict:
    """The verdict on ``submission`` (None: the untouched environment) in a fresh sandbox, of the task's image or of the
    verifier's own. Raises as ``verify.grade``."""
    if task.grading != "separate":
        return await verify.grade(task, submission, **terms)

    async def work(spec: VerifierSpec, tests: verify.Files) -> dict[str, Any]:
        own = spec.own
        if own is None:
            raise VerifierError("the task's verifier has no image of its own")
        mine = Task(
            name=task.name, digest=own_image_name(task.digest, spec.sealed_digest), instruction="",
            environment=own.environment,
        )  # fmt: skip
        sealed = {path: file for path, file in tests.items() if path != "Dockerfile"}
        inside = spec.model_copy(update={"env": {**own.environment.env, **spec.env}})
        tar = await _artefacts(task, submission, own, terms["place"])
        handed = Submission(id="artefacts", trial="", task_digest=mine.digest, tar=tar, digest="")
        return await verify.in_sandbox(mine, handed, inside, sealed, {**terms, "place": terms["own_place"]})

    return await verify.judged(task, submission, "separate", terms, work)


async def _artefacts(task: Task, submission: Submission | None, own: OwnImage, place: SandboxPlace) -> bytes:
    if not own.artifacts:
        return b""
    async with verify.fresh_sandbox(place, task, "collect", network=False) as sandbox:
        if submission is not None:
            await asyncio.to_thread(read_contents, submission.tar)
            with refusing():
                await sandbox.put_tar(submission.tar)
        sources = [[absolute(one.source, sandbox.workdir), list(one.exclude)] for one in own.artifacts]
        order = json.dumps({"sources": sources, "limit": _LIMIT}).encode()
        done = await sandbox.exec(
            machinery_command("collect"), timeout=_COLLECT_SECONDS, cwd="/", stdin=order, output_limit=2 * _LIMIT
        )
    if done.exit_code == _TOO_MUCH or done.truncated or done.timed_out:
        raise Refused(f"the artefacts exceed {_LIMIT} bytes, or cannot be read in time")
    if done.exit_code != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Refused(f"the artefacts cannot be read: {said[-1][:200] if said else done.exit_code}")
    return done.stdout
