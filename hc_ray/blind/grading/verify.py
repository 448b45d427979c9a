"""Grades one submission, once, in a sandbox of the verifier's own that no solver can list, enter or reap.

Isolated grading: a fresh sandbox of the task's image, looked at before anything of the submission is in it, then the
submission without the trusted set, then the tests, then ``test.sh`` under the second witness. What a candidate can do
is a verdict; only what is seen outside the sandbox raises."""

import asyncio
import base64
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NotRequired, Protocol, TypedDict, TypeVar, Unpack

from hc_ray.blind.grading.apply_submission import Looks
from hc_ray.blind.grading.contents import Refused, read_contents
from hc_ray.blind.grading.image import Image
from hc_ray.blind.grading.orders import ask
from hc_ray.blind.grading.trusted import Carried
from hc_ray.blind.grading.verdict import Verdict, decide
from hc_ray.blind.sealing.kept import keep, keep_value
from hc_ray.blind.sealing.variables import resolve_templates
from hc_ray.blind.sealing.vault import VerifierSpec, check_expected, load_spec, sealed_files
from hc_ray.domain.candidate import Submission
from hc_ray.domain.errors import DatasetError, SandboxError, VerifierError
from hc_ray.domain.filetree import Member, pack
from hc_ray.domain.ports import Sandbox, SandboxPlace
from hc_ray.domain.runner_paths import RUNNER_LIB
from hc_ray.domain.task import Grading, Task

Kind = TypeVar("Kind", bound=Sandbox, covariant=True)
Files = dict[str, tuple[bytes, bool]]
"""Relative path → content and whether it is executable."""
LOGS = "/logs/verifier"
GRACE_SECONDS = 30.0
"""Seconds beyond the verifier's limit for the grader inside to kill leftovers and report."""


class Makes(Protocol[Kind]):
    """A place that makes sandboxes of some kind."""

    async def create(self, task: Task, name: str, *, network: bool = False) -> Kind: ...


class Terms(TypedDict):
    """The terms of a grading."""

    sealed_root: Path
    place: SandboxPlace
    """Makes sandboxes of the task's image."""
    own_place: NotRequired[SandboxPlace]
    """Makes sandboxes of the verifier's own image (``vault.own_image_folder``), if there is one."""
    threshold: NotRequired[float]
    """The least reward that passes; 1 by default."""
    keep_output: NotRequired[Path | None]
    """A file (mode 0600) that takes the output of ``test.sh``, for dev tasks only; the verdict is kept beside it."""
    keep_solution: NotRequired[Path | None]
    """The same for the output of the reference solution, if it is run."""
    expected: NotRequired[str | None]
    """The sealed digest that the sweep was planned with."""


async def grade(
    task: Task,
    submission: Submission | None,
    *,
    observe: Callable[[dict[str, Any]], None] | None = None,
    **terms: Unpack[Terms],
) -> Verdict:
    """The verdict on ``submission`` (None: the untouched environment). ``observe`` (the auditor's) is given what the
    grader inside reported, each real test's outcome included.

    Raises ``VerifierError`` when sandbox, runner or sealed files fail or are others than expected, ``DatasetError`` for
    a task that ``place`` cannot take."""

    async def work(spec: VerifierSpec, tests: Files) -> dict[str, Any]:
        if spec.own is not None:
            raise DatasetError(f"{task.name}: its verifier has its own image; it cannot use the task's")
        return await in_sandbox(task, submission, spec, tests, terms, observe)

    return await judged(task, submission, "isolated", terms, work)


async def judged(
    task: Task,
    submission: Submission | None,
    mode: Grading,
    terms: Terms,
    work: Callable[[VerifierSpec, Files], Awaitable[dict[str, Any]]],
) -> Verdict:
    """The verdict with the fields returned by ``work``. ``Refused`` becomes a fail; sandbox failures become
    ``VerifierError``."""
    clock = time.monotonic()
    spec, tests = await _sealed_tests(task, terms)
    try:
        fields = await work(spec, tests)
    except Refused as error:
        fields = {"passed": False, "cause": "submission_refused", "witness": "absent", "detail": str(error)}
    except SandboxError as error:
        raise VerifierError(f"the verifier's sandbox failed: {error}") from error
    verdict = Verdict(
        **fields,
        mode=mode,
        task_digest=task.digest,
        sealed_digest=spec.sealed_digest,
        submission=submission.digest if submission else None,
        seconds=time.monotonic() - clock,
    )
    if keep_output := terms.get("keep_output"):
        await asyncio.to_thread(keep_value, keep_output.with_suffix(".json"), verdict)
    return verdict


async def in_sandbox(
    task: Task,
    submission: Submission | None,
    spec: VerifierSpec,
    tests: Files,
    terms: Terms,
    observe: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """The verdict's fields: the submission is taken into a fresh sandbox of ``task``'s image, and graded there. Raises
    ``Refused`` for one that cannot be."""
    contents = await asyncio.to_thread(read_contents, submission.tar) if submission else None
    # A task that asks for shared grading has sandboxes of another kind: this one is nobody's to live in.
    fresh = task.model_copy(update={"grading": "isolated"})
    async with fresh_sandbox(terms["place"], fresh, "grade", network=wants_network(task, spec)) as sandbox:
        key = (type(sandbox).__name__, task.digest + spec.sealed_digest)
        looks = Looks(tests, spec.env, key, partial(fresh_sandbox, terms["place"], fresh, "grade", network=False))
        image = await looks.before(sandbox, contents)
        carried = Carried(tar=b"")
        if submission and contents:
            carried = await looks.carry_over(sandbox, submission.tar, contents, image)
            if carried.tampered:
                detail = "changes what the tests stand on"
                common = {"tampered": carried.tampered, "left_behind": carried.left_behind, "detail": detail}
                return {"passed": False, "cause": "tampered", "witness": "absent", **common}
        try:
            await put_files(sandbox, "/tests", tests)
        except ValueError as error:
            if submission is None:
                raise
            raise Refused(f"with the submission in it, the tests cannot be put beside it: {error}") from None
        report = await _run(sandbox, task, spec, image, tests["test.sh"][0], nodes=observe is not None)
    if observe is not None and report is not None:
        observe(report)
    return {**await decided(report, spec, terms), "left_behind": carried.left_behind}


async def decided(report: dict[str, Any] | None, spec: VerifierSpec, terms: Terms) -> dict[str, Any]:
    """``decide``, with the output kept."""
    keep_output = terms.get("keep_output")
    if keep_output is not None and report is not None:
        await asyncio.to_thread(keep, keep_output, base64.b64decode(report.get("output", "")))
    return decide(report, mentions_pytest=spec.mentions_pytest, threshold=terms.get("threshold", 1.0))


async def _sealed_tests(task: Task, terms: Terms) -> tuple[VerifierSpec, Files]:
    """What a task is graded with. Raises ``VerifierError`` where it is not what the sweep was planned with."""
    sealed_root = terms["sealed_root"]
    spec = check_expected(load_spec(sealed_root, task.digest), terms.get("expected"))
    tests = await asyncio.to_thread(sealed_files, sealed_root, task.digest, "tests")
    # Looked at again, since the files may have been exchanged between the two readings.
    check_expected(load_spec(sealed_root, task.digest), spec.sealed_digest)
    if "test.sh" not in tests:
        raise VerifierError(f"the sealed tests of {task.name} have no test.sh")
    # As Harbor has it: not every copy of a dataset keeps the bit that a script with an interpreter of its own needs.
    return spec, {**tests, "test.sh": (tests["test.sh"][0], True)}


def wants_network(task: Task, spec: VerifierSpec) -> bool:
    """Whether grading gets a network: as ``[verifier]`` says, else the task's environment."""
    return spec.network if spec.network is not None else has_network(task)


def has_network(task: Task) -> bool:
    """Whether the task's environment has a network. One that does not mention it has none."""
    return task.environment.network in ("public", "allowlist")


def fresh_sandbox(place: Makes[Kind], task: Task, purpose: str, *, network: bool) -> AbstractAsyncContextManager[Kind]:
    """A new sandbox of the task's image, closed with the block. Its name derives from public digests; the random part
    only separates gradings."""
    name = f"{purpose}-{task.digest[:12]}-{secrets.token_hex(4)}"
    return closing(place.create(task, name, network=network))


@asynccontextmanager
async def closing(making: Awaitable[Kind]) -> AsyncIterator[Kind]:
    """A sandbox, closed with the block."""
    sandbox = await making
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def put_files(sandbox: Sandbox, folder: str, files: Files) -> None:
    """Write sealed files below ``folder``, executable ones executable: all at once, since each writing starts a process
    of the daemon's."""
    members = [Member(f"{folder}/{path}", "file", 0o755 if bit else 0o644, data=content)
               for path, (content, bit) in files.items()]  # fmt: skip
    if members:
        await sandbox.put_tar(pack(members, stamp=time.time()).tar)


async def _run(
    sandbox: Sandbox, task: Task, spec: VerifierSpec, image: Image, script: bytes, *, nodes: bool
) -> dict[str, Any] | None:
    order = run_order(task, spec, image, script, sandbox.workdir, lib=RUNNER_LIB)
    if nodes:
        order["env"]["HC_WITNESS_NODES"] = "1"
    return (await ask(sandbox, "grade", order, spec.timeout_sec + GRACE_SECONDS))[0]


def run_order(task: Task, spec: VerifierSpec, image: Image, script: bytes, cwd: str, *, lib: str) -> dict[str, Any]:
    """How ``test.sh`` is run: with the variables of the task's verifier, and those that bring in the witness from
    ``lib``. Raises ``VerifierError`` for one that the host lacks."""
    try:
        env = resolve_templates(spec.env, os.environ)
    except DatasetError as error:
        raise VerifierError(f"the verifier of this task {error}") from None
    paths = [lib, *filter(None, [env.get("PYTHONPATH", task.environment.env.get("PYTHONPATH"))])]
    return {
        "command": shell_command("/tests/test.sh", script, bash=image.bash),
        "cwd": cwd,
        "env": {**env, "PYTHONPATH": ":".join(paths), "PYTEST_PLUGINS": "hc_witness"},
        "timeout": spec.timeout_sec,
        "logs": LOGS,
        "user": spec.user,
    }


def shell_command(path: str, script: bytes, *, bash: bool) -> list[str]:
    """The command that runs a script of a task: by bash (sh where the image has none) with the options of its first
    line, or by itself where its first line names another interpreter."""
    first = script.split(b"\n", 1)[0].decode(errors="replace").strip()
    words = first[2:].split() if first.startswith("#!") else []
    if words and words[0].endswith("/env"):
        words = words[1:]
    shell = words[0].rpartition("/")[2] if words else "bash"
    if shell not in ("bash", "sh", "dash", "ash"):
        return [path]
    return ["bash" if bash else "sh", *words[1:], path]
