"""Anthropic's Messages API without a model: it refuses what the real one refuses, answers by a function of the request,
and records every byte. A request is told to the function in the form of ``EngineServer``."""

import json
import re
from typing import Any

from tests.fakes.engine_server import Answer, EngineServer, Rejected, tokens_of

_FIELDS = {"model", "max_tokens", "messages", "system", "temperature", "top_p", "top_k", "stop_sequences", "tools"}
_NAMES = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error",
          529: "overloaded_error"}  # fmt: skip


class AnthropicServer(EngineServer):
    """As ``EngineServer``; ``key`` is wanted in x-api-key. ``refuses_fields`` are refused as newer models do;
    ``thinks`` stands before each answer; ``cached`` tokens of each prompt are counted apart."""

    def __init__(self, answer: Answer, *, refuses_fields: tuple[str, ...] = (), thinks: str = "", cached: int = 0,
                 endpoints: tuple[str, ...] = ("/v1/messages", "/v1/messages/count_tokens", "/v1/models"),
                 **more: Any) -> None:  # fmt: skip
        super().__init__(answer, endpoints=endpoints, **{"models": ("claude-fake",), **more})
        self.refuses_fields, self.thinks, self.cached = refuses_fields, thinks, cached
        self.counted: list[tuple[int, int]] = []
        """Tokens of every prompt and its answer, as they were told."""

    @property
    def base_url(self) -> str:
        return super().base_url.removesuffix("/v1")

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for path, body in self.requests if path == "/v1/messages"]

    def reply(self, method: str, path: str, raw: bytes, authorization: str | None, wire: bytes) -> tuple[int, Any]:
        key = re.search(rb"(?im)^x-api-key: *(\S+)", wire)
        bearer = f"Bearer {key[1].decode()}" if key else authorization
        status, data = super().reply(method, path.partition("?")[0], raw, bearer, wire)
        if status >= 400:
            data = {"type": "error", "error": {"type": _NAMES.get(status, "api_error"), **data["error"]}}
        return status, data

    def _reply(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/v1/models":
            listed = [{"id": name, "type": "model", "display_name": name, "created_at": "2026-01-01T00:00:00Z",
                       **self.listed} for name in self.models]  # fmt: skip
            return 200, {"data": listed, "has_more": False, "first_id": None, "last_id": None}
        asked = {"messages": [{"role": one["role"], "content": _text(one)} for one in _checked(body["messages"])]}
        if system := body.get("system"):
            asked["messages"].insert(0, {"role": "system", "content": system})
        size = tokens_of("\n".join(one["content"] for one in asked["messages"]))
        if path.endswith("count_tokens"):
            return 200, {"input_tokens": size}
        self._refuse(body, size)
        return 200, self._message(body, size, self.answer(asked))

    def _refuse(self, body: dict[str, Any], size: int) -> None:
        if body["model"] not in self.models:
            raise Rejected(404, f"model: {body['model']}")
        if unknown := sorted((body.keys() - _FIELDS) | (body.keys() & set(self.refuses_fields))):
            raise Rejected(400, f"{unknown[0]}: Extra inputs are not permitted")
        if not 0 <= body.get("temperature", 1) <= 1 or not all(one.strip() for one in body.get("stop_sequences", ())):
            raise Rejected(400, "temperature: range 0..1; stop_sequences: each must contain non-whitespace")
        if self.context is not None and size > self.context:
            raise Rejected(400, f"prompt is too long: {size} tokens > {self.context} maximum")

    def _message(self, body: dict[str, Any], size: int, text: str) -> dict[str, Any]:
        words = text.split(" ")
        cut = len(words) > body["max_tokens"]
        said: dict[str, Any] = {"type": "text", "text": " ".join(words[: body["max_tokens"]])}
        if calls := self.tools and bool(body.get("tools")):
            said = {"type": "tool_use", "id": "toolu_1", "name": body["tools"][0]["name"], "input": {"path": "/tmp"}}
        thought = [{"type": "thinking", "thinking": self.thinks, "signature": "s"}] if self.thinks else []
        read, made, out = self.cached, self.cached // 2, tokens_of(str(said))
        self.counted.append((size, out))
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "stop_sequence": None,
            "content": [*thought, said],
            "stop_reason": "tool_use" if calls else "max_tokens" if cut else "end_turn",
            "usage": {"input_tokens": size - read - made, "cache_read_input_tokens": read,
                      "cache_creation_input_tokens": made, "output_tokens": out},
        }  # fmt: skip


def _checked(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    open_calls: set[str] = set()
    for number, turn in enumerate(turns):
        if turn["role"] != ("user", "assistant")[number % 2]:
            raise Rejected(400, f"messages.{number}: roles must alternate")
        blocks = turn["content"] if isinstance(turn["content"], list) else [{"type": "text", "text": turn["content"]}]
        if not blocks or any(not one["text"].strip() for one in blocks if one["type"] == "text"):
            raise Rejected(400, f"messages.{number}: text content blocks must contain non-whitespace text")
        if {one["tool_use_id"] for one in blocks if one["type"] == "tool_result"} != open_calls:
            raise Rejected(400, f"messages.{number}: tool_use ids without tool_result blocks")
        open_calls = {one["id"] for one in blocks if one["type"] == "tool_use"}
    return turns


def _text(turn: dict[str, Any]) -> str:
    if isinstance(turn["content"], str):
        return turn["content"]
    return "\n".join(str(one.get("text", one.get("content", ""))) for one in turn["content"])
