"""What goes to an engine and what comes back."""

import json
from contextlib import suppress
from typing import Any, Literal, TypeVar

from hc_ray.domain.value import Shown, Value

V = TypeVar("V", bound=Value)
_JSON = json.JSONDecoder(strict=False)

Role = Literal["tester", "decomposer", "solver", "meta"]


class ToolCall(Value):
    """A native tool call of an answer."""

    id: Shown
    name: Shown
    arguments: Shown
    """JSON, as the model wrote it."""


class Message(Value):
    role: Literal["system", "user", "assistant", "tool"]
    content: Shown
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant."""
    tool_call_id: str | None = None
    """Of a tool: the call that it answers."""

    @property
    def whole(self) -> str:
        """All that a model reads of it."""
        return "".join((self.content, *(part for call in self.tool_calls for part in (call.name, call.arguments))))


class Prompt(Value):
    """One request to an engine, complete: equal prompts with equal seeds are equal requests."""

    role: Role
    purpose: str
    """What it is for, for the journal only (``candidate``, ``repair``, ``test.boundary`` …)."""
    messages: tuple[Message, ...] = ()
    """The chat form; empty in the completion form."""
    text: Shown | None = None
    """The completion form: plain text that the model continues; None in the chat form."""
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    schema_: dict[str, Any] | None = None
    """A JSON schema that the answer must satisfy, for engines that can."""
    tools: tuple[dict[str, Any], ...] = ()
    """Functions that the model may call, in the OpenAI protocol's form."""
    shared: float = 0.0
    """Share of this prompt's characters with which the same lineage's previous prompt begins; never sent."""
    shared_tokens: int | None = None
    """Tokens that the engine counted for that prompt, where this one begins with all of it; never sent."""
    context: str = ""
    """Bookkeeping for ``read`` (the code prefix that the answer continues); never sent."""


class Completion(Value):
    """One answer. Token counts are the engine's own; None where it gave none."""

    text: Shown
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: Shown = ""
    """What a reasoning model thought, where its server tells that apart."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the prompt's tokens those that the server had in its prompt cache."""
    completion_tokens: int | None = None
    finish_reason: str | None = None
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)


class Malformed(Value):
    """An answer that could not be read, as a value: what was wrong and what it looked like."""

    reason: Shown
    text: Shown


def found_in(text: str, kind: type[V]) -> V | None:
    """The value in the last JSON object of that kind that an answer holds, in a fence or not, after thoughts or not,
    with keys of its own or not; None where it holds none."""
    found, at = None, text.find("{")
    while at >= 0:
        end = at + 1
        with suppress(ValueError, RecursionError):
            said, length = _JSON.raw_decode(text[at:])  # a whole text's errors count its lines anew at every brace
            found, end = kind.model_validate(said, extra="ignore"), at + length
        at = text.find("{", end)
    return found
