"""The parts of a task, from a model by schema or the generic four, and where a search stands in them. A part has a
goal, a hint, a share of the turns and a checkpoint; a part that has used its turns or its attempts before its
checkpoint held has failed."""

import json
from collections.abc import Sequence
from typing import Literal

from pydantic import ValidationError

from hc_ray.agent.prompt_templates import filled
from hc_ray.domain.prompt import Completion, Malformed, Message, Prompt
from hc_ray.domain.value import Value
from hc_ray.spec.spec import Spec

Checkpoint = Literal["suite", "answers", "tests", "end"]
"""``suite``: the self-tests are frozen; ``answers``: the best is there and answers something; ``tests``: the best
passes every judging test; ``end``: only the end of the search."""
LEAST, MOST = 3, 5
ATTEMPTS = 3
"""Rounds that a part may take to reach its checkpoint, as far as its turns reach."""
_ANSWER_TOKENS = 300
_TEXT = 200


class Subtask(Value):
    """One part."""

    name: str
    goal: str
    hint: str = ""
    share: float
    """The share of all turns that it may use."""
    checkpoint: Checkpoint

    @property
    def told(self) -> str:
        """The part in the words of a prompt."""
        return f"{self.goal} {self.hint}".strip()


class Ended(Value):
    """What became of a part."""

    name: str
    status: Literal["completed", "failed", "skipped"]
    turns: int
    attempts: int


GENERIC: tuple[Subtask, ...] = (
    Subtask(name="understand-requirements", goal="Find out what is asked for and what is there.", share=0.0,
            checkpoint="suite"),
    Subtask(name="write-initial-solution", goal="Write a first solution that runs.", share=0.4, checkpoint="answers"),
    Subtask(name="test-and-iterate", goal="Test it and correct what fails.", share=0.8, checkpoint="tests"),
    Subtask(name="final-validation", goal="Check names, formats and edge cases once more.", share=1.0,
            checkpoint="end"),
)  # fmt: skip


def ask(spec: Spec, *, seed: int) -> Prompt:
    """The question for a task's parts."""
    text = {"type": "string", "maxLength": _TEXT}
    part = {
        "type": "object",
        "properties": {"name": text, "goal": text, "hint": text},
        "required": ["name", "goal", "hint"],
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "properties": {"parts": {"type": "array", "items": part, "minItems": LEAST, "maxItems": MOST}},
        "required": ["parts"],
        "additionalProperties": False,
    }
    said = filled("decompose", instruction=spec.instruction.strip("\n"))
    return Prompt(role="decomposer", purpose="decompose", messages=(Message(role="user", content=said),),
                  max_tokens=_ANSWER_TOKENS, temperature=0.0, seed=seed, schema_=schema)  # fmt: skip


class _Part(Value):
    name: str
    goal: str
    hint: str


class _Parts(Value):
    parts: tuple[_Part, ...]


def read(answer: Completion) -> tuple[Subtask, ...] | Malformed:
    """The parts of an answer; ``Malformed`` for what is no list of three to five parts with goals of their own."""
    text = answer.text
    try:
        parts = _Parts.model_validate(json.loads(text[text.index("{") : text.rindex("}") + 1])).parts
    except (ValueError, ValidationError):
        return Malformed(reason="no list of parts", text=text[:2000])
    goals = [" ".join(part.goal.split())[:_TEXT] for part in parts]
    if not LEAST <= len(parts) <= MOST or not all(goals) or len(set(goals)) < len(goals):
        return Malformed(reason=f"not {LEAST} to {MOST} parts with goals of their own", text=text[:2000])
    count = len(parts)
    return tuple(
        Subtask(
            name=" ".join(part.name.split())[:60] or f"part {i}",
            goal=goal,
            hint=" ".join(part.hint.split())[:_TEXT],
            share=i / count,
            checkpoint="end" if i == count else "answers",
        )
        for i, (part, goal) in enumerate(zip(parts, goals, strict=True), start=1)
    )


class Reached(Value):
    """What the best of a search has come to, as checkpoints ask."""

    suite: bool = False
    answers: bool = False
    tests: bool = False


class Progress:
    """Walks through the parts of one trial."""

    def __init__(self, parts: Sequence[Subtask], *, turns: int) -> None:
        """``turns``: all that the trial may take; each part's share ends at its part of them."""
        self.parts, self._turns = tuple(parts), turns
        self.ended: list[Ended] = []
        self._since = 0
        self._attempts = 0

    @property
    def now(self) -> Subtask:
        """The part that is on; the last one stays on to the end."""
        return self.parts[min(len(self.ended), len(self.parts) - 1)]

    def holds(self, reached: Reached) -> bool:
        """Whether the checkpoint of the part that is on holds."""
        part = self.now
        if part.checkpoint == "suite":
            return reached.suite
        if part.checkpoint == "answers":
            return reached.answers
        return part.checkpoint == "tests" and reached.tests

    def overdue(self, turns: int) -> bool:
        """Whether the part has used its turns, or its attempts. The last part has all that is left."""
        if self.now.checkpoint == "end":
            return False
        return self._attempts >= ATTEMPTS or (self._attempts > 0 and turns >= self.now.share * self._turns)

    def attempt(self) -> None:
        """A round was spent on the part."""
        self._attempts += 1

    def advance(self, turns: int, *, completed: bool) -> Ended:
        """End the part that is on, and begin the next."""
        ended = self._end(turns, completed=completed)
        self.ended.append(ended)
        self._since, self._attempts = turns, 0
        return ended

    def _end(self, turns: int, *, completed: bool) -> Ended:
        return Ended(name=self.now.name, status="completed" if completed else "failed", turns=turns - self._since,
                     attempts=self._attempts)  # fmt: skip

    def all_ended(self, turns: int, *, completed: bool) -> tuple[Ended, ...]:
        """What became of every part when the search has ended: with a complete search the part that was on is
        completed and those after it were not needed; else it has failed, and they were never begun."""
        if len(self.ended) >= len(self.parts):
            return tuple(self.ended)
        rest = [Ended(name=part.name, status="skipped", turns=0, attempts=0)
                for part in self.parts[len(self.ended) + 1 :]]  # fmt: skip
        return (*self.ended, self._end(turns, completed=completed), *rest)
