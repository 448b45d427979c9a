"""Measures one end state of a task for the auditor: which self-tests it passes and, behind the wall, its verdict.

End states: the reference solution, the untouched environment, candidates that do nothing, and what the trials of a
sweep came up with. What was seen is kept under the sealed root (it names real tests) and looked up there
the next time; only outcomes by anonymous names leave."""

import asyncio
import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from hc_ray.blind.grading.control import control, make_submission, reference
from hc_ray.blind.grading.verdict import excused
from hc_ray.blind.grading.verify import fresh_sandbox, grade, has_network
from hc_ray.blind.sealing.kept import keep, keep_value, read_kept
from hc_ray.blind.sealing.vault import load_spec
from hc_ray.domain.errors import SandboxError, VerifierError
from hc_ray.domain.fork_steps import texts_put
from hc_ray.domain.ports import Sandbox, SandboxPlace
from hc_ray.domain.suite import SelfTest
from hc_ray.domain.task import Task
from hc_ray.domain.value import Value, digest_of
from hc_ray.machine.paths import inside_sources
from hc_ray.selftests import runner

StateKind = Literal["reference", "untouched", "empty", "stub", "candidate"]
_FOLDER = "audit"
"""Below the sealed root."""
_LETTERS = {"pass": "p", "fail": "f", "error": "e", "skipped": "s", "timeout": "t"}


class State(Value):
    """An end state to measure."""

    kind: StateKind
    files: dict[str, str] = {}
    """For a candidate: path → text. Empty for the others, which are created here."""
    tar: str = ""
    """For a candidate: its whole difference in base64; empty if its files are all of it."""


class Seen(Value):
    """The results for an end state."""

    kind: StateKind
    outcomes: dict[str, str] = {}
    """Self-test → one letter per run: ``p`` pass, ``f`` fail, ``e`` error, ``s`` skipped, ``t`` timeout."""
    passed: bool | None = None
    """The blind verdict; None for do-nothing candidates, which are not graded."""
    nodes: dict[str, bool] | None = None
    """Real test (an anonymous name) → whether it passed; skipped ones are left out. None where the real tests run no
    pytest, or too many tests for one report."""

    def passes(self, test: str) -> bool | None:
        """Whether a self-test passes in every run; None if it could not run."""
        letters = self.outcomes.get(test) or "s"
        return None if "s" in letters else set(letters) == {"p"}


class _Judged(Value):
    passed: bool | None
    nodes: dict[str, bool] | None
    """Results by the tests' real names."""


class _Kept(Value):
    """The stored results for an end state."""

    outcomes: dict[str, str] = {}
    """Digest of a test and its number of runs → letters."""
    judged: _Judged | None = None


class Auditor:
    """Measures end states of tasks in its own sandboxes. With ``keep`` False (holdout), nothing is stored."""

    def __init__(self, *, sealed_root: Path, place: SandboxPlace, keep: bool = True) -> None:
        self._sealed, self._place, self._keep = sealed_root, place, keep

    async def look(self, task: Task, state: State, tests: Sequence[SelfTest], repeats: int) -> Seen:
        """What the self-tests, each run so often, and the real ones say of an end state. Raises ``VerifierError`` for
        machinery."""
        made = stand_ins(tests, state.kind) if state.kind in ("empty", "stub") else state.files
        path = self._path(task, state, made)
        kept = (await asyncio.to_thread(read_kept, path, _Kept) if self._keep else None) or _Kept()
        names = {test.id: _name(test, repeats) for test in tests}
        outcomes, judged = dict(kept.outcomes), kept.judged
        graded = state.kind not in ("empty", "stub")  # what does nothing says nothing of the real tests
        tar = await self._tar(task, state)
        missing = {names[test.id]: test for test in tests if names[test.id] not in outcomes}
        if missing or (graded and judged is None and tar is None and state.kind != "untouched"):
            seen, difference = await self._run(task, state, tar, made, tuple(missing.values()), repeats)
            outcomes |= {name: seen[test.id] for name, test in missing.items()}
            tar = difference if tar is None else tar
        if graded and judged is None:
            judged = await self._judge(task, tar)
        found = _Kept(outcomes=outcomes, judged=judged)
        if self._keep and found != kept:
            await asyncio.to_thread(keep_value, path, found)
        told = judged if graded else None
        return Seen(
            kind=state.kind,
            outcomes={test: outcomes[name] for test, name in names.items()},
            passed=told.passed if told else None,
            nodes=_anonymous(told.nodes) if told else None,
        )

    def _path(self, task: Task, state: State, made: Mapping[str, str]) -> Path:
        sealed = load_spec(self._sealed, task.digest).sealed_digest
        # Do-nothing candidates are built from the tests' subjects.
        made_of = made if state.kind in ("empty", "stub") else {}
        what = [task.digest, sealed, state.model_dump(), made_of, type(self._place).__name__, _inside()]
        return self._sealed / _FOLDER / f"{digest_of(what)}.json"

    async def _judge(self, task: Task, tar: bytes | None) -> _Judged:
        reports: list[dict[str, Any]] = []
        verdict = await grade(
            task,
            None if tar is None else make_submission(task, tar, "audit"),
            sealed_root=self._sealed,
            place=self._place,
            observe=reports.append,
        )
        if verdict.failing or verdict.cause == "witness_absent":
            fresh = task.model_copy(update={"grading": "isolated"})
            verdict = excused(verdict, await control(fresh, sealed_root=self._sealed, place=self._place))
        nodes = _nodes(reports[0]) if reports else None
        return _Judged(passed=verdict.passed, nodes=nodes)

    async def _run(
        self, task: Task, state: State, tar: bytes | None, made: dict[str, str], tests: Sequence[SelfTest], repeats: int
    ) -> tuple[dict[str, str], bytes | None]:
        """Outcomes of the self-tests in a fresh sandbox with the end state in it, a tar or files that were ``made``;
        and what those come to as a submission (None: as the image)."""
        try:
            async with fresh_sandbox(self._place, task, "audit", network=has_network(task)) as sandbox:
                try:
                    if tar is not None:
                        await sandbox.put_tar(tar)
                    else:
                        for step in texts_put(made):
                            await step.on(sandbox)
                except ValueError:
                    # Its files cannot be written: an error of every test; the untouched workspace is submitted.
                    return {test.id: "e" * repeats for test in tests}, None
                if tar is None and state.kind != "untouched":
                    tar = await _difference(sandbox)
                return await _outcomes(sandbox, tests, repeats), tar
        except SandboxError as error:
            raise VerifierError(f"the audit's sandbox failed: {error}") from error

    async def _tar(self, task: Task, state: State) -> bytes | None:
        """An end state that is known as a tar; None for one that files make, or nothing. The reference's is run once,
        and looked up where it was kept. Raises ``DatasetError`` where there is none."""
        if state.kind != "reference":
            return base64.b64decode(state.tar) if state.tar else None
        sealed = load_spec(self._sealed, task.digest).sealed_digest
        path = self._sealed / _FOLDER / f"{digest_of([task.digest, sealed, type(self._place).__name__])}.tar"
        if self._keep and path.exists():
            return await asyncio.to_thread(path.read_bytes)
        tar = (await reference(task, sealed_root=self._sealed, place=self._place, trial="audit")).tar
        if self._keep:
            await asyncio.to_thread(keep, path, tar)
        return tar


async def _difference(sandbox: Sandbox) -> bytes:
    """The end state as a submission; grading refuses one that is too large, which becomes an invalid tar."""
    try:
        return (await sandbox.difference()).tar
    except ValueError:
        return b""


async def _outcomes(sandbox: Sandbox, tests: Sequence[SelfTest], repeats: int) -> dict[str, str]:
    """A letter a run of each test. The driver loses patience with a candidate that lets tests run out of time; those
    that it did not try are asked for again, so that a slow test costs no other test its figure."""
    letters: dict[str, str] = {}
    left = list(tests)
    while left:
        suite, drive = runner.steps(left, sandbox.workdir, repeats=repeats)
        await suite.on(sandbox)
        result = await drive.on(sandbox)
        untried = []
        for test, cells in zip(left, runner.read_runs(result.stdout, left), strict=True):
            if cells[0].outcome == "timeout" and cells[0].detail.startswith("not run"):
                untried.append(test)
            else:
                letters[test.id] = "".join(_LETTERS[cell.outcome] for cell in cells)
        if len(untried) == len(left):
            letters.update({test.id: "t" * repeats for test in untried})
            break
        left = untried
    return letters


def _nodes(report: dict[str, Any]) -> dict[str, bool] | None:
    """Node of each real test → whether it passed, over all sessions. None where a session told no nodes."""
    ended = [one for one in report.get("witness", []) if isinstance(one, dict) and one.get("type") == "end"]
    if not ended or any("nodes" not in message and message.get("collected") for message in ended):
        return None
    nodes: dict[str, bool] = {}
    for number, message in enumerate(ended):
        for node, outcome in message.get("nodes", {}).items():
            if outcome != "skipped":
                nodes[f"{number}:{node}"] = outcome == "passed"
    return nodes


def _name(test: SelfTest, repeats: int) -> str:
    """Equal for tests that run alike, whatever their name, weight and author."""
    return digest_of([test.model_dump(mode="json", include=runner.DRIVEN), repeats])


def _anonymous(nodes: dict[str, bool] | None) -> dict[str, bool] | None:
    if nodes is None:
        return None
    return {hashlib.sha256(node.encode()).hexdigest()[:12]: passed for node, passed in nodes.items()}


@functools.cache
def _inside() -> str:
    """Digest of the code that runs in sandboxes, since another runner may give other outcomes."""
    return digest_of({name: path.read_text("utf-8") for name, path in inside_sources().items()})


def stand_ins(tests: Sequence[SelfTest], kind: Literal["empty", "stub"]) -> dict[str, str]:
    """A candidate that does nothing, for every file that the tests look at: ``empty`` files, or a ``stub`` that can be
    called and answers None, or prints nothing."""
    files: dict[str, str] = {}
    for test in tests:
        subject = test.subject
        if not subject.path:
            continue
        if kind == "stub" and subject.kind == "call" and subject.function:
            defined = f"def {subject.function}(*values, **named):\n    return None\n"
            if defined not in files.get(subject.path, ""):
                files[subject.path] = files.get(subject.path, "") + defined
        elif kind == "stub" and subject.kind == "program" and not files.get(subject.path):
            files[subject.path] = "int main(void) { return 0; }\n"
        else:
            files.setdefault(subject.path, "")
    return files
