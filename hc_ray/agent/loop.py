"""One lineage of the style ``loop``: an agent works on a task in its own sandbox until it submits. It knows no suite.
The search may answer a submission with feedback, and the same conversation continues."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hc_ray.agent.actions import Action, describe, functions, not_actions, read_actions, read_calls, spoken
from hc_ray.agent.budget import Asking
from hc_ray.agent.monitor import Monitor, Step
from hc_ray.agent.prompt_templates import filled, template
from hc_ray.agent.terminal import Limits, Terminal
from hc_ray.agent.transcript import Transcript
from hc_ray.agent.workspace import RIGHTS, State, state_of
from hc_ray.domain.candidate import NO_TEXT, in_lines
from hc_ray.domain.ports import Sandbox
from hc_ray.domain.prompt import Completion, Malformed, Prompt
from hc_ray.domain.value import Value

_FAULTS = 3
"""A lineage ends after so many consecutive answers that are malformed or have no action."""
_CUT_SHOWN = 1500
"""Characters of a cut answer to keep in the history."""
_LISTED = 40
_DIGEST = re.compile(r", SHA-256 \w+")
_SHORTEST = 64
"""The least room for an answer in tokens; with less, no prompt is sent."""

End = Literal["submitted", "prose", "turns", "tokens", "context", "malformed", "repetition", "timeout"]
ActionForm = Literal["fenced", "calls"]


class Bounds(Value):
    """The limits of one lineage."""

    turns: int = 40
    """Answers over its whole life, repairs included."""
    context_tokens: int = 16_384
    """Prompt plus answer."""
    answer_tokens: int = 4000
    tokens: int = 50_000
    """All its answers, and of each prompt what goes beyond the previous one. Shown to the model, like turns; its purse
    may have less near the end of a trial."""
    form: ActionForm = "fenced"
    limits: Limits = Limits()


def opening(form: ActionForm, instruction: str, *told: str) -> tuple[str, str]:
    """The system message and the first user message. ``told``: the environment block, a plan, a hint, skills, other
    lineages' findings; empty ones are left out."""
    actions = describe() if form == "fenced" else "the tools that are declared with this conversation."
    system = filled("loop_system", form=template(f"loop_{form}"), actions=actions)
    environment = "\n\n".join(part for part in told if part)
    return system, filled("loop_task", instruction=instruction.strip("\n"), environment=environment)


Checklist = Callable[[State], Awaitable[Sequence[str]]]
"""Remarks on a state for a first submission, besides its difference."""


@dataclass(eq=False)
class Lineage:
    """Works on one candidate."""

    sandbox: Sandbox
    asking: Asking
    """With its own purse, so that its budget never depends on which sibling is faster."""
    opening: tuple[str, str]
    """See ``opening``."""
    seed: int
    """The seed from which every request's seed derives."""
    temperature: float
    bounds: Bounds
    owner: str
    """Its id, under which its exchanges are recorded."""
    checklist: Checklist
    told: Callable[[int], None]
    """Called at every turn."""
    turns: int = 0
    end: End = "timeout"
    """The reason if it does not end by itself."""

    def __post_init__(self) -> None:
        self.terminal, self.monitor = Terminal(self.sandbox, self.bounds.limits), Monitor(self.sandbox.workdir)
        self.transcript = Transcript(*self.opening, room=self.bounds.context_tokens - self.bounds.answer_tokens)
        self.steps: list[Step] = []
        self._faults = 0
        self._listed: object = None
        """The state that the last ``submit`` that did not count would have submitted, or why it could not."""

    async def work(self) -> End:
        """Work until the lineage submits or its budget is spent."""
        self.end = "timeout"
        ended: End | None = None
        while ended is None and self.turns < self.bounds.turns:
            self.told(self.turns + 1)
            answer = await self._answer("turn")
            if isinstance(answer, str):
                ended = answer
            else:
                self.turns += 1
                ended = await self._act(answer)
        self.end = ended or "turns"
        return self.end

    async def resume(self, observation: str) -> End:
        """Continue after a submission, with feedback."""
        self.transcript.tell(observation)
        self._faults = 0
        return await self.work()

    async def ask(self, purpose: str, question: str, *, schema: dict[str, object] | None = None) -> str:
        """Ask the lineage about its work, in its own conversation but without adding to it; empty if that is too
        expensive or does not fit."""
        answer = await self._answer(purpose, question, schema)
        return spoken(answer.text) if isinstance(answer, Completion) else ""

    async def _act(self, answer: Completion) -> End | None:
        """Perform an answer's actions and report to the model; returns the lineage's end if it ended."""
        text, asked = spoken(answer.text), self.asking.exchanges[-1].prompt
        if answer.finish_reason == "length":
            limit = f"Your answer reached the limit of {asked.max_tokens:,} tokens and was cut, so nothing of it ran."
            return self._fault(text[:_CUT_SHOWN] + "\n[cut]", f"{limit} Answer in smaller steps.", "malformed")
        actions = read_calls(answer.tool_calls) if answer.tool_calls else read_actions(text)
        if isinstance(actions, Malformed):
            # Keep calls out of the history that cannot be answered.
            sent = f" You sent: {actions.text}" if answer.tool_calls and actions.text else ""
            return self._fault(text, f"Nothing of your answer ran: {actions.reason}.{sent}", "malformed")
        if not actions:
            how = ["Call a tool, or end the work by calling submit."]
            if self.bounds.form == "fenced":
                how = [*_talk(text), "Act with a fenced block such as ```sh, or end the work with a block ```submit."]
            return self._fault(text, " ".join(["Your answer held no action.", *how]), "prose")
        self._faults = 0
        before = len(self.steps)
        results, ended = await self._perform(actions)
        if answer.tool_calls:
            self.transcript.add_calls(text, answer.tool_calls, results, self._left())
        else:
            numbered = [f"Result of action {i} ({one.name}):\n{result}" if len(results) > 1 else result
                        for i, (one, result) in enumerate(zip(actions, results, strict=False), start=1)]  # fmt: skip
            ran = self.steps[before:]
            talk = _talk(text) if not ran or any(step.failed for step in ran) else []
            self.transcript.add(text, "\n\n".join([*numbered, *talk, self._left()]))
        return ended

    def _fault(self, text: str, says: str, end: End) -> End | None:
        """Handle an answer without effect; too many in a row end the lineage."""
        self._faults += 1
        self.transcript.add(text, f"{says}\n\n{self._left()}")
        return end if self._faults >= _FAULTS else None

    async def _perform(self, actions: Sequence[Action]) -> tuple[list[str], End | None]:
        """Perform actions; returns their results, and the lineage's end if it ended."""
        results: list[str] = []
        held = ""
        """Why a ``submit`` in this answer does not count."""
        for action in actions:
            ended: End | None = None
            if action.name != "submit":
                result, failed, ended = await self._do(action)
                held = "an action before it in the same answer failed" if failed else held
            elif held:
                result = f"not submitted: {held}. Look at that first."
            else:
                told = await self._submit(unseen=bool(results))
                result, ended = told or "submitted", None if told else "submitted"
                held = "see above what you would hand in"
            results.append(result)
            if ended:
                why = f"not run: the work was {'submitted' if ended == 'submitted' else 'ended'}"
                return results + [why] * (len(actions) - len(results)), ended
        return results, None

    async def _do(self, action: Action) -> tuple[str, bool, End | None]:
        """Perform an action; returns its result, whether it failed, and the lineage's end if it was repeated too
        often."""
        advice = self.monitor.check(action)
        if not advice.allowed:
            result = f"refused: {advice.says}"
            self.steps.append(Step(action=action, allowed=False, rule=advice.rule, result=result))
            return result, True, None
        seen = await self.terminal.perform(action)
        step = Step(action=action, failed=seen.failed, result=seen.says)
        back = self.monitor.look_back([*self.steps, step])
        warnings = [one for one in (advice.says, back.says) if one]
        self.steps.append(step.model_copy(update={"rule": advice.rule or back.rule, "warning": " ".join(warnings)}))
        told = [seen.says, *(f"(warning: {one})" for one in warnings)]
        return "\n".join(told), seen.failed, None if back.allowed else "repetition"

    async def _submit(self, *, unseen: bool) -> str:
        """The answer to a first ``submit``: the difference that it would submit. ``unseen``: actions precede it in the
        same answer, whose results the model has not read, so it is answered again if they changed the difference."""
        before = self._listed
        if before is not None and not unseen:
            return ""
        try:
            state = await state_of(self.sandbox)
        except ValueError as error:
            self._listed = str(error)
            says = f"Not submitted: the workspace cannot be handed in ({error}). Remove what is not needed."
            return "" if before == self._listed else says
        self._listed = state.files
        if before == state.files:
            return ""
        told = {path: _told(path, held) for path, held in state.files.items() if f"{path}{RIGHTS}" not in state.files}
        lines = [f"  {line}" for line in in_lines(told, _LISTED)]
        held, more = lines[:_LISTED], [f"  … and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
        changed = "\n".join([*held, *more]) or "  (nothing)"
        items = "".join(f"\n- {one}" for one in await self.checklist(state))
        return (
            f"Not submitted yet. Against the environment you began with, this is what differs:\n{changed}{items}\n"
            "Read the task once more. Is every requirement met, and did you verify it? If so, submit again to finish; "
            "else go on."
        )

    def _left(self) -> str:
        """The remaining budget for the model. Never includes wall time, which varies between runs."""
        turns = self.bounds.turns - self.turns
        tokens = max(0, self.bounds.tokens - self.asking.purse.spent)
        text = f"[{turns} of {self.bounds.turns} turns left, {tokens:,} tokens left]"
        if turns <= self.bounds.turns // 5:
            text += " Little is left: make sure that what the task asks for is in place."
        return text

    # Asking

    async def _answer(
        self, purpose: str, question: str = "", schema: dict[str, object] | None = None
    ) -> Completion | End:
        """The next answer, or the lineage's end if it is too expensive or does not fit. Compacts the history when it
        nears the context's end, and again if the server reports that it is too long."""
        for attempt in range(3):
            if (attempt or self.transcript.full) and not await self._compact(hard=attempt > 1):
                return "context"
            answer = await self._asked(purpose, question, schema)
            if answer is None:
                return "tokens"
            whole = bool(question) or self.transcript.counted(answer.prompt_tokens)
            if answer.finish_reason != "context" and whole:
                return answer
        return "context"

    async def _compact(self, *, hard: bool) -> bool:
        """Make room in the context; returns whether there is any."""
        if not self.turns:
            return False
        self.terminal.known = self.sandbox.workdir  # messages about another directory may have been dropped
        if self.transcript.drop_outputs() and not hard:
            return True
        notes = await self._asked("notes", template("loop_notes"), None)
        text = spoken(notes.text) if notes and notes.finish_reason != "context" else ""
        return self.transcript.summarised(text or "(The notes are lost. Look at the workspace to see what was done.)")

    async def _asked(self, purpose: str, question: str, schema: dict[str, object] | None) -> Completion | None:
        """Send one request, with an answer as long as the purse can pay for, which reasoning models need; None if that
        is too short."""
        left = min(self.asking.purse.left, self.bounds.tokens - self.asking.purse.spent)
        tokens = self.bounds.answer_tokens
        messages = self.transcript.ended_by(question)
        shared = self.transcript.sent(len(question))
        prompt = Prompt(
            role="solver",
            purpose=purpose,
            messages=messages,
            max_tokens=tokens,
            temperature=self.temperature,
            seed=(self.seed + len(self.asking.exchanges)) % (1 << 31),
            schema_=schema,
            tools=functions() if self.bounds.form == "calls" else (),
            shared=shared,
            shared_tokens=None if question else self.transcript.shared_tokens,
        )
        if left < tokens + (1 - shared) * sum(len(message.whole) for message in messages):
            # Near the end, use the engine's count, since a token may be a single character.
            room = left - (await self.asking.worst_case(prompt) - tokens)
            if room < _SHORTEST:
                return None
            prompt = prompt.model_copy(update={"max_tokens": min(tokens, room)})
        (answer,) = await self.asking.all([(self.owner, prompt)])
        return answer


def _talk(text: str) -> list[str]:
    """Remarks on an answer's blocks that are not actions, which a model may mistake for files."""
    opened = ", ".join(dict.fromkeys(f"`{block.info}`" for block in not_actions(text)))
    return [f"(No action, so nothing came of it: {opened}. `write PATH` makes a file.)"] if opened else []


def _told(path: str, held: str) -> str:
    """A line of a difference: a path, with a description if it is not text."""
    if not held.startswith(NO_TEXT):
        return path
    return f"{path.removesuffix(RIGHTS)} ({_DIGEST.sub('', held.removeprefix(NO_TEXT))}"
