"""The state of one trial's search, and the steps that all agents share: sampling candidates, running tests, selecting,
submitting. Decisions are made between rounds, in slot order, never in order of arrival."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hc_ray.agent import environment_probe, prompt_formats
from hc_ray.agent.budget import Asking, Clock, Purse, payable, side_by_side
from hc_ray.agent.deliverable import Deliverable, deliverable_of
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.agent.skills import installed, know_how
from hc_ray.domain.candidate import Candidate, Submission
from hc_ray.domain.config import SelectorName, SolverConfig
from hc_ray.domain.events import Action, Heartbeat, TurnStart, VerifyComplete
from hc_ray.domain.ports import Events, Judge
from hc_ray.domain.prompt import Malformed, Prompt
from hc_ray.domain.suite import Cell, Suite
from hc_ray.domain.task import Task
from hc_ray.domain.value import spelled
from hc_ray.search import repair
from hc_ray.search.pool import Pool, candidate_of
from hc_ray.search.schedule import Schedule, Slot
from hc_ray.search.selection import Selection, judging, progress, stated
from hc_ray.selftests.runner import SuiteRuns
from hc_ray.spec.spec import Spec

_SHOWN_FILES, _SHOWN_CHARACTERS = 3, 1200


@dataclass(eq=False)
class Search:
    """A trial's inputs and its current state. Only its own coroutine uses it."""

    task: Task
    spec: Spec
    config: SolverConfig
    seed: int
    asking: Asking
    """The solver's model within the trial's budget."""
    forks: SandboxForks
    judge: Judge
    events: Events
    clock: Clock
    name: str
    lineage_tokens: int
    """Token budget of one lineage of the style ``loop``."""

    pool: Pool = field(default_factory=Pool)
    suite: Suite | None = None
    division: str = ""
    """The decomposer's subtasks as prompt text; empty without a decomposer."""
    missed: tuple[str, ...] = ()
    """Sentences of the instruction that a failed answer may have missed."""
    selection: Selection | None = None
    round: int = 0
    turns: int = 0
    stop_reason: str = ""
    shown: dict[str, str] = field(default_factory=dict)
    know_how: str = ""
    """The prompt text of the skills that match the instruction."""
    submissions: list[Submission] = field(default_factory=list)
    handed_in: list[Selection | None] = field(default_factory=list)
    """The selection at each submission."""
    first_row: tuple[Cell, ...] | None = None
    """The first submission's row when it was made: empty for the untouched workspace, None if it was not run."""
    bits: list[bool] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.askings = [self.asking]
        """All users of the solver's model: the trial itself, and each of its lineages."""
        self.schedule = Schedule(config=self.config, profile=self.asking.role.profile, task_digest=self.task.digest,
                                 trial_seed=self.seed)  # fmt: skip
        self.runs = SuiteRuns(self.forks)
        self.deliverable: Deliverable = deliverable_of(self.spec)

    @property
    def purse(self) -> Purse:
        """The trial's spending and budget."""
        return self.asking.purse

    async def look_around(self, looks: environment_probe.Looks) -> None:
        """Take a snapshot of the untouched environment."""
        self.spec = await looks.around(self.spec, self.task)
        self.deliverable = deliverable_of(self.spec)
        if self.config.agent_style == "direct":
            await self._read_named()
        if self.config.use_skills:
            self.know_how = await know_how(installed(), self.spec, self.deliverable,
                                           count=self.asking.role.model.count_tokens,
                                           budget=self.config.skill_tokens,
                                           plain=self.config.agent_style == "loop")  # fmt: skip

    async def _read_named(self) -> None:
        """Read the files that the instruction names, which go into every prompt, shortened."""
        named = list(self.deliverable.inputs[:_SHOWN_FILES])
        named += [self.deliverable.path] if self.deliverable.path and self.deliverable.exists else []
        for path in named:
            text = await self.forks.read(path, limit=4 * _SHOWN_CHARACTERS)
            if text is not None:
                cut = "\n[cut]\n" if len(text) > _SHOWN_CHARACTERS else ""
                self.shown[path] = text[:_SHOWN_CHARACTERS] + cut

    def prompt(self, slot: Slot) -> Prompt:
        """A slot's prompt."""
        return prompt_formats.ask(
            self.spec.instruction,
            self.deliverable,
            form=slot.form,
            plan=slot.plan,
            hint="\n\n".join(one for one in (self.know_how, self.config.hint) if one),
            seed=slot.seed,
            temperature=slot.temperature,
            max_tokens=self.config.max_answer_tokens,
            profile=self.asking.role.profile,
            inputs=self.shown,
            notes=self.notes_for(slot),
            purpose="repair" if slot.parent else "candidate",
        )

    def notes_for(self, slot: Slot) -> str:
        """The additional text of a slot's prompt."""
        if slot.parent is not None:
            return repair.notes(self.pool.candidate(slot.parent), self.feedback(slot.parent))
        if slot.told == "reread":
            return repair.reread(self.missed)
        if slot.told == "tried":
            return repair.tried(self.feedback(one) for one in self.order())
        return self.division

    def order(self) -> tuple[str, ...]:
        """The selected candidates, best first."""
        scores = self.selection.scores if self.selection else {}
        return tuple(sorted(scores, key=lambda one: -scores[one]))

    def feedback(self, identity: str) -> tuple[str, ...]:
        row = self.pool.rows.get(identity)
        return repair.feedback(row, self.pool.tests, self.config.feedback) if row else ()

    async def payable(self, slots: Sequence[Slot]) -> tuple[tuple[Slot, Prompt], ...]:
        """The slots that turns and tokens can pay for, with their prompts; notes why there are fewer."""
        slots = slots[: max(0, self.config.max_turns - self.turns)]
        if not slots:
            self.stop_reason = "turns"
            return ()
        asked = [(slot, self.prompt(slot)) for slot in slots]
        count = await payable([(self.asking, prompt) for _, prompt in asked])
        if count == 0:
            self.stop_reason = "tokens"
        return tuple(asked[:count])

    async def ask(self, asked: Sequence[tuple[Slot, Prompt]]) -> tuple[Candidate, ...]:
        """Sample a round's candidates concurrently; they enter the pool in slot order."""
        self.round += 1
        self.emit_turn()
        said = await self.asking.all([(slot.id, prompt) for slot, prompt in asked])
        made = []
        for (slot, prompt), answer in zip(asked, said, strict=True):
            found = prompt_formats.read(answer, prompt, self.deliverable)
            if slot.parent and not isinstance(found, Malformed):  # a repair of some files keeps its parent's others
                found = {**self.pool.candidate(slot.parent).files, **found}
            candidate = candidate_of(slot, found, self.pool.candidates,
                                          prompt_tokens=answer.prompt_tokens or 0,
                                          completion_tokens=answer.completion_tokens or 0,
                                          engine_seconds=answer.seconds,
                                          finish_reason=answer.finish_reason)  # fmt: skip
            self.pool.candidates.append(candidate)
            made.append(candidate)
        self.turns += len(made)
        self.entered([slot for slot, _ in asked], made)
        return tuple(made)

    def entered(self, slots: Sequence[Slot], made: Sequence[Candidate]) -> None:
        """Journal a round's candidates, which are already in the pool, with their slots."""
        self.journal("round", number=self.round, slots=[slot.model_dump(mode="json") for slot in slots],
                     digests=[one.digest for one in made], duplicates=[one.duplicate_of for one in made],
                     malformed=[one.malformed for one in made], tokens_left=self.purse.left)  # fmt: skip

    async def evaluate(self, made: Sequence[Candidate]) -> None:
        """Run the tests on the new candidates. Results are processed in slot order after all runs, so that no decision
        depends on which run was faster."""
        pool = self.pool
        new = {one.id: one for one in made if one.files and one.duplicate_of is None and one.id not in pool.rows}
        trying = (self.runs.try_out(name, one.files, pool.tests) for name, one in new.items())
        pool.rows.update(zip(new, await side_by_side([*map(asyncio.ensure_future, trying)]), strict=True))
        for one in made:
            self._share_row(one)
            if (row := pool.rows.get(one.id)) is not None:
                told = [row[place].outcome == "pass" for place in judging(pool.tests)]
                self.events.emit(VerifyComplete(candidate=one.id, passing=sum(told), total=len(told),
                                                progress=progress(row, pool.tests)))  # fmt: skip

    def _share_row(self, one: Candidate) -> None:
        """Give a duplicate its original's row, as a vote. If only votes decide, a greedy copy is not one: the likeliest
        answer to one wording is mostly the likeliest to the next, so such copies are no agreement."""
        pool = self.pool
        if one.duplicate_of not in pool.rows:
            return
        earlier = itertools.takewhile(lambda other: other.id != one.id, pool.candidates)
        echoed = (other for other in earlier if other.temperature == 0.0 and other.digest == one.digest)
        if stated(pool.tests) or one.temperature or not any(echoed):
            pool.rows[one.id] = pool.rows[one.duplicate_of]

    def choose(self, selector: SelectorName) -> None:
        """Select over the whole pool."""
        self.hold(self.pool.choose(selector, self.selection))

    def hold(self, selection: Selection) -> None:
        """Make this the current selection; journal and report it."""
        self.selection = selection
        self.journal("select", **selection.model_dump(mode="json"))
        self.beat()

    async def hand_in(self) -> bool | None:
        """Submit the best candidate (or the untouched workspace) and return the verdict's bit. Returns None, without a
        submission, if it or one with the same files has failed already."""
        if self.selection is None or self.selection.chosen is None:
            self.selection = self.pool.unselected(self.config.selector) or self.selection
        made = self._chosen(self.selection)
        before = [one.digest if one else None for one in map(self._chosen, self.handed_in)]
        if (made.digest if made else None) in before:
            self.selection = self.handed_in[-1]
            self.notes.append("nothing new was found after the verdict: it is not asked again")
            return None
        difference, living = await self.forks.hand_in(f"submission{len(self.submissions)}", made.files if made else {})
        self.journal("submit", candidate=made.id if made else None, changed=list(map(spelled, difference.changed)))
        submission = Submission.of(difference.tar, id=f"{self.name}-{len(self.submissions)}", trial=self.name,
                                   task_digest=self.task.digest, living=living)  # fmt: skip
        if not self.submissions:
            self.first_row = self.pool.rows.get(made.id) if made else ()
        self.handed_in.append(self.selection)
        self.submissions.append(submission)
        # The hidden tests' duration reveals something about them: no decision of the search may depend on it.
        with self.clock.stopped():
            passed = await self.judge(submission)
        self.bits.append(passed)
        if not passed and made:
            self.pool.rejected.add(made.id)
        return passed

    def _chosen(self, selection: Selection | None) -> Candidate | None:
        return self.pool.candidate(selection.chosen) if selection and selection.chosen else None

    def emit_turn(self, turn: int | None = None) -> None:
        """Report the start of a turn: the trial's next one, or this one of a lineage (``max_turns`` limits either)."""
        turn = self.turns + 1 if turn is None else turn
        self.events.emit(TurnStart(turn=turn, max_turns=self.config.max_turns, subtask="candidates"))

    def beat(self) -> None:
        """Report progress to the display."""
        chosen, rows = self.selection.chosen if self.selection else None, self.pool.rows
        share = progress(rows[chosen], self.pool.tests) if chosen and chosen in rows else 0.0
        self.events.emit(
            Heartbeat(turn=self.turns, max_turns=self.config.max_turns, progress=share, best=chosen,
                      elapsed_ms=int(self.clock.elapsed * 1000), prompt_tokens=self.purse.prompt_tokens,
                      completion_tokens=self.purse.completion_tokens)
        )  # fmt: skip

    def journal(self, what: str, **detail: Any) -> None:
        self.events.emit(Action(name=what, detail=detail))
