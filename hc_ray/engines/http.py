"""A model behind an OpenAI-compatible server (llama-server, vLLM, SGLang, Ollama, the embedded engine): the only module
that speaks HTTP to an engine."""

import asyncio
import contextlib
import email.utils
import json
import math
import random
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import httpx

from hc_ray.domain.config import Sampling
from hc_ray.domain.errors import ConfigError, EngineError
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.engines.wire import calls_of, reasoning_of, request_of, sampling_fields, text_of

_TOO_LONG = re.compile(r"exceed_context_size|context (?:length|size|window)|maximum context|prompt is too long", re.I)
_VERSION = re.compile(r"v\d+[a-z0-9]*", re.I)
LONGEST_PAUSE = 60.0
"""Seconds before a request is repeated, at most, whatever the server asks for."""


def normal_base_url(url: str) -> str:
    """The URL up to its version segment: a missing scheme and a missing ``/v1`` are added, an endpoint is cut off.

    Raises ``ConfigError`` for what is no HTTP URL."""
    given = url.strip()
    if "://" not in given:
        given = f"http://{given}"
    try:
        parts = urlsplit(given)
        usable = parts.scheme in ("http", "https") and parts.hostname
        _ = parts.port
    except ValueError:
        usable = None
    if not usable:
        raise ConfigError(f"base URL {url!r} is not an http(s) URL; an example is http://127.0.0.1:8080/v1")
    path = parts.path.rstrip("/")
    for endpoint in ("/chat/completions", "/completions", "/models"):
        path = path.removesuffix(endpoint)
    if not any(_VERSION.fullmatch(segment) for segment in path.split("/")):
        path += "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


class _Lane:
    """What one event loop uses: an httpx client belongs to the loop that opened its connections."""

    def __init__(self, client: httpx.AsyncClient, parallel: int) -> None:
        self.client = client
        self.slots = asyncio.Semaphore(parallel)


class HttpModel:
    """Implements ``ports.Model``. Safe for concurrent use, from several event loops too: each loop gets a client and
    ``parallel`` slots of its own, and ``aclose`` closes the client of the loop that calls it.

    ``timeout`` bounds one request in seconds, retries and back-off included, waiting for a slot excluded. ``sampling``
    is sent with every prompt beside its temperature, as ``probe`` saw it accepted; None: values that change nothing."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        parallel: int = 8,
        timeout: float = 600.0,
        retries: int = 4,
        backoff: float = 0.25,
        sampling: Mapping[str, float] | None = None,
    ) -> None:
        self._base_url = normal_base_url(base_url)
        self.model = model
        self._api_key = api_key
        self._parallel = parallel
        self._timeout = timeout
        self._retries = retries
        self._backoff = backoff
        self._sampling = sampling_fields(Sampling()) if sampling is None else dict(sampling)
        self._tokenizer: str | None = ""  # "" = not tried yet, None = the server offers none
        self._lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lane] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"HttpModel({self.shown_url!r}, {self.model!r})"

    @property
    def shown_url(self) -> str:
        """The base URL without a user name or password."""
        parts = urlsplit(self._base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt. A prompt that does not fit the model's context is no failure of the server: it is answered
        with an empty text and ``finish_reason='context'``. Raises ``EngineError`` when the server fails."""
        endpoint, body = request_of(prompt, self.model, self._sampling)
        lane = self._lane()
        async with lane.slots:
            started = time.monotonic()
            answer = await self._post(lane, f"{self._base_url}/{endpoint}", body)
            seconds = time.monotonic() - started
        if answer.status_code in (400, 413) and _TOO_LONG.search(answer.text):
            return Completion(text="", prompt_tokens=0, completion_tokens=0, finish_reason="context", seconds=seconds)
        if answer.status_code != 200:
            raise self._failure(answer)
        return self._completion(answer, seconds)

    async def count_tokens(self, text: str) -> int:
        """Tokens by the server's ``/tokenize`` (llama.cpp, vLLM); where it has none, one per three bytes."""
        if self._tokenizer is not None:
            roots = [self._tokenizer] if self._tokenizer else [_root(self._base_url), self._base_url]
            lane = self._lane()
            for root in roots:
                # llama.cpp reads `content`, vLLM reads `model` and `prompt`.
                body = {"content": text, "model": self.model, "prompt": text}
                answer = await self._post(lane, f"{root}/tokenize", body)
                if (count := _token_count(answer)) is not None:
                    self._tokenizer = root
                    return count
            if not self._tokenizer:
                self._tokenizer = None
        return math.ceil(len(text.encode()) / 3)

    async def models(self) -> tuple[str, ...]:
        """Names that the server lists; empty where it lists none. Raises ``EngineError`` when it cannot be reached."""
        answer = await self._send(self._lane(), "GET", f"{self._base_url}/models", None)
        if answer.status_code in (401, 403):
            raise self._failure(answer)
        try:
            return tuple(str(entry["id"]) for entry in answer.json()["data"])
        except (ValueError, KeyError, TypeError):
            return ()

    async def context(self) -> int | None:
        """Tokens of context that the server says to have: vLLM and SGLang with the model's name, llama.cpp at
        ``/props``; None where it says none."""
        listed = await self._send(self._lane(), "GET", f"{self._base_url}/models", None)
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            for entry in listed.json()["data"]:
                if entry.get("id") == self.model and isinstance(entry.get("max_model_len"), int):
                    return int(entry["max_model_len"])
        with contextlib.suppress(
            ValueError, KeyError, TypeError, EngineError
        ):  # what has no such page says so as it likes
            props = await self._send(self._lane(), "GET", f"{_root(self._base_url)}/props", None)
            return int(props.json()["default_generation_settings"]["n_ctx"])
        return None

    async def attempt(self, endpoint: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a body as it stands; None when the server refuses it or answers something else. Raises
        ``EngineError`` when it refuses the key."""
        try:
            answer = await self._post(self._lane(), f"{self._base_url}/{endpoint}", body)
        except EngineError:
            return None
        if answer.status_code in (401, 403):
            raise self._failure(answer)
        try:
            data = answer.json() if answer.status_code == 200 else None
            return data if data and data["choices"] else None
        except (ValueError, KeyError, TypeError):
            return None

    async def refusal(self, endpoint: str, body: dict[str, Any]) -> str:
        """What the server says to a body that it refuses, in one line."""
        return self._excerpt(await self._post(self._lane(), f"{self._base_url}/{endpoint}", body))

    async def aclose(self) -> None:
        """Close this event loop's connections. The instance can be used again."""
        lane = self._lanes.pop(asyncio.get_running_loop(), None)
        if lane is not None:
            await lane.client.aclose()

    def _lane(self) -> _Lane:
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(loop)
        if lane is None:
            headers = {"authorization": f"Bearer {self._api_key}"} if self._api_key else {}
            local = urlsplit(self._base_url).hostname in ("127.0.0.1", "localhost", "::1")
            client = httpx.AsyncClient(
                headers=headers,
                timeout=httpx.Timeout(self._timeout, connect=min(10.0, self._timeout)),
                limits=httpx.Limits(max_connections=self._parallel + 4, max_keepalive_connections=self._parallel + 4),
                trust_env=not local,  # a proxy of the environment must not stand before loopback
            )
            lane = self._lanes[loop] = _Lane(client, self._parallel)
        return lane

    async def _post(self, lane: _Lane, url: str, body: dict[str, Any]) -> httpx.Response:
        return await self._send(lane, "POST", url, body)

    async def _send(self, lane: _Lane, method: str, url: str, body: dict[str, Any] | None) -> httpx.Response:
        """One request with retries on connection errors, 429 and 5xx. Raises ``EngineError`` when they are used up."""
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {} if body is None else {"content-type": "application/json"}
        says, asked_pause = "", 0.0
        try:
            async with asyncio.timeout(self._timeout):
                for attempt in range(self._retries + 1):
                    if attempt:
                        # Half as much again at most, so that what failed together does not come back together.
                        pause = self._backoff * 2 ** (attempt - 1) * random.uniform(1, 1.5)
                        await asyncio.sleep(min(LONGEST_PAUSE, pause + asked_pause))
                    asked_pause = 0.0
                    try:
                        answer = await lane.client.request(method, url, content=content, headers=headers)
                    except httpx.TransportError as error:
                        says = type(error).__name__ + (f": {self._hide(str(error))}" if str(error) else "")
                        continue
                    if (answer.status_code != 429 and answer.status_code < 500) or answer.status_code == 501:
                        return answer
                    says, asked_pause = self._excerpt(answer), retry_after(answer.headers.get("retry-after", ""))
        except TimeoutError:
            raise EngineError(f"{self.shown_url} did not answer within {self._timeout:g} s") from None
        raise EngineError(f"{self.shown_url} failed {self._retries + 1} times; last error: {says}") from None

    def _completion(self, answer: httpx.Response, seconds: float) -> Completion:
        try:
            data = answer.json()
            choice = data["choices"][0]
            usage = data.get("usage") or {}
            return Completion(
                text=text_of(data),
                tool_calls=calls_of(data),
                reasoning=reasoning_of(data),
                prompt_tokens=usage.get("prompt_tokens"),
                cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
                completion_tokens=usage.get("completion_tokens"),
                finish_reason=choice.get("finish_reason"),
                seconds=seconds,
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise EngineError(f"{self.shown_url} did not answer with a completion: {self._excerpt(answer)}") from None

    def _failure(self, answer: httpx.Response) -> EngineError:
        return EngineError(f"{self.shown_url} refused the request: {self._excerpt(answer)}")

    def _excerpt(self, answer: httpx.Response) -> str:
        # Hidden first, then cut: half a key is a secret too.
        text = self._hide(" ".join(answer.text.split()))[:240]
        return f"HTTP {answer.status_code}" + (f" {text}" if text else "")

    def _hide(self, text: str) -> str:
        secrets = [self._api_key, urlsplit(self._base_url).password]
        for secret in secrets:
            if secret:
                text = text.replace(secret, "***")
        return text


def retry_after(header: str) -> float:
    """Seconds that a server asks to be left alone (RFC 9110, 10.2.3): their number, or a date; 0 for anything else."""
    with contextlib.suppress(ValueError, OverflowError):
        if header.strip().isdecimal():
            return float(header)
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    return 0.0


def _root(base_url: str) -> str:
    head, _, last = base_url.rpartition("/")
    return head if _VERSION.fullmatch(last) else base_url


def _token_count(answer: httpx.Response) -> int | None:
    try:
        data = answer.json() if answer.status_code == 200 else {}
        return int(data["count"]) if "count" in data else len(data["tokens"])
    except (ValueError, KeyError, TypeError):
        return None
