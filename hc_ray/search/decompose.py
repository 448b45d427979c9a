"""Decomposes a task into subtasks for the solver's prompt, by a model or as the generic four."""

from hc_ray.agent.prompt_templates import filled
from hc_ray.domain.prompt import Completion, Malformed, Message, Prompt, found_in
from hc_ray.domain.value import Value
from hc_ray.spec.spec import Spec

LEAST, MOST = 3, 5
_TEXT = 200


class Subtask(Value):
    """One part."""

    name: str
    goal: str
    hint: str

    @property
    def told(self) -> str:
        """The subtask's text in a prompt."""
        return f"{self.goal} {self.hint}".strip()


GENERIC: tuple[Subtask, ...] = (
    Subtask(name="understand-requirements", goal="Find out what is asked for and what is there.", hint=""),
    Subtask(name="write-initial-solution", goal="Write a first solution that runs.", hint=""),
    Subtask(name="test-and-iterate", goal="Test it and correct what fails.", hint=""),
    Subtask(name="final-validation", goal="Check names, formats and edge cases once more.", hint=""),
)


def ask(spec: Spec, *, seed: int, max_tokens: int) -> Prompt:
    """The prompt for a task's subtasks."""
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
                  max_tokens=max_tokens, temperature=0.0, seed=seed, schema_=schema)  # fmt: skip


class _Parts(Value):
    parts: tuple[Subtask, ...]


def read(answer: Completion) -> tuple[Subtask, ...] | Malformed:
    """Parse the subtasks; ``Malformed`` unless they are three to five with distinct goals."""
    if (found := found_in(answer.text, _Parts)) is None:
        return Malformed(reason="no list of parts", text=answer.text[:2000])
    parts = [
        Subtask(name=_short(part.name, 60) or f"part {i}", goal=_short(part.goal), hint=_short(part.hint))
        for i, part in enumerate(found.parts, start=1)
    ]
    goals = {part.goal for part in parts}
    if not LEAST <= len(parts) <= MOST or "" in goals or len(goals) < len(parts):
        return Malformed(reason=f"not {LEAST} to {MOST} parts with goals of their own", text=answer.text[:2000])
    return tuple(parts)


def _short(text: str, length: int = _TEXT) -> str:
    return " ".join(text.split())[:length]
