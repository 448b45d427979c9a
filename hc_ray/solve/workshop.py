"""Candidates of the style ``tools`` for a round's slots: each works by itself in a fork of its own, with a purse of its
own, so that what one may do never hangs on which of the others was faster. They enter the pool in slot order."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from hc_ray.candidate import Candidate
from hc_ray.events import TurnStart
from hc_ray.solve import forms, repair
from hc_ray.solve.answers import Made, candidate
from hc_ray.solve.budget import Asking, Purse
from hc_ray.solve.context import Brief
from hc_ray.solve.propose import Slot
from hc_ray.solve.search import Search
from hc_ray.solve.seeds import sandbox_name
from hc_ray.solve.skills import put_skills
from hc_ray.solve.styles import Bounds, ToolWorker, Worked
from hc_ray.suite import Cell, SelfTest


class Workshop:
    """Makes the candidates of one search."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.bounds = Bounds(turns=search.config.tool_turns, context_tokens=search.config.tool_context_tokens,
                             answer_tokens=search.config.max_answer_tokens)  # fmt: skip

    async def make(self, slots: Sequence[Slot], *, more: bool = False) -> tuple[Candidate, ...]:
        """Work on all of the slots at once; turns and tokens that are left are shared out evenly, beforehand."""
        search = self.search
        search.round += not more
        search.events.emit(TurnStart(turn=search.turns + 1, max_turns=search.config.max_turns, subtask=search.subtask))
        turns = min(self.bounds.turns, max(1, (search.config.max_turns - search.turns) // len(slots)))
        askings = [Asking(search.asking.role, Purse(search.purse.left // len(slots))) for _ in slots]
        bounds = self.bounds.model_copy(update={"turns": turns})
        jobs = list(zip(slots, askings, strict=True))
        working = [asyncio.ensure_future(self._work(slot, asking, bounds)) for slot, asking in jobs]
        try:
            worked = await asyncio.gather(*working)
        finally:
            for one in working:
                one.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            for asking in askings:
                search.purse.charge_all_of(asking.purse)
                search.asking.exchanges += asking.exchanges
                search.asking.unanswered += asking.unanswered
        if not any(one.turns for one in worked):
            return ()  # the shares pay for no action
        made = [self._candidate(slot, one, asking.purse) for (slot, asking), one in zip(jobs, worked, strict=True)]
        search.pool += made
        search.turns += sum(one.turns for one in worked)
        search.journal("round", number=search.round, slots=[slot.model_dump(mode="json") for slot in slots],
                       digests=[one.digest for one in made], duplicates=[one.duplicate_of for one in made],
                       malformed=[one.malformed for one in made], tokens_left=search.purse.left)  # fmt: skip
        return tuple(made)

    async def _work(self, slot: Slot, asking: Asking, bounds: Bounds) -> Worked:
        search = self.search
        name = sandbox_name(search.task.digest, str(slot.seed), "tools", slot.id)
        sandbox = await (await search.bench.base()).fork(name)
        try:
            begun = search.candidate(slot.parent).files if slot.parent is not None else search.carried
            with contextlib.suppress(ValueError):  # what cannot be written there is begun anew
                await search.bench.put(sandbox, begun)
            if search.skills:
                await put_skills(sandbox, search.skills)
            worker = ToolWorker(search.task, sandbox, asking, tests=search.tests, told=self._told, seed=slot.seed,
                                temperature=slot.temperature, bounds=bounds, brief=self._brief(slot, sandbox.workdir),
                                owner=slot.id)  # fmt: skip
            return await worker.run()
        finally:
            await sandbox.close()

    def _brief(self, slot: Slot, workdir: str) -> Brief:
        hint, plan = self.search.config.hint.strip(), forms.plan_text(slot.plan)
        told = self.search.notes_for(slot)
        if slot.parent is not None:  # the attempt itself lies in the workspace
            seen = "\n".join(f"- {one}" for one in self.search.feedback(slot.parent))
            told = f"Correct what is there. When it ran:\n{seen}"
        return Brief(instruction=self.search.task.instruction, workdir=workdir, plan=plan, subtask=told,
                     hints=(hint,) if hint else (), skills=(self.search.know_how,))  # fmt: skip

    def _told(self, row: Sequence[Cell], tests: Sequence[SelfTest]) -> Sequence[str]:
        """As much as the knob ``feedback`` lets a repair hear."""
        trust: Mapping[str, float] = self.search.trusted() if len(tests) == len(self.search.tests) else {}
        return repair.feedback(row, tests, self.search.config.feedback, trust)

    def _candidate(self, slot: Slot, worked: Worked, purse: Purse) -> Candidate:
        search, best = self.search, worked.best
        files = best.files if best else {}
        if best and best.no_text and files:
            search.bench.remember(files, best.difference.tar)
        steps = [
            {
                "tool": one.act.tool,
                "arguments": dict(one.act.arguments),
                "allowed": one.allowed,
                "changed": list(one.changed),
                "verified": one.verified,
            }
            for one in worked.steps
        ]
        search.journal("worked", candidate=slot.id, end=worked.end, turns=worked.turns, suite_runs=worked.verified,
                       no_text=list(best.no_text) if best else [], steps=steps)  # fmt: skip
        lost = None if files else f"the work ended ({worked.end}) and left no text file"
        return candidate(slot, Made(files=files, malformed=lost), search.pool, prompt_tokens=purse.prompt_tokens,
                         completion_tokens=purse.completion_tokens, engine_seconds=purse.engine_seconds,
                         finish_reason=worked.end)  # fmt: skip
