"""``hc-ray mcp``: self-tests, sweeps and trials as tools of the Model Context Protocol, over standard input and output.

Suites are the model's own, written from an instruction; nothing here opens a task's tests, and no answer holds what a
verifier printed. A call runs as a task of its own: cancelled, or cut off by the client's end, it closes its sandboxes
first."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import anyio
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from hc_ray import __version__
from hc_ray.agent.budget import Asking, Purse, payable
from hc_ray.agent.role import RoleModel
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.config import RoleName, SolverConfig, SweepConfig
from hc_ray.domain.credentials import scrub
from hc_ray.domain.errors import HcRayError, UserError
from hc_ray.domain.filetree import unpack
from hc_ray.domain.prompt import Malformed
from hc_ray.domain.seeds import seed_of
from hc_ray.domain.suite import Cell, SelfTest, Suite
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.value import digest_of
from hc_ray.machine import sealed_guard
from hc_ray.machine.paths import data_root
from hc_ray.reports.status import status_of
from hc_ray.reports.trial_view import describe, find_trial
from hc_ray.search import decompose
from hc_ray.search.orchestrate import make_suite
from hc_ray.search.selection import deciding
from hc_ray.selftests.runner import PROPERTIES
from hc_ray.selftests.suite_runs import SuiteRuns
from hc_ray.spec.reading import read_spec
from hc_ray.stores.sweep_directory import SweepStore, read_parquet
from hc_ray_actors.backends import choose
from hc_ray_actors.driver.configs import drafts, settle
from hc_ray_actors.integrations.mcp_workspace import WORKDIR, Contents, FilledPlace, Folders, contents
from hc_ray_actors.jobs.single import answering
from hc_ray_actors.remote_place import RemotePlace, Station
from hc_ray_actors.sandboxes import Sandboxes

T = TypeVar("T")
BEAT = 5.0
"""Seconds between two notices of progress."""
MOST_SUITE = 8 << 20
INSTRUCTIONS = (
    "hc-ray writes tests for a task from its instruction alone (generate_tests) and runs them on a copy of the folder "
    f"that the work is done in (run_tests), in a sandbox where that folder is {WORKDIR}. The tests are guesses about "
    "what the instruction means: a failing one may be wrong."
)


class ToldTest(BaseModel):
    """A self-test as a reader sees it."""

    test_name: str
    category: str
    what: str = Field(description="The call, command, file or check.")
    expected: str
    sentence: str = Field(description="The sentence of the instruction that it tests.")
    guard: bool = Field(description="It passes before any work is done and must stay so.")


class DroppedTest(BaseModel):
    test_name: str
    reason: str


class GeneratedSuite(BaseModel):
    suite: str = Field(description="The name to give to run_tests.")
    file: str = Field(description="Where the suite is kept, as JSON.")
    weak: bool = Field(description="No test of it can tell a right result from an empty one.")
    tests: list[ToldTest]
    dropped: list[DroppedTest]
    left_out: list[str] = Field(description="What of the workspace the model was not told of.")
    tokens: int


class Failure(BaseModel):
    test_name: str
    error: str
    expected: str
    actual: str


class SuiteRun(BaseModel):
    """Of the tests that expect something; inputs without an expectation are not counted."""

    passed: int
    failed: int
    total: int
    progress: float = Field(description="The share that passed, 0 to 1.")
    failures: list[Failure]
    suite: str
    weak: bool
    left_out: list[str]


class Part(BaseModel):
    name: str
    goal: str
    hint: str
    checkpoint: str


class Parts(BaseModel):
    parts: list[Part]
    by_model: bool = Field(description="False: the model gave no usable answer, and these are the generic parts.")


class SweepStatus(BaseModel):
    planned: int | None
    done: int
    owner: str | None = Field(description="running, ended or gone (killed); null where it never started.")
    running: list[dict[str, Any]]
    errors: list[dict[str, Any]]
    last_event: dict[str, Any] | None


class ShownTrial(BaseModel):
    """What `hc-ray show` tells of a trial, without its prompts."""

    model_config = ConfigDict(extra="allow")
    trial: str
    task: str
    agent: str
    passed: bool | None
    progress: float | None
    instruction: str | None
    candidates: list[dict[str, Any]]


class Workshop:
    """What the tools work with: engines, started when a model is first asked, and the sandboxes of this machine."""

    def __init__(self, config: SweepConfig, folders: Folders, image: str) -> None:
        alone = {"agents": ("hc",), "split": "dev", "tags": (), "configs": (), "grid": {}}
        parts = config.solver.model_copy(update={"decompose": "model"})  # so that a decomposer of one's own is planned
        self.config, self.folders = config.model_copy(update={**alone, "solver": parts}), folders
        self._image = image
        self._stack = contextlib.AsyncExitStack()
        self._crew: asyncio.Task[tuple[SolverConfig, dict[RoleName, RoleModel]]] | None = None
        self._places: asyncio.Task[RemotePlace] | None = None
        self._turns: defaultdict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Calls on one workspace follow each other: their sandboxes have the same names."""
        self._calls: set[asyncio.Task[Any]] = set()
        self._numbers = itertools.count(1)

    async def call(self, context: Context[Any, Any, Any], work: Coroutine[Any, Any, T]) -> T:
        """Do a tool's work, telling the client that it goes on; what it raises is one line."""
        task = asyncio.create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        began = time.monotonic()
        try:
            while not (await asyncio.wait([task], timeout=BEAT))[0]:
                seconds = time.monotonic() - began
                await context.report_progress(seconds, message=f"at work for {seconds:.0f} s")
            return task.result()
        except HcRayError as error:
            raise ToolError(scrub(" ".join(str(error).split()))) from None
        except Exception as error:
            # The text of a bug may quote what was read.
            print(f"hc-ray mcp: bug: {type(error).__name__}", file=sys.stderr)
            raise ToolError(f"bug in hc-ray: {type(error).__name__}") from None
        finally:
            task.cancel()

    async def close(self) -> None:
        """End every call, then its sandboxes and engines."""
        for task in self._calls:
            task.cancel()
        starting = [task for task in (self._crew, self._places) if task is not None]
        await asyncio.gather(*self._calls, *starting, return_exceptions=True)
        await self._stack.aclose()

    async def _models(self) -> tuple[SolverConfig, dict[RoleName, RoleModel]]:
        if self._crew is None or (self._crew.done() and self._crew.exception()):
            self._crew = asyncio.create_task(self._start_engines())
        return await asyncio.shield(self._crew)

    async def _start_engines(self) -> tuple[SolverConfig, dict[RoleName, RoleModel]]:
        (planned, *_), _ = await asyncio.to_thread(lambda: settle(drafts(self.config)))
        return planned.config.solver, await self._stack.enter_async_context(answering(planned.models))

    async def _place(self, task: Task) -> RemotePlace:
        if self._places is None or (self._places.done() and self._places.exception()):
            self._places = asyncio.create_task(self._open_sandboxes(task))
        return await asyncio.shield(self._places)

    async def _open_sandboxes(self, task: Task) -> RemotePlace:
        choice = await asyncio.to_thread(choose, self.config.sandbox, [task])
        sandboxes = Sandboxes(choice.backend, None, self.config.sandbox_slots)
        self._stack.push_async_callback(sandboxes.close_all)
        return RemotePlace({"here": Station(sandboxes)}, {})

    async def generate(self, workspace: str, instruction: str) -> GeneratedSuite:
        if not instruction.strip():
            raise UserError("the instruction is empty; say what the result must be")
        path = self.folders.workspace(workspace)
        async with self._turns[path]:
            seen = await asyncio.to_thread(contents, path)
            task = seen.task(path, instruction, self._image)
            place = FilledPlace(await self._place(task), seen.tar)
            solver, roles = await self._models()
            limit = solver.testgen.seconds
            try:
                async with asyncio.timeout(limit):
                    suite = await make_suite(task, config=solver, seed=0, tester=roles["tester"], place=place)
            except TimeoutError:
                raise UserError(f"the suite was not finished within {limit:g} s (solver.testgen.seconds)") from None
            file = await asyncio.to_thread(keep, path, suite, seen.tar)
        reasons = {verdict.id: verdict.reason for verdict in suite.gate}
        return GeneratedSuite(
            suite=file.stem,
            file=str(file),
            weak=is_weak(suite),
            tests=[told(test) for test in suite.tests],
            dropped=[DroppedTest(test_name=test.id, reason=reasons.get(test.id, "")) for test in suite.dropped],
            left_out=list(seen.left_out),
            tokens=suite.prompt_tokens + suite.completion_tokens,
        )

    async def run(self, workspace: str, suite: str | None) -> SuiteRun:
        path = self.folders.workspace(workspace)
        async with self._turns[path]:
            name, kept, before = await asyncio.to_thread(self._kept, path, suite)
            now = await asyncio.to_thread(contents, path)
            before = before or now
            task = before.task(path, "", self._image)
            place = FilledPlace(await self._place(task), before.tar)
            forks = SandboxForks(place, task, f"run {next(self._numbers)}")
            state = {"": "the workspace as it is now"}
            forks.remember(state, now.since(before))
            try:
                cells = await SuiteRuns(forks).try_out("workspace", state, kept.tests)
            finally:
                await forks.close()
        asked = [
            (test, cell) for test, cell in zip(kept.tests, cells, strict=True) if test.expectation.kind != "unknown"
        ]
        failures = [failure(test, cell) for test, cell in asked if cell.outcome != "pass"]
        passed = len(asked) - len(failures)
        return SuiteRun(
            passed=passed,
            failed=len(failures),
            total=len(asked),
            progress=round(passed / len(asked), 4) if asked else 0.0,
            failures=failures,
            suite=name,
            weak=is_weak(kept),
            left_out=list(now.left_out),
        )

    def _kept(self, path: Path, suite: str | None) -> tuple[str, Suite, Contents | None]:
        """A suite with its name, and the workspace that it was written for, where that is known: the last one of a
        workspace, one of its earlier ones by name, or one in a file. Raises ``UserError``."""
        shelf = shelf_of(path)
        files = sorted(shelf.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        if suite is None and not files:
            raise UserError(f"no suite was generated for {path}; call generate_tests first, or name a suite's file")
        found = files[-1] if suite is None else shelf / f"{suite}.json"
        if found not in files:
            return str(suite), read_suite(self.folders.unsealed(str(suite)), str(suite)), None
        before = found.with_suffix(".tar")
        held = Contents(unpack(before.read_bytes()).members, ()) if before.is_file() else None
        return found.stem, read_suite(found, found.stem), held

    async def decompose(self, instruction: str) -> Parts:
        if not instruction.strip():
            raise UserError("the instruction is empty; say what the result must be")
        _, roles = await self._models()
        asking = Asking(roles.get("decomposer", roles["solver"]), Purse(self.config.budget.tokens))
        spec = read_spec(instruction, Environment(workdir=WORKDIR))
        prompt = decompose.ask(spec, seed=seed_of(digest_of(instruction), 0, "decomposer"))
        if not await payable([(asking, prompt)]):
            raise UserError(f"the instruction is longer than a trial's budget ({self.config.budget.tokens:,} tokens)")
        (answer,) = await asking.all([("decompose", prompt)])
        parts = decompose.read(answer)
        found = decompose.GENERIC if isinstance(parts, Malformed) else parts
        told = [Part(name=one.name, goal=one.goal, hint=one.hint, checkpoint=one.checkpoint) for one in found]
        return Parts(parts=told, by_model=found is not decompose.GENERIC)

    async def status(self, out: str) -> SweepStatus:
        store = SweepStore(str(self.folders.sweep(out)))
        return SweepStatus.model_validate(await asyncio.to_thread(status_of, store))

    async def show(self, trial: str) -> ShownTrial:
        return await asyncio.to_thread(self._show, *self.folders.trial(trial))

    @staticmethod
    def _show(out: Path, name: str) -> ShownTrial:
        store = SweepStore(str(out))
        name = find_trial(store, name)
        folder = out / "trials" / name
        if any(path.is_symlink() for path in (folder, *folder.rglob("*"))):
            raise UserError(f"{folder} holds a link: a trial's folder holds none")
        described = describe(store, name, read_table=read_parquet)
        return ShownTrial.model_validate({key: value for key, value in described.items() if key != "exchanges"})


def shelf_of(workspace: Path) -> Path:
    """Where the suites of a workspace are kept, this user's alone."""
    return data_root() / "mcp" / digest_of(str(workspace))[:16]


def keep(workspace: Path, suite: Suite, tar: bytes) -> Path:
    """Keep a suite, and what the workspace held when it was written: of the last suite alone. Answers its file."""
    shelf = shelf_of(workspace)
    shelf.mkdir(parents=True, exist_ok=True, mode=0o700)
    for old in shelf.glob("*.tar"):
        old.unlink()
    file = shelf / f"{suite.hash[:12]}.json"
    for path, data in ((file.with_suffix(".tar"), tar), (file, suite.model_dump_json(indent=1).encode())):
        new = path.with_name(f".{path.name}")
        new.write_bytes(data)
        new.replace(path)
    return file


def read_suite(file: Path, given: str) -> Suite:
    """A suite as a trial, a sweep, `testgen --json` or this server keeps it. Raises ``UserError``; what a file that is
    none holds is not told."""
    try:
        if file.stat().st_size > MOST_SUITE:
            raise ValueError
        data = json.loads(file.read_bytes())
        suite = Suite.model_validate(data.get("suite", data))
    except OSError as error:
        raise UserError(f"{given}: no suite of this workspace, and no file: {error.strerror}") from None
    except (ValueError, AttributeError):
        raise UserError(f"{given} is no suite; generate_tests and hc-ray testgen --json write one") from None
    if not suite.tests:
        raise UserError(f"{given} holds no test")
    return suite


def is_weak(suite: Suite) -> bool:
    return not deciding(suite.tests)


def expected_of(test: SelfTest) -> str:
    """An expectation in words."""
    expectation = test.expectation
    if expectation.kind == "value":
        return expectation.value
    if expectation.kind == "rejected":
        return "an error, or no output"
    if expectation.kind == "unknown":
        return "nothing: an input only"
    says = PROPERTIES.get(test.subject.kind, {}).get(expectation.name, expectation.name)
    return f"{says} ({expectation.argument})" if expectation.argument else says


def told(test: SelfTest) -> ToldTest:
    check = test.subject.kind == "check"
    what = (test.subject.function or "") if check else " ".join(f"{test.subject.path} {test.input}".split())
    return ToldTest(test_name=test.id, category=test.category, what=what[:400], expected=expected_of(test)[:400],
                    sentence=test.sentence, guard=test.guard)  # fmt: skip


def failure(test: SelfTest, cell: Cell) -> Failure:
    error = f"{cell.outcome}: {cell.detail}" if cell.detail else cell.outcome
    return Failure(test_name=test.id, error=error, expected=expected_of(test), actual=cell.observed or "")


READS = ToolAnnotations(readOnlyHint=True, openWorldHint=False)
Folder = Annotated[str, Field(description="The folder that the work is done in. It is copied and never changed.")]
Asked = Annotated[str, Field(description="What the result must be, in words; paths relative to the workspace.")]


def server_of(workshop: Workshop) -> FastMCP[Any]:
    """The five tools."""
    server: FastMCP[Any] = FastMCP("hc-ray", instructions=INSTRUCTIONS, log_level="WARNING")
    server._mcp_server.version = __version__  # FastMCP has no other way to say it

    @server.tool(annotations=READS)
    async def generate_tests(workspace: Folder, instruction: Asked, context: Context[Any, Any, Any]) -> GeneratedSuite:
        """Write tests for an instruction before the work is done, and keep those that can run, are stable and can fail.
        May take minutes."""
        return await workshop.call(context, workshop.generate(workspace, instruction))

    @server.tool(annotations=READS)
    async def run_tests(
        workspace: Folder,
        context: Context[Any, Any, Any],
        suite: Annotated[
            str | None,
            Field(description="A suite that generate_tests named, or a suite's file. Default: the last one."),
        ] = None,
    ) -> SuiteRun:
        """Run generated tests on a copy of the workspace in a sandbox."""
        return await workshop.call(context, workshop.run(workspace, suite))

    @server.tool(name="decompose", annotations=READS)
    async def decompose_(instruction: Asked, context: Context[Any, Any, Any]) -> Parts:
        """Divide an instruction into three to five parts."""
        return await workshop.call(context, workshop.decompose(instruction))

    @server.tool(annotations=READS)
    async def sweep_status(
        out: Annotated[str, Field(description="A sweep directory.")], context: Context[Any, Any, Any]
    ) -> SweepStatus:
        """How far a sweep is."""
        return await workshop.call(context, workshop.status(out))

    @server.tool(annotations=READS)
    async def show_trial(
        trial: Annotated[str, Field(description="OUT/TRIAL; a part of the name is enough.")],
        context: Context[Any, Any, Any],
    ) -> ShownTrial:
        """Explain one trial of a sweep: instruction, self-tests, pass matrix, candidates, selection, verdict."""
        return await workshop.call(context, workshop.show(trial))

    return server


def serve(config: SweepConfig, allowed: Sequence[str], image: str) -> None:
    """Serve until the client closes standard input, or a signal comes. Raises ``UserError`` for what is no folder."""
    workshop = Workshop(config, Folders(allowed), image)
    sealed_guard.install(data_root() / "sealed")
    # Standard output is the protocol's: whatever else prints there, in this process or below it, goes to stderr.
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asyncio.run(_serve(workshop, protocol))


async def _serve(workshop: Workshop, protocol: TextIO) -> None:
    low, stopped = server_of(workshop)._mcp_server, asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    async def talk() -> None:
        async with stdio_server(stdout=anyio.wrap_file(protocol)) as (reads, writes):
            await low.run(reads, writes, low.create_initialization_options())

    talking, stopping = asyncio.create_task(talk()), asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait([talking, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await workshop.close()
    if not talking.done():
        os._exit(0)  # a thread of the SDK waits for standard input, which nothing but its end can end
    stopping.cancel()
    await talking
