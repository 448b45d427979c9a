"""Converts prompts to the JSON of the OpenAI protocol, and reads its answers."""

import json
from collections.abc import Mapping
from typing import Any

from hc_ray.domain.config import Sampling
from hc_ray.domain.prompt import Message, Prompt, ToolCall

_SEED_RANGE = 1 << 31
"""Seeds are sent modulo this: every server accepts 31 bits, and llama.cpp takes 2**32 - 1 as 'random'."""

SCHEMA_FIELD = "response_format"


def request_of(prompt: Prompt, model: str, sampling: Mapping[str, float]) -> tuple[str, dict[str, Any]]:
    """The endpoint and request body for a prompt, the model's name and the sampling parameters."""
    body: dict[str, Any] = {"model": model}
    if prompt.text is None:
        body["messages"] = [_message(message) for message in prompt.messages]
    else:
        body["prompt"] = prompt.text
    body |= {"max_tokens": prompt.max_tokens, "temperature": prompt.temperature, "seed": prompt.seed % _SEED_RANGE}
    body |= sampling
    if prompt.stop:
        body["stop"] = list(prompt.stop)
    if prompt.tools:
        body["tools"] = list(prompt.tools)
    if prompt.schema_ is not None:
        body |= schema_fields(prompt.schema_, prompt.text is None)
    return ("chat/completions" if prompt.text is None else "completions"), body


def _message(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    return body


def calls_of(data: dict[str, Any]) -> tuple[ToolCall, ...]:
    """The native tool calls of an answer's first choice."""
    message = data["choices"][0].get("message") or {}
    return tuple(
        ToolCall(
            id=str(call.get("id") or f"call-{i}"),
            name=str(call["function"]["name"]),
            arguments=_as_text(call["function"].get("arguments")),
        )
        for i, call in enumerate(message.get("tool_calls") or ())
    )


def _as_text(arguments: Any) -> str:
    # Some servers send the object instead of its JSON text.
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {})


def sampling_fields(sampling: Sampling) -> dict[str, int | float]:
    """The body's sampling parameters, for a server that ignores unknown fields."""
    # vLLM and SGLang use `repetition_penalty`, llama.cpp `repeat_penalty`.
    return {**sampling.model_dump(), "repeat_penalty": sampling.repetition_penalty}


def schema_fields(schema: dict[str, Any], chat: bool) -> dict[str, Any]:
    """The body's fields that request answers in a JSON schema."""
    asked = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
    # For completions, llama.cpp uses `json_schema`; vLLM uses `response_format` at both endpoints.
    return {SCHEMA_FIELD: asked} if chat else {SCHEMA_FIELD: asked, "json_schema": schema}


def text_of(data: dict[str, Any] | None) -> str:
    """The text of an answer's first choice. Raises ``KeyError``, ``IndexError`` or ``TypeError`` if there is none."""
    choice = (data or {})["choices"][0]
    said = choice["message"].get("content") if "message" in choice else choice["text"]
    if isinstance(said, list):  # some servers send parts, one for reasoning and one for text
        return "".join(part["text"] for part in said if part.get("type") == "text")
    return said or ""


def count_of(usage: dict[str, Any], field: str) -> int | None:
    """A token count reported by a server; None if it is missing or invalid."""
    said = usage.get(field)
    return said if isinstance(said, int) and said >= 0 else None
