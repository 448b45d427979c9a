"""Requests to engines, and their answers."""

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
    """Only for ``assistant``."""
    tool_call_id: str | None = None
    """Only for ``tool``: the call that it answers."""

    @property
    def whole(self) -> str:
        """All of its text that a model reads."""
        return "".join((self.content, *(part for call in self.tool_calls for part in (call.name, call.arguments))))


class Prompt(Value):
    """One complete request to an engine: equal prompts with equal seeds are equal requests."""

    role: Role
    purpose: str
    """Its purpose, for the journal only (``candidate``, ``repair``, ``test.boundary`` …)."""
    messages: tuple[Message, ...] = ()
    """The conversation of a chat prompt; empty for a completion prompt."""
    text: Shown | None = None
    """The plain text that the model continues; None for a chat prompt."""
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    schema_: dict[str, Any] | None = None
    """A JSON schema for the answer, for engines that support it."""
    tools: tuple[dict[str, Any], ...] = ()
    """Functions that the model may call, in OpenAI's format."""
    shared: float = 0.0
    """Share of this prompt's characters that it has in common with the lineage's previous prompt, as a prefix; never
    sent."""
    shared_tokens: int | None = None
    """The engine's token count of that prompt, if this one starts with all of it; never sent."""
    context: str = ""
    """Data for ``read`` (the code prefix that the answer continues); never sent."""


class Completion(Value):
    """One answer. Token counts are the engine's own; None if it reported none."""

    text: Shown
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: Shown = ""
    """A reasoning model's thoughts, if its server separates them."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    """Prompt tokens that came from the server's prompt cache."""
    completion_tokens: int | None = None
    finish_reason: str | None = None
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)


class Malformed(Value):
    """An answer that could not be parsed: the reason, and its text."""

    reason: Shown
    text: Shown


def found_in(text: str, kind: type[V]) -> V | None:
    """The value of the last JSON object of this kind in an answer, with or without a fence, preceding thoughts or extra
    keys; None if there is none."""
    found, at = None, text.find("{")
    while at >= 0:
        end = at + 1
        with suppress(ValueError, RecursionError):
            said, length = _JSON.raw_decode(text[at:])  # with the whole text, every error would count its lines again
            found, end = kind.model_validate(said, extra="ignore"), at + length
        at = text.find("{", end)
    return found
