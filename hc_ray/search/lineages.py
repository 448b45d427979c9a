"""Lineages of the style ``loop`` for one search. Each works in its own fork with its own purse, so that nothing depends
on which of them is faster. Their submitted states enter the pool in slot order, each as a candidate."""

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hc_ray.agent import environment_probe, prompt_formats
from hc_ray.agent.budget import Asking, Purse, side_by_side
from hc_ray.agent.loop import Bounds, Checklist, End, Lineage, opening
from hc_ray.agent.terminal import Limits
from hc_ray.agent.workspace import State, state_of
from hc_ray.domain.candidate import Candidate
from hc_ray.domain.ports import Sandbox
from hc_ray.domain.profile import LEAST_OF_ANSWER
from hc_ray.domain.prompt import Malformed
from hc_ray.domain.suite import Cell, SelfTest
from hc_ray.search.pool import candidate_of
from hc_ray.search.schedule import Slot
from hc_ray.search.search import Search
from hc_ray.selftests.trivial_states import missing

Verdict = Callable[[str, State], Awaitable[tuple[tuple[Cell, ...], str]]]
"""Runs the suite on a submitted state, identified by its candidate's id; returns its row and the feedback to the
lineage (empty if there is nothing to repair)."""

_ELSEWHERE = """cd "$1" && shift && for path; do
    [ -z "$(find . -xdev -path "*/${path#"$PWD"/}" -print -quit 2>/dev/null)" ] || printf '%s\\n' "$path"; done"""
"""Prints which of the given workdir paths occur as the end of a path below the workdir."""


@dataclass(slots=True)
class Submitted:
    """One submitted state of a lineage."""

    state: State | None
    """None if it is too large to submit."""
    end: End
    turns: int
    spent: dict[str, float]
    """Spent since the previous submission; see ``Purse.spent_since``."""
    row: tuple[Cell, ...] = ()


@dataclass(slots=True)
class Run:
    """One running lineage."""

    slot: Slot
    asking: Asking
    search: Search
    advice: str = ""
    leads: bool = True
    """Whether it is the first of the parallel lineages, which alone reports its turns, since the order between several
    is not deterministic."""
    lineage: Lineage | None = None
    states: list[Submitted] = field(default_factory=list)
    disputed: bool = False
    """Whether it submitted the same state again after feedback."""
    candidates: list[str] = field(default_factory=list)
    summary: str | None = None
    """Its summary; None before it was asked."""
    tests: tuple[SelfTest, ...] | None = None
    """Its tests; None before it was asked."""

    async def ask(self, purpose: str, question: str, *, schema: dict[str, Any] | None = None) -> str:
        """Ask the finished lineage a question; empty if the trial cannot afford it."""
        purse = self.asking.purse
        purse.limit = min(purse.limit, purse.spent + self.search.purse.left)
        return await self.lineage.ask(purpose, question, schema=schema) if self.lineage else ""

    def submitted(self, lineage: Lineage, state: State | None, end: End) -> None:
        self.states.append(Submitted(state, end, lineage.turns, self.asking.purse.spent_since()))


class Lineages:
    """Makes the candidates of one search."""

    def __init__(self, search: Search) -> None:
        self.search = search
        config, profile = search.config, search.asking.role.profile
        longest = search.task.agent_timeout_sec or search.clock.seconds
        limits = Limits(seconds=config.command_seconds, most_seconds=max(config.command_seconds, longest),
                        shown=config.observation_chars)  # fmt: skip
        self.bounds = Bounds(
            turns=config.max_turns, context_tokens=profile.context_tokens, form=config.actions, limits=limits,
            answer_tokens=profile.longest_answer(config.max_answer_tokens),
            tokens=search.lineage_tokens,
        )  # fmt: skip
        self.runs: list[Run] = []

    async def run(
        self, slots: Sequence[Slot], *, advice: str = "", repairs: int = 0, verdict: Verdict | None = None
    ) -> tuple[Candidate, ...]:
        """Work on the slots in parallel; each gets an equal share of what is left. Returns nothing if that does not pay
        for an answer. ``verdict`` gives feedback on each submission, up to ``repairs`` times."""
        search = self.search
        left = search.purse.left
        count = max(1, min(len(slots), left // max(1, self.bounds.tokens // 2)))
        share = min(self.bounds.tokens, left // count)
        if share < self.bounds.answer_tokens // LEAST_OF_ANSWER:
            return ()
        search.round += 1
        role = search.asking.role
        runs = [
            Run(slot, Asking(role, Purse(share, outer=search.purse)), search, advice, leads=not i)
            for i, slot in enumerate(slots[:count])
        ]
        self.runs += runs
        search.askings += [run.asking for run in runs]
        working = [asyncio.ensure_future(self._work(run, repairs, verdict)) for run in runs]
        try:
            await side_by_side(working)
        finally:
            made = self._enter(runs)
        return made

    async def _work(self, run: Run, repairs: int, verdict: Verdict | None) -> None:
        search, slot = self.search, run.slot
        sandbox = await search.forks.open("lineage", slot.id)
        try:
            run.lineage = Lineage(
                sandbox,
                run.asking,
                self._opening(run),
                seed=slot.seed,
                temperature=slot.temperature,
                bounds=self.bounds,
                owner=slot.id,
                checklist=self._checklist(sandbox),
                told=search.emit_turn if run.leads else lambda turn: None,
            )
            await self._lived(run, run.lineage, repairs, verdict)
        except asyncio.CancelledError:  # the trial's time is over: the current state is the result
            if run.lineage and run.lineage.turns and (not run.states or run.lineage.end == "timeout"):
                run.submitted(run.lineage, await self._state(run.lineage), "timeout")
            raise
        finally:
            if search.task.grading != "shared":
                await search.forks.end(sandbox)

    async def _lived(self, run: Run, lineage: Lineage, repairs: int, verdict: Verdict | None) -> None:
        """Run a lineage from the opening to its last submission."""
        end = await lineage.work()
        run.submitted(lineage, await self._state(lineage), end)
        for number in range(repairs + 1 if verdict else 0):
            last = run.states[-1]
            if last.state is None or verdict is None:
                return
            last.row, told = await verdict(f"{run.slot.id}-{number}", last.state)
            if not told or number == repairs or last.end not in ("submitted", "prose"):
                return
            end = await lineage.resume(told)
            state = await self._state(lineage)
            if state is not None and state.files == last.state.files:
                run.disputed = end == "submitted"
                return
            run.submitted(lineage, state, end)

    async def _state(self, lineage: Lineage) -> State | None:
        try:
            return await state_of(lineage.sandbox)
        except ValueError:
            return None

    def _opening(self, run: Run) -> tuple[str, str]:
        search = self.search
        plan = prompt_formats.plan_text(run.slot.plan) if run.slot.plan != "plain" else ""
        environment = environment_probe.block(search.spec, search.task, self.bounds)
        return opening(self.bounds.form, search.spec.instruction, environment, search.know_how,
                       search.config.hint.strip(), plan, run.advice)  # fmt: skip

    def _checklist(self, sandbox: Sandbox) -> Checklist:
        """Checks for files that the task names but that exist neither at their path nor, since a task may name only a
        part of a path, below the workdir."""
        spec = self.search.spec

        async def faults(state: State) -> Sequence[str]:
            named = [file.path for file in spec.files if file.located]
            paths = [posixpath.normpath(posixpath.join(spec.workdir, path)) for path in named]
            gone = await missing(lambda step: step.on(sandbox), paths)
            below = f"{spec.workdir}/"
            if parts := [path for path in gone if path.startswith(below) and "/" in path.removeprefix(below)]:
                found = await sandbox.exec(["sh", "-c", _ELSEWHERE, "sh", spec.workdir, *parts], timeout=20)
                there = found.stdout.decode("utf-8", "replace").splitlines()
                gone = tuple(path for path in gone if path not in there)
            return [f"Mentioned in the task, but not there: {', '.join(gone)}. Is that intended?"] if gone else []

        return faults

    def _enter(self, runs: Sequence[Run]) -> tuple[Candidate, ...]:
        """Add the submitted states as candidates, lineage by lineage."""
        search = self.search
        made: list[Candidate] = []
        for run in runs:
            turns = 0
            for number, one in enumerate(run.states):
                files = one.state.files if one.state else {}
                place = {"round": search.round, "slot": run.slot.slot + number * len(runs), "repairs": number}
                parent = run.candidates[-1] if run.candidates else None
                slot = run.slot.model_copy(update={**place, "parent": parent})
                nothing = f"the lineage ended ({one.end}) and changed nothing that can be handed in"
                entered = candidate_of(slot, files or Malformed(reason=nothing, text=""), search.pool.candidates,
                                    turns=one.turns, finish_reason=one.end, **one.spent)  # fmt: skip
                search.pool.candidates.append(entered)
                run.candidates.append(entered.id)
                made.append(entered)
                if one.state:
                    search.forks.remember(files, one.state.difference.tar)
                if one.row and files:
                    search.pool.rows[entered.id] = one.row
                turns = one.turns
            if search.task.grading == "shared" and run.lineage and run.states and run.states[-1].state:
                search.forks.lives_in(run.states[-1].state.files, run.lineage.sandbox)
            search.turns += turns
            self._journal(run)
        if made:
            search.entered([run.slot for run in runs], made)
        return tuple(made)

    def _journal(self, run: Run) -> None:
        search = self.search
        for number, step in enumerate(run.lineage.steps if run.lineage else (), start=1):
            search.journal("act", candidate=run.slot.id, number=number, tool=step.action.name,
                           argument=step.action.argument, allowed=step.allowed, rule=step.rule,
                           warning=step.warning, failed=step.failed)  # fmt: skip
        search.journal("worked", candidate=run.slot.id, ends=[one.end for one in run.states],
                       turns=[one.turns for one in run.states], disputed=run.disputed,
                       compactions=run.lineage.transcript.compactions if run.lineage else 0)  # fmt: skip

    def run_of(self, identity: str) -> Run | None:
        """The lineage of a candidate."""
        return next((run for run in self.runs if identity in run.candidates), None)
