"""The tools of the MCP server: write and run self-tests, decompose a task, describe sweeps and trials.

Suites are written by the model from an instruction. Nothing here imports code that opens a task's tests, and no answer
contains verifier output."""

import asyncio
import contextlib
import itertools
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from hc_ray.agent.budget import Asking, Purse, payable
from hc_ray.agent.role import RoleModel
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.config import RoleName, SolverConfig, SweepConfig
from hc_ray.domain.errors import UserError
from hc_ray.domain.prompt import Malformed
from hc_ray.domain.suite import Cell, SelfTest
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.trial import seed_of
from hc_ray.domain.value import digest_of
from hc_ray.reports.status import status_of
from hc_ray.reports.trial_text import expected
from hc_ray.reports.trial_view import describe, find_trial
from hc_ray.search import decompose
from hc_ray.search.orchestrate import make_suite
from hc_ray.search.selection import deciding
from hc_ray.selftests.runner import SuiteRuns
from hc_ray.spec.reading import read_spec
from hc_ray_actors.backends import choose
from hc_ray_actors.driver.configs import drafts, settle
from hc_ray_actors.integrations.mcp_folders import Folders
from hc_ray_actors.integrations.mcp_workspace import WORKDIR, FilledPlace, contents, keep, kept
from hc_ray_actors.jobs.answering import ONE_TASK, answering
from hc_ray_actors.remote_place import RemotePlace, Station
from hc_ray_actors.sandboxes import Sandboxes

Folder = Annotated[str, Field(description="The folder that the work is done in. It is copied and never changed.")]
Asked = Annotated[str, Field(description="What the result must be, in words; paths relative to the workspace.")]
Named = Annotated[str | None, Field(description="A suite of generate_tests, or a suite's file. Default: the last one.")]


class Failure(BaseModel):
    test_name: str
    error: str
    expected: str
    actual: str


class SuiteRun(BaseModel):
    """The result of the tests with an expectation; inputs without one are not counted."""

    passed: int
    failed: int
    total: int
    progress: float = Field(description="The share that passed, 0 to 1.")
    failures: list[Failure]
    suite: str
    weak: bool
    left_out: list[str]


class Workshop:
    """The tools, as methods of the same names, with the engines, started on first use, and the sandboxes of this
    machine. A tool raises ``HcRayError`` for requests that it refuses."""

    def __init__(self, config: SweepConfig, folders: Folders, image: str) -> None:
        parts = config.solver.model_copy(update={"decompose": "model"})  # so that a separate decomposer is planned
        self._config = config.model_copy(update={**ONE_TASK, "agents": ("hc",), "solver": parts})
        self._folders, self._image = folders, image
        self._opened = contextlib.AsyncExitStack()
        self._opening = asyncio.Lock()
        self._crew: tuple[SolverConfig, dict[RoleName, RoleModel]] | None = None
        self._place: RemotePlace | None = None
        self._turns: defaultdict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Calls on one workspace are serialised, since their sandboxes share names."""
        self._numbers = itertools.count(1)

    async def close(self) -> None:
        """End sandboxes and engines."""
        await self._opened.aclose()

    async def _models(self) -> tuple[SolverConfig, dict[RoleName, RoleModel]]:
        async with self._opening:
            if self._crew is None:
                (planned, *_), _ = await asyncio.to_thread(lambda: settle(drafts(self._config)))
                roles = await self._opened.enter_async_context(answering(planned.models, planned.seen))
                self._crew = planned.config.solver, roles
            return self._crew

    async def _filled(self, task: Task, tar: bytes) -> FilledPlace:
        """A place whose sandboxes hold a workspace."""
        async with self._opening:
            if self._place is None:
                choice = await asyncio.to_thread(choose, self._config.sandbox, [task])
                sandboxes = Sandboxes(choice.backend, None, self._config.sandbox_slots)
                self._opened.push_async_callback(sandboxes.stop)
                self._place = RemotePlace({"here": Station(sandboxes)})
            return FilledPlace(self._place, tar)

    async def generate_tests(self, workspace: Folder, instruction: Asked) -> dict[str, Any]:
        """Write tests for an instruction before the work is done, and keep those that can run, are stable and can fail.
        May take minutes. In a weak suite no test can tell a right result from an empty one; a guard is a test that
        passes before any work is done and must stay so. ``suite`` is the name to give to run_tests."""
        _said(instruction)
        path = self._folders.workspace(workspace)
        async with self._turns[path]:
            seen = await asyncio.to_thread(contents, path)
            task = seen.task(path, instruction, self._image)
            place = await self._filled(task, seen.tar)
            solver, roles = await self._models()
            limit = solver.testgen.seconds
            try:
                async with asyncio.timeout(limit):
                    suite = await make_suite(task, config=solver, seed=0, tester=roles["tester"], place=place)
            except TimeoutError:
                raise UserError(f"the suite was not finished within {limit:g} s (solver.testgen.seconds)") from None
            file = await asyncio.to_thread(keep, path, suite, seen.tar)
        reasons = {verdict.id: verdict.reason for verdict in suite.gate}
        return {
            "suite": file.stem,
            "file": str(file),
            "weak": not deciding(suite.tests),
            "tests": [_told(test) for test in suite.tests],
            "dropped": {test.id: reasons.get(test.id, "") for test in suite.dropped},
            "left_out": list(seen.left_out),
            "tokens": suite.prompt_tokens + suite.completion_tokens,
        }

    async def run_tests(self, workspace: Folder, suite: Named = None) -> SuiteRun:
        """Run generated tests on a copy of the workspace in a sandbox."""
        path = self._folders.workspace(workspace)
        async with self._turns[path]:
            name, tests, before = await asyncio.to_thread(kept, path, suite, self._folders)
            now = await asyncio.to_thread(contents, path)
            before = before or now
            task = before.task(path, "", self._image)
            forks = SandboxForks(await self._filled(task, before.tar), task, f"run {next(self._numbers)}")
            state = {"": "the workspace as it is now"}
            forks.remember(state, now.since(before))
            try:
                cells = await SuiteRuns(forks).try_out("workspace", state, tests)
            finally:
                await forks.close()
        asked = [pair for pair in zip(tests, cells, strict=True) if pair[0].expectation.kind != "unknown"]
        failures = [_failure(test, cell) for test, cell in asked if cell.outcome != "pass"]
        passed = len(asked) - len(failures)
        return SuiteRun(
            passed=passed,
            failed=len(failures),
            total=len(asked),
            progress=round(passed / len(asked), 4) if asked else 0.0,
            failures=failures,
            suite=name,
            weak=not deciding(tests),
            left_out=list(now.left_out),
        )

    async def decompose(self, instruction: Asked) -> dict[str, Any]:
        """Divide an instruction into three to five parts; generic ones (by_model: false) where the model fails."""
        _said(instruction)
        _, roles = await self._models()
        asking = Asking(roles.get("decomposer", roles["solver"]), Purse(self._config.budget.tokens))
        spec = read_spec(instruction, Environment(workdir=WORKDIR))
        seed, tokens = seed_of(digest_of(instruction), 0, "decomposer"), self._config.solver.max_answer_tokens
        prompt = decompose.ask(spec, seed=seed, max_tokens=tokens)
        if not await payable([(asking, prompt)]):
            raise UserError(f"the instruction is longer than a trial's budget ({self._config.budget.tokens:,} tokens)")
        (answer,) = await asking.all([("decompose", prompt)])
        parts = decompose.read(answer)
        found = decompose.GENERIC if isinstance(parts, Malformed) else parts
        return {"parts": [part.model_dump() for part in found], "by_model": found is not decompose.GENERIC}

    async def sweep_status(self, out: Annotated[str, Field(description="A sweep directory.")]) -> dict[str, Any]:
        """How far a sweep is."""
        return await asyncio.to_thread(lambda: status_of(self._folders.sweep(out)))

    async def show_trial(
        self, trial: Annotated[str, Field(description="OUT/TRIAL; a part of the name is enough.")]
    ) -> dict[str, Any]:
        """Explain one trial of a sweep: instruction, self-tests, pass matrix, candidates, selection, verdict."""
        store, name = self._folders.trial(trial)
        described = await asyncio.to_thread(lambda: describe(store, find_trial(store, name)))
        return {key: value for key, value in described.items() if key != "exchanges"}


def _said(instruction: str) -> None:
    if not instruction.strip():
        raise UserError("the instruction is empty; describe the result")


def _told(test: SelfTest) -> dict[str, Any]:
    check = test.subject.kind == "check"
    what = (test.subject.function or "") if check else " ".join(f"{test.subject.path} {test.input}".split())
    return {"test_name": test.id, "what": what[:400], "expected": expected(test.expectation.model_dump())[:400],
            **test.model_dump(include={"category", "sentence", "guard"})}  # fmt: skip


def _failure(test: SelfTest, cell: Cell) -> Failure:
    error = f"{cell.outcome}: {cell.detail}" if cell.detail else cell.outcome
    return Failure(
        test_name=test.id, error=error, expected=expected(test.expectation.model_dump()), actual=cell.observed or ""
    )
