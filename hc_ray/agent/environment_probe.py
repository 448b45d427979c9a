"""What the untouched environment holds: tools and files with short previews, looked at once in a sandbox."""

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
    """What the untouched environments of tasks hold. Each is looked at once, in a sandbox of its own and a context
    (``contextvars``) of its own: which trial asks first leaves no trace in any trial. A tool that many environments
    share is asked for its version once."""

    def __init__(self, place: MakesSandboxes) -> None:
        self._place = place
        self._versions: dict[str, dict[str, str]] = {}
        """Variables of an environment → ``EnvironmentView.shared`` of all that have them."""
        self._first: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held until one of the environments of these variables has told what they share: the others wait for that."""
        self._views = Once[tuple[EnvironmentView, str]](_KEPT)
        """What was seen, and the workdir, by the task's digest."""

    async def around(self, spec: Spec, task: Task) -> Spec:
        """The spec with what the untouched environment holds. A look that failed fails those who waited for it; the
        next one who asks looks again."""
        view, workdir = await self._views.obtain(
            task.digest, lambda: asyncio.get_running_loop().create_task(self._look(spec, task), context=Context())
        )
        if not spec.workdir:  # only the image knew it: what the instruction names lies elsewhere than read
            spec = read_spec(spec.instruction, task.environment.placed(workdir))
        return spec.with_snapshot(view)

    async def _look(self, spec: Spec, task: Task) -> tuple[EnvironmentView, str]:
        forks = SandboxForks(self._place, task, "look")
        variables = digest_of(task.environment.env)
        try:
            workdir = (await forks.base()).workdir  # making an image takes minutes, for which no other look waits
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
    """The spec with what the environment of these forks holds. ``known``: ``EnvironmentView.shared`` of others."""
    base = await forks.base()
    command = [*inside_command("look"), base.workdir, *outside(spec)]
    seen = await base.exec(command, timeout=SECONDS, stdin=json.dumps(known).encode())
    return spec.with_snapshot(read(seen.stdout))


def outside(spec: Spec) -> tuple[str, ...]:
    """Full paths that the instruction names and that lie outside of the workdir."""
    paths = dict.fromkeys(posixpath.normpath(path) for path in FULL_PATH.findall(without_addresses(spec.instruction)))
    inside = (spec.workdir.rstrip("/") + "/", *(f"{one}/" for one in _NOT_HERE))
    return tuple(path for path in paths if not f"{path}/".startswith(inside))[:_NAMED]


def read(stdout: bytes) -> EnvironmentView:
    """What was seen; nothing where the report cannot be read."""
    try:
        return EnvironmentView.model_validate_json(stdout)
    except ValidationError:
        return EnvironmentView()


def shown(view: EnvironmentView, named: Sequence[str]) -> str:
    """The first lines of named files that are there, cut, and said to be cut: what a tester is shown."""
    held = {one.path: one for one in view.files if one.lines is not None}
    told = []
    for file in [held[path] for path in named if path in held][:_SHOWN_FILES]:
        text = file.preview[:_SHOWN]
        more = (file.lines or 0) - len(text.splitlines())
        told.append(f"{file.path} begins:\n{text}" + (f"\n[{more} more lines]" if more > 0 else ""))
    return "\n\n".join(told)


def describe(spec: Spec, task: Task, *further: str) -> str:
    """The untouched environment in words, for whoever works or writes tests. ``further``: more lines of the list."""
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
    """The environment as a lineage is told it first, with what it may take."""
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
