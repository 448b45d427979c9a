"""Probes a server's capabilities with a few short requests when an engine starts."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from hc_ray.domain.config import Sampling
from hc_ray.domain.errors import EngineError
from hc_ray.domain.ports import Capabilities
from hc_ray.engines.http import HttpModel
from hc_ray.engines.wire import SCHEMA_FIELD, calls_of, sampling_fields, schema_fields, text_of

T = TypeVar("T")
_WORD, _LONG = "word ", (8000, 4000, 2000, 1000, 500)
"""The long prompt: a word that every tokenizer has, so many times; fewer if the server refuses it."""
_COUNTED = 0.9
"""A token count below this share of the words shows that the prompt was cut."""
FIRST_SECONDS = 180.0
"""Seconds for the first short answers if the config sets no limit; the server may have to load its model."""
_CANNOT = ("HTTP 400", "HTTP 404", "HTTP 422")
"""How a refusal of an unsupported body begins, unlike that of a busy or broken server."""


async def probe(model: HttpModel, sampling: Sampling | None = None, *, first: float = FIRST_SECONDS) -> Capabilities:
    """Probe a server. ``sampling``: the parameters that prompts will use; ``first``: seconds for the first answers.
    Raises ``EngineError`` if the server cannot be reached, refuses the key, or supports neither chat nor
    completions."""
    if isinstance(names := await _within(first, model.models()), str):
        raise EngineError(f"{model.shown_url} sent {names}")
    short: dict[str, Any] = {"model": model.model, "max_tokens": 12, "temperature": 1.0, "seed": 1234}
    say = [{"role": "user", "content": "Name a colour, an animal and a city."}]
    chat = {**short, "messages": say}
    text = {**short, "prompt": "Some colours, animals and cities:"}
    # In parallel: answers must be equal under load, too.
    asked = [("chat/completions", chat)] * 2 + [("completions", text)] * 2
    answers = await asyncio.gather(*(_within(first, model.attempt(endpoint, body)) for endpoint, body in asked))
    has_chat, has_text = isinstance(answers[0], dict), isinstance(answers[2], dict)
    if not has_chat and not has_text:
        listed = f"; it lists {', '.join(list(names)[:8])}" if names and model.model not in names else ""
        raise EngineError(f"{model.shown_url} answers neither chat nor completions: {answers[0]}{listed}")
    pairs = [
        [one for one in pair if isinstance(one, dict)]
        for pair in (answers[:2], answers[2:])
        if isinstance(pair[0], dict)
    ]
    endpoint, body = ("completions", text) if has_text else ("chat/completions", chat)
    takes_schema, calls, context = await asyncio.gather(
        _takes_schema(model, has_chat), _calls_tools(model, has_chat),
        _context(model, names.get(model.model), body, endpoint),
    )  # fmt: skip
    spoken = [one for one, answer in zip(asked[::2], answers[::2], strict=True) if isinstance(answer, dict)]
    accepted, rejected = await _accepted(model, spoken, sampling_fields(sampling or Sampling()))
    return Capabilities(
        seed=all(len(pair) == 2 and text_of(pair[0]) == text_of(pair[1]) for pair in pairs),
        completion=has_text,
        chat=has_chat,
        tools=calls,
        context=context,
        models=tuple(names),
        sampling=accepted,
        refused=rejected if takes_schema else (*rejected, SCHEMA_FIELD),
    )


async def _within(seconds: float, asked: Awaitable[T]) -> T | str:
    try:
        async with asyncio.timeout(seconds):
            return await asked
    except TimeoutError:
        return f"nothing within {seconds:g} s (engine.request_sec sets another limit)"


async def _calls_tools(model: HttpModel, chat: bool) -> bool:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tool = {
        "type": "function",
        "function": {"name": "look", "description": "Look at a folder.", "parameters": parameters},
    }
    ask = [{"role": "user", "content": "Call the tool `look` with the path /tmp."}]
    body = {"model": model.model, "max_tokens": 200, "temperature": 0.0, "messages": ask, "tools": [tool]}
    data = await model.attempt("chat/completions", body) if chat else ""
    try:
        return isinstance(data, dict) and any(call.name == "look" for call in calls_of(data))
    except (KeyError, TypeError):
        return False


async def _context(model: HttpModel, listed: int | None, body: Mapping[str, Any], endpoint: str) -> int | None:
    """The context that the server lists or reports, or else the token count of a long prompt, since some servers cut
    prompts silently. None if neither is available or the server is too slow."""
    if (told := listed if listed is not None else await model.context()) is not None:
        return told
    for words in _LONG:
        text = _WORD * words
        long = {"messages": [{"role": "user", "content": text}]} if endpoint.startswith("chat") else {"prompt": text}
        data = await model.attempt(endpoint, {**body, **long, "max_tokens": 1})
        if isinstance(data, str):
            if "HTTP " in data:  # refused: too long
                continue
            return None  # a timeout of a slow server says nothing about its context
        counted = (data.get("usage") or {}).get("prompt_tokens")
        whole = isinstance(counted, int) and words == _LONG[0] and counted >= words * _COUNTED
        return None if whole or not isinstance(counted, int) or counted <= 0 else counted
    return None


async def _accepted(
    model: HttpModel, spoken: Sequence[tuple[str, dict[str, Any]]], wanted: Mapping[str, int | float]
) -> tuple[dict[str, int | float], tuple[str, ...]]:
    """The sampling parameters that every endpoint accepts, all in one request, and the names of the others."""

    async def takes(fields: Mapping[str, float]) -> bool:
        bodies = [(endpoint, {**body, "max_tokens": 1, **fields}) for endpoint, body in spoken]
        answers = await asyncio.gather(*(model.attempt(endpoint, body) for endpoint, body in bodies))
        return all(isinstance(answer, dict) for answer in answers)

    if await takes(wanted):
        return dict(wanted), ()
    # Try one after another, since refusals are no guide: some servers repeat the whole request, some name nothing.
    accepted: dict[str, int | float] = {}
    for name, value in wanted.items():
        # For some servers -1 means "no limit" and 0 is invalid.
        for said in (value, -1) if name == "top_k" and value == 0 else (value,):
            if await takes({**accepted, name: said}):
                accepted[name] = said
                break
    return accepted, tuple(sorted(wanted.keys() - accepted.keys()))


async def _takes_schema(model: HttpModel, chat: bool) -> bool:
    """Whether the server accepts a JSON schema."""
    schema = {"type": "object", "properties": {"answer": {"enum": ["zyxomma"]}}, "required": ["answer"]}
    ask: dict[str, Any] = {"model": model.model, "max_tokens": 40, "temperature": 0.0, **schema_fields(schema, chat)}
    ask |= {"messages": [{"role": "user", "content": "Hello"}]} if chat else {"prompt": "Hello"}
    endpoint = "chat/completions" if chat else "completions"
    data = await model.attempt(endpoint, ask)
    return not (isinstance(data, str) and data.startswith(_CANNOT))
