"""Takes snapshots of untouched environments: tools, and files with short previews, once per environment in a
sandbox."""

import asyncio
import json
import posixpath
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextvars import Context

from pydantic import ValidationError

from hc_ray.agent.loop import Bounds
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.ports import MakesSandboxes
from hc_ray.domain.runner_paths import inside_command
from hc_ray.domain.task import FULL_PATH, EnvironmentView, FileView, Task
from hc_ray.domain.value import digest_of
from hc_ray.domain.waiting import Once
from hc_ray.spec.files import without_addresses
from hc_ray.spec.reading import read_spec
from hc_ray.spec.spec import Spec

SECONDS = 60.0
_KEPT = 256
_SHOWN_FILES, _SHOWN = 3, 300
_LISTED, _NAMED = 40, 10
_NOT_HERE = ("/dev", "/proc", "/sys", "/tmp")


class Looks:
    """Snapshots of tasks' untouched environments. Each is taken once, in its own sandbox and context (``contextvars``),
    so that no trial depends on which trial asks first. Asks a tool shared by many environments for its version only
    once."""

    def __init__(self, place: MakesSandboxes) -> None:
        self._place = place
        self._versions: dict[str, dict[str, str]] = {}
        """An environment's variables → ``EnvironmentView.shared``, common to all environments with these."""
        self._first: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Locks under which the first environment with these variables finds out what they share."""
        self._views = Once[tuple[EnvironmentView, str]](_KEPT)
        """Task digest → snapshot and workdir."""

    async def around(self, spec: Spec, task: Task) -> Spec:
        """The spec with the environment's snapshot. All waiters of a failed attempt fail; the next call tries again."""
        view, workdir = await self._views.obtain(
            task.digest, lambda: asyncio.get_running_loop().create_task(self._look(spec, task), context=Context())
        )
        if not spec.workdir:  # only the image knew it, so paths in the instruction were resolved differently
            spec = read_spec(spec.instruction, task.environment.placed(workdir))
        return spec.with_snapshot(view)

    async def _look(self, spec: Spec, task: Task) -> tuple[EnvironmentView, str]:
        forks = SandboxForks(self._place, task, "look")
        variables = digest_of(task.environment.env)
        try:
            workdir = (await forks.base()).workdir  # outside the lock, since making an image takes minutes
            spec = spec.model_copy(update={"workdir": workdir})
            async with self._first[variables]:
                told = variables in self._versions
                view = None if told else await self._ask(spec, forks, variables)
            return view or await self._ask(spec, forks, variables), workdir
        finally:
            await forks.close()

    async def _ask(self, spec: Spec, forks: SandboxForks, variables: str) -> EnvironmentView:
        view = (await look_around(spec, forks, self._versions.get(variables, {}))).snapshot
        self._versions.setdefault(variables, {}).update(view.shared)
        return view.model_copy(update={"shared": {}})


async def look_around(spec: Spec, forks: SandboxForks, known: Mapping[str, str] = {}) -> Spec:
    """The spec with a snapshot of these forks' environment. ``known``: ``EnvironmentView.shared`` of others."""
    base = await forks.base()
    command = [*inside_command("look"), base.workdir, *outside(spec)]
    seen = await base.exec(command, timeout=SECONDS, stdin=json.dumps(known).encode())
    return spec.with_snapshot(read(seen.stdout))


def outside(spec: Spec) -> tuple[str, ...]:
    """Full paths outside the workdir that the instruction names."""
    paths = dict.fromkeys(posixpath.normpath(path) for path in FULL_PATH.findall(without_addresses(spec.instruction)))
    inside = (spec.workdir.rstrip("/") + "/", *(f"{one}/" for one in _NOT_HERE))
    return tuple(path for path in paths if not f"{path}/".startswith(inside))[:_NAMED]


def read(stdout: bytes) -> EnvironmentView:
    """Parse a snapshot; an empty one if the report is invalid."""
    try:
        return EnvironmentView.model_validate_json(stdout)
    except ValidationError:
        return EnvironmentView()


def shown(view: EnvironmentView, named: Sequence[str]) -> str:
    """The first lines of existing named files, marked where they are cut, for a tester's prompt."""
    held = {one.path: one for one in view.files if one.lines is not None}
    told = []
    for file in [held[path] for path in named if path in held][:_SHOWN_FILES]:
        text = file.preview[:_SHOWN]
        more = (file.lines or 0) - len(text.splitlines())
        told.append(f"{file.path} begins:\n{text}" + (f"\n[{more} more lines]" if more > 0 else ""))
    return "\n\n".join(told)


def describe(spec: Spec, task: Task, *further: str) -> str:
    """Describe the untouched environment for solvers and testers. ``further``: more lines of the list."""
    view = spec.snapshot
    tools = ", ".join(f"{name} {said}".strip() for name, said in view.tools.items())
    listed = [_told(one) for one in view.files[:_LISTED]]
    more = [f"  … and more: {view.count:,} files in all"] if view.count > len(listed) else []
    network = "available" if task.environment.network in ("public", "allowlist") else "none"
    lines = [
        "Environment:",
        f"- system: {view.system or 'Linux'}; user: {view.user or 'unknown'}; network: {network}",
        f"- working directory: {spec.workdir}",
        f"- on PATH, {f'among others: {tools}' if tools else 'no common tools'}",
        *(f"- {one}" for one in further),
        f"- files in {spec.workdir}:" if listed else f"- {spec.workdir} is empty",
    ]
    elsewhere = ["- elsewhere, named by the task:", *map(_told, view.outside)] if view.outside else []
    return "\n".join([*lines, *listed, *more, *elsewhere])


def _told(file: FileView) -> str:
    return f"  {file.path}" if file.path.endswith("/") else f"  {file.path} ({file.size:,} bytes)"


def block(spec: Spec, task: Task, bounds: Bounds) -> str:
    """The environment block that opens a lineage, with its limits."""
    limits = bounds.limits
    graded = "by its files, elsewhere: nothing that you started runs there"
    return describe(
        spec,
        task,
        f"a command may run {limits.seconds:g} seconds; you can ask for up to {limits.most_seconds:g} seconds",
        f"of a long output you are shown {limits.shown:,} characters; the whole is kept in a file",
        f"an answer may have {min(bounds.answer_tokens, bounds.tokens):,} tokens; write longer files in parts",
        f"you have {bounds.turns} turns and {bounds.tokens:,} tokens, of which only what is new in a turn is counted",
        f"your work is graded {'here, with what you leave running' if task.grading == 'shared' else graded}",
    )
