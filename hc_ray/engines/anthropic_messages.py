"""Claude by Anthropic's Messages API. The only module that imports its SDK.

Features that the API lacks are neither emulated nor hidden: no completions, seeds or logprobs, one answer per request,
no temperature above 1. JSON schemas are not sent: the prompts describe the answer, and the API refuses some keywords of
the schemas. The caller provides the key, which never appears in an error."""

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from hc_ray.domain.config import Sampling
from hc_ray.domain.errors import EngineError, ModelError, PlatformError
from hc_ray.domain.ports import Capabilities
from hc_ray.domain.prompt import Completion, Message, Prompt, ToolCall
from hc_ray.engines.remote import TOO_LONG, Again, RemoteModel, retry_after

try:
    import anthropic
except ModuleNotFoundError:
    raise PlatformError(
        "an engine of kind anthropic needs Anthropic's SDK; install it: pip install 'hc-ray[claude]'"
    ) from None

_Answer = TypeVar("_Answer")
_HIGHEST = 1.0
"""The highest temperature that the API accepts."""
_ENDS = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length",
         "model_context_window_exceeded": "length"}  # fmt: skip
"""The API's stop reason → hc-ray's finish reason."""
_PROBE: dict[str, Any] = {
    "max_tokens": 200,
    "messages": [{"role": "user", "content": "Call the tool `look` with the path /tmp."}],
    "tools": [{
        "name": "look", "description": "Look at a folder.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    }],
}  # fmt: skip


class AnthropicModel(RemoteModel[anthropic.AsyncAnthropic]):
    """Implements ``ports.Model``. The temperature in ``sampling`` is the highest to send."""

    plain_sampling = {"temperature": _HIGHEST}

    @property
    def shown_url(self) -> str:
        """The URL without the version, which the SDK adds."""
        return super().shown_url.removesuffix("/v1")

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt; one that does not fit the context gets ``finish_reason='context'``. Raises ``EngineError``
        if the server fails, and for a completion prompt."""
        if prompt.text is not None:
            raise EngineError(f"{self.model} supports only chat, not completions")
        try:
            return await self._message(request_of(prompt, self._sampling))
        except anthropic.APIStatusError as error:
            if error.status_code not in (400, 413) or not TOO_LONG.search(str(error)):
                raise EngineError(f"{self.shown_url} refused the request: {self._says(error)}") from None
            return Completion(text="", prompt_tokens=0, completion_tokens=0, finish_reason="context")

    async def _counted(self, text: str) -> int | None:
        asked: Any = [{"role": "user", "content": text}]
        try:
            counted = await self._ask(lambda: self._client.messages.count_tokens(model=self.model, messages=asked))
            return int(counted.input_tokens)
        except (anthropic.APIStatusError, AttributeError, TypeError):
            return None

    async def models(self) -> dict[str, int | None]:
        """Name of each model that the server lists → its context in tokens, if listed. Raises ``EngineError`` if the
        server cannot be reached or refuses the key."""
        try:
            page = await self._ask(lambda: self._client.models.list(limit=1000))
            return {str(one.id): getattr(one, "max_input_tokens", None) for one in page.data}
        except anthropic.APIStatusError as error:
            if error.status_code in (401, 403):
                raise EngineError(f"{self.shown_url} refused the API key: {self._says(error)}") from None
        except (AttributeError, TypeError):
            pass
        return {}

    async def probe(self, sampling: Sampling | None = None) -> Capabilities:
        """Probe the model with one or two short requests. Raises ``EngineError`` if the server cannot be reached or
        refuses the key, ``ModelError`` if it does not have the model."""
        wanted, refused = sampling_fields(sampling or Sampling())
        listed = await self.models()
        # 0.5, since some models accept only a temperature that has no effect.
        tried = {**wanted, "temperature": 0.5}
        answer = await self._attempt(_PROBE | tried)
        if isinstance(answer, str):
            accepted: dict[str, float] = {}
            for name, value in tried.items():
                if not isinstance(await self._attempt(_PROBE | accepted | {name: value, "max_tokens": 1}), str):
                    accepted[name] = value
            refused += [name for name in wanted if name not in accepted]
            wanted = {name: wanted[name] for name in accepted}
            answer = await self._attempt(_PROBE | accepted)
        if isinstance(answer, str):
            names = f"; it lists {', '.join(list(listed)[:8])}" if listed and self.model not in listed else ""
            raise ModelError(f"{self.model} does not answer at {self.shown_url}: {answer}{names}")
        return Capabilities(
            completion=False, tools=bool(answer.tool_calls), context=listed.get(self.model), models=tuple(listed),
            sampling=wanted, refused=tuple(sorted(refused)),
        )  # fmt: skip

    def _open(self, *, trust_env: bool) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(
            api_key=self._api_key, base_url=self.shown_url, timeout=self._timeout, max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(trust_env=trust_env),
        )  # fmt: skip

    async def _message(self, body: dict[str, Any]) -> Completion:
        async with self._slots:
            started = time.monotonic()
            answer = await self._ask(lambda: self._client.messages.create(model=self.model, **body))
            try:
                return completion_of(answer, time.monotonic() - started)
            except (AttributeError, TypeError):
                raise EngineError(f"{self.shown_url} did not answer with a message") from None

    async def _attempt(self, body: dict[str, Any]) -> Completion | str:
        """The answer to a request body, or the text of its refusal."""
        try:
            return await self._message(body)
        except anthropic.APIStatusError as error:
            return self._says(error)

    async def _ask(self, send: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Call the SDK, whose own retries are off: failures are retried as for every engine, and only the final
        answer's time counts. Raises the SDK's ``APIStatusError`` for refusals."""

        async def once() -> _Answer:
            try:
                return await send()
            except anthropic.APIStatusError as error:
                if error.status_code != 429 and error.status_code < 500:
                    raise
                pause = retry_after(error.response.headers.get("retry-after", ""))
                raise Again(self._says(error), pause) from None
            except anthropic.APIConnectionError as error:
                raise Again(self._hide(f"{type(error.__cause__).__name__}: {error.__cause__}")) from None
            except (anthropic.AnthropicError, ValueError) as error:
                raise EngineError(f"{self.shown_url} did not answer with JSON: {self._hide(str(error))}") from None

        return await self._patiently(once)

    def _says(self, error: anthropic.APIStatusError) -> str:
        said = error.body.get("error") if isinstance(error.body, dict) else None
        words = f"{said.get('type')}: {said.get('message')}" if isinstance(said, dict) else error.response.text
        return f"HTTP {error.status_code} {self._hide(words)}".strip()


def sampling_fields(sampling: Sampling) -> tuple[dict[str, float], list[str]]:
    """The sampling parameters to send, and the names of those that the API lacks. Parameters without effect are in
    neither, since the API has no defaults of its own for them."""
    sent: dict[str, float] = {"temperature": _HIGHEST}
    if sampling.top_p < 1:
        sent["top_p"] = sampling.top_p
    if sampling.top_k:
        sent["top_k"] = sampling.top_k
    lacks = {"min_p": sampling.min_p > 0, "repetition_penalty": sampling.repetition_penalty != 1}
    return sent, [name for name, wanted in lacks.items() if wanted]


def request_of(prompt: Prompt, sampling: Mapping[str, float]) -> dict[str, Any]:
    """The request body for a prompt, without the model. Marks a continued conversation for the server's prompt
    cache."""
    body: dict[str, Any] = {"max_tokens": prompt.max_tokens, "messages": _turns(prompt.messages)}
    if system := "\n\n".join(one.content for one in prompt.messages if one.role == "system"):
        body["system"] = system
    body |= sampling
    if "temperature" in sampling:
        body["temperature"] = min(prompt.temperature, sampling["temperature"])
    if stop := [one for one in prompt.stop if one.strip()]:  # the API refuses blank stop sequences
        body["stop_sequences"] = stop
    if prompt.tools:
        functions = [tool["function"] for tool in prompt.tools]
        body["tools"] = [{"name": one["name"], "description": one["description"], "input_schema": one["parameters"]}
                         for one in functions]  # fmt: skip
    if any(message.role == "assistant" for message in prompt.messages):
        body["messages"][-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return body


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation in alternating turns of ``user`` and ``assistant``; tool results belong to the user."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [] if message.role == "system" else _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}]
    # The API refuses empty texts.
    text = [{"type": "text", "text": message.content}] if message.content.strip() else []
    return text + [{"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
                   for call in message.tool_calls]  # fmt: skip


def completion_of(answer: Any, seconds: float) -> Completion:
    """Convert an answer. Prompt tokens include those from the server's cache. Raises ``AttributeError`` or
    ``TypeError`` if it is not a message."""
    usage, kinds = answer.usage, {kind: [one for one in answer.content if one.type == kind]
                                  for kind in ("text", "tool_use", "thinking")}  # fmt: skip
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return Completion(
        text="".join(one.text for one in kinds["text"]),
        tool_calls=tuple(ToolCall(id=one.id, name=one.name, arguments=json.dumps(one.input, ensure_ascii=False))
                         for one in kinds["tool_use"]),
        reasoning="\n\n".join(one.thinking for one in kinds["thinking"]),
        prompt_tokens=usage.input_tokens + cached,
        cached_tokens=usage.cache_read_input_tokens,
        completion_tokens=usage.output_tokens,
        finish_reason=_ENDS.get(answer.stop_reason, answer.stop_reason),
        seconds=seconds,
    )  # fmt: skip
