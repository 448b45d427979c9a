"""The state of one trial's search and the steps that all agents share: asking for candidates and selecting
(``evaluation`` runs the tests, ``submission`` hands in). Decisions fall at round barriers, in slot order, never in the
order of arrival."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hc_ray.agent import environment_probe, prompt_formats
from hc_ray.agent.budget import Asking, Clock, payable
from hc_ray.agent.deliverable import Deliverable, deliverable_of
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.agent.skills import installed, know_how
from hc_ray.domain.candidate import Candidate, Submission
from hc_ray.domain.config import SelectorName, SolverConfig
from hc_ray.domain.events import Action, Heartbeat, TurnStart
from hc_ray.domain.ports import Events, Judge
from hc_ray.domain.prompt import Prompt
from hc_ray.domain.suite import Cell, Suite
from hc_ray.domain.task import Task
from hc_ray.search import answers, repair
from hc_ray.search.pool import Pool
from hc_ray.search.schedule import Schedule, Slot
from hc_ray.search.selection import Selection, progress
from hc_ray.selftests.suite_runs import SuiteRuns
from hc_ray.spec.spec import Spec

_SHOWN_FILES, _SHOWN_CHARACTERS = 3, 1200


@dataclass(frozen=True)
class TrialContext:
    """What a trial is given, fixed from its first to its last moment: the task and all that a search works with."""

    task: Task
    config: SolverConfig
    schedule: Schedule
    asking: Asking
    """The solver's model within the trial's budget."""
    forks: SandboxForks
    judge: Judge
    events: Events
    clock: Clock
    name: str
    identity: str
    """Digest of what tells this trial from others: part of its sandboxes' names."""
    lineage_tokens: int
    """What one lineage of the style ``loop`` may spend."""


class Search:
    """Where a search stands; only its own coroutine touches it."""

    def __init__(self, context: TrialContext, spec: Spec) -> None:
        self.context, self.spec = context, spec
        self.config, self.forks, self.purse = context.config, context.forks, context.asking.purse
        self.runs = SuiteRuns(context.forks)
        self.deliverable: Deliverable = deliverable_of(spec)
        self.pool = Pool()
        self.suite: Suite | None = None
        self.division = ""
        """What is told of the parts that a model named; empty where none was asked."""
        self.missed: tuple[str, ...] = ()
        """Sentences of the instruction that a failed answer may have missed."""
        self.selection: Selection | None = None
        self.round = 0
        self.turns = 0
        self.stop_reason = ""
        self.shown: dict[str, str] = {}
        self.know_how = ""
        """What prompts say of the skills that the instruction calls for."""
        self.submissions: list[Submission] = []
        self.handed_in: list[Selection | None] = []
        """What stood when each submission was made."""
        self.first_row: tuple[Cell, ...] | None = None
        """What the first submission had shown by then: nothing for the untouched workspace, None if it never ran."""
        self.bits: list[bool] = []
        self.notes: list[str] = []

    async def look_around(self, looks: environment_probe.Looks) -> None:
        """See what the untouched environment holds."""
        self.spec = await looks.around(self.spec, self.context.task)
        self.deliverable = deliverable_of(self.spec)
        if self.config.agent_style == "direct":
            await self._read_named()
        if self.config.use_skills:
            self.know_how = await know_how(installed(), self.spec, self.deliverable,
                                           count=self.context.asking.role.model.count_tokens,
                                           budget=self.config.skill_tokens,
                                           plain=self.config.agent_style == "loop")  # fmt: skip

    async def _read_named(self) -> None:
        """Read the named files: they go into every prompt, cut."""
        named = list(self.deliverable.inputs[:_SHOWN_FILES])
        named += [self.deliverable.path] if self.deliverable.path and self.deliverable.exists else []
        for path in named:
            text = await self.forks.read(path, limit=4 * _SHOWN_CHARACTERS)
            if text is not None:
                cut = "\n[cut]\n" if len(text) > _SHOWN_CHARACTERS else ""
                self.shown[path] = text[:_SHOWN_CHARACTERS] + cut

    def prompt(self, slot: Slot) -> Prompt:
        """What a slot asks its model."""
        return prompt_formats.ask(
            self.spec.instruction,
            self.deliverable,
            form=slot.form,
            plan=slot.plan,
            hint="\n\n".join(one for one in (self.know_how, self.config.hint) if one),
            seed=slot.seed,
            temperature=slot.temperature,
            max_tokens=self.config.max_answer_tokens,
            profile=self.context.asking.role.profile,
            inputs=self.shown,
            notes=self.notes_for(slot),
            purpose="repair" if slot.parent else "candidate",
        )

    def notes_for(self, slot: Slot) -> str:
        """What a slot's prompt tells besides the instruction."""
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
        """The first of the slots that turns and tokens can pay for, with their prompts; says why it took fewer."""
        slots = slots[: max(0, self.config.max_turns - self.turns)]
        if not slots:
            self.stop_reason = "turns"
            return ()
        asked = [(slot, self.prompt(slot)) for slot in slots]
        count = await payable([(self.context.asking, prompt) for _, prompt in asked])
        if count == 0:
            self.stop_reason = "tokens"
        return tuple(asked[:count])

    async def ask(self, asked: Sequence[tuple[Slot, Prompt]]) -> tuple[Candidate, ...]:
        """Ask for a round's candidates, all at once; they enter the pool in slot order."""
        self.round += 1
        self.emit_turn()
        said = await self.context.asking.all([(slot.id, prompt) for slot, prompt in asked])
        made = []
        for (slot, prompt), answer in zip(asked, said, strict=True):
            begun = self.pool.candidate(slot.parent).files if slot.parent else {}
            found = answers.read(prompt, answer, self.deliverable, begun=begun)
            candidate = answers.candidate(slot, found, self.pool.candidates,
                                          prompt_tokens=answer.prompt_tokens or 0,
                                          completion_tokens=answer.completion_tokens or 0,
                                          engine_seconds=answer.seconds,
                                          finish_reason=answer.finish_reason)  # fmt: skip
            self.pool.candidates.append(candidate)
            made.append(candidate)
            self.turns += 1
        self.entered([slot for slot, _ in asked], made)
        return tuple(made)

    def entered(self, slots: Sequence[Slot], made: Sequence[Candidate]) -> None:
        """Journal a round's candidates, which are in the pool by now, and the slots they come from."""
        self.journal("round", number=self.round, slots=[slot.model_dump(mode="json") for slot in slots],
                     digests=[one.digest for one in made], duplicates=[one.duplicate_of for one in made],
                     malformed=[one.malformed for one in made], tokens_left=self.purse.left)  # fmt: skip

    def choose(self, selector: SelectorName) -> None:
        """Select over the whole pool."""
        self.hold(self.pool.choose(selector, self.selection))

    def hold(self, selection: Selection) -> None:
        """From now on this is what would be handed in; journal it, and tell of it."""
        self.selection = selection
        self.journal("select", **selection.model_dump(mode="json"))
        self.beat()

    def emit_turn(self, ahead: int = 1) -> None:
        """Tell that a turn begins: the next one, or one so many further on."""
        turn = self.turns + ahead
        self.context.events.emit(TurnStart(turn=turn, max_turns=self.config.max_turns, subtask="candidates"))

    def beat(self) -> None:
        """Tell the display how far the search is."""
        chosen, rows = self.selection.chosen if self.selection else None, self.pool.rows
        share = progress(rows[chosen], self.pool.tests) if chosen and chosen in rows else 0.0
        self.context.events.emit(
            Heartbeat(turn=self.turns, max_turns=self.config.max_turns, progress=share, best=chosen,
                      elapsed_ms=int(self.context.clock.elapsed * 1000), prompt_tokens=self.purse.prompt_tokens,
                      completion_tokens=self.purse.completion_tokens)
        )  # fmt: skip

    def journal(self, what: str, **detail: Any) -> None:
        self.context.events.emit(Action(name=what, detail=detail))
