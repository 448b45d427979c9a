"""Models on OpenAI-compatible servers (llama-server, vLLM, SGLang, Ollama, the embedded engine). The only module that
imports httpx. One model may be on several servers (``Spread``)."""

import asyncio
import contextlib
import itertools
import json
import socket
import time
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import httpx

from hc_ray.domain.config import Sampling
from hc_ray.domain.errors import EngineError
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.engines.remote import TOO_LONG, VERSION, Again, RemoteModel, retry_after
from hc_ray.engines.wire import SCHEMA_FIELD, calls_of, count_of, request_of, sampling_fields, text_of

POOL = 4
"""Connections of one HTTP client."""
WATCHED = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, number, value)
        for name, value in (
            ("TCP_KEEPIDLE", 10),
            ("TCP_KEEPINTVL", 10),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", 40_000),
        )
        if (number := getattr(socket, name, None)) is not None
    ),
]
"""TCP keep-alive: a request to a machine that lost its power or network fails within 40 s, instead of at its own
timeout."""


class Clients:
    """Several HTTP clients with small pools. For each request, httpcore scans all connections of a pool several times:
    with 128 of them this costs 18 ms of CPU per request and allows at most 60 requests per second."""

    def __init__(self, connections: int, **settings: Any) -> None:
        """``connections``: minimum of all clients together; ``settings``: arguments of ``httpx.AsyncClient``."""
        count = -(-connections // POOL)
        limits = httpx.Limits(max_connections=POOL, max_keepalive_connections=POOL)
        trusted = httpx.create_ssl_context(trust_env=settings["trust_env"])
        # httpx uses proxies from the environment only if it creates the transport itself.
        proxies = settings["trust_env"] and urllib.request.getproxies()

        def transport() -> httpx.AsyncHTTPTransport | None:
            return None if proxies else httpx.AsyncHTTPTransport(trusted, limits=limits, socket_options=WATCHED)

        self._clients = [
            httpx.AsyncClient(limits=limits, verify=trusted, transport=transport(), **settings) for _ in range(count)
        ]
        self._busy = [0] * count
        self._free = asyncio.Semaphore(count * POOL)

    async def request(self, method: str, url: str, **more: Any) -> httpx.Response:
        """Like ``httpx.AsyncClient.request``, by the client with the fewest running requests, so that none is queued
        while another client has a free connection."""
        async with self._free:
            at = min(range(len(self._clients)), key=self._busy.__getitem__)
            self._busy[at] += 1
            try:
                return await self._clients[at].request(method, url, **more)
            finally:
                self._busy[at] -= 1

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()


class HttpModel(RemoteModel[Clients]):
    """Implements ``ports.Model``."""

    plain_sampling = sampling_fields(Sampling())

    async def complete(self, prompt: Prompt, slot: int | None = None) -> Completion:
        """Answer one prompt. A prompt that exceeds the model's context is not a server failure: its answer is an empty
        text with ``finish_reason='context'``. ``slot``: the slot of a llama.cpp server, for which the request waits if
        it is busy; None lets the server choose. Raises ``EngineError`` if the server fails."""
        if SCHEMA_FIELD in self._refused:
            prompt = prompt.model_copy(update={"schema_": None})
        endpoint, body = request_of(prompt, self.model, self._sampling)
        if slot is not None:
            body["id_slot"] = slot
        async with self._slots:
            started = time.monotonic()
            answer = await self._post(f"{self._base_url}/{endpoint}", body)
            seconds = time.monotonic() - started
        if answer.status_code in (400, 413) and TOO_LONG.search(answer.text):
            return Completion(text="", prompt_tokens=0, completion_tokens=0, finish_reason="context", seconds=seconds)
        if answer.status_code != 200:
            raise self._failure(answer)
        return self._completion(answer, seconds)

    async def _counted(self, text: str) -> int | None:
        # llama.cpp reads `content`, vLLM reads `model` and `prompt`.
        body = {"content": text, "model": self.model, "prompt": text}
        answer = await self._post(f"{_root(self._base_url)}/tokenize", body)
        try:
            data = answer.json() if answer.status_code == 200 else {}
            return int(data["count"]) if "count" in data else len(data["tokens"])
        except (ValueError, KeyError, TypeError):
            return None

    async def models(self) -> dict[str, int | None]:
        """Name of each model that the server lists → its context in tokens, if listed, as vLLM and SGLang do. Raises
        ``EngineError`` if the server cannot be reached or refuses the key."""
        answer = await self._send("GET", f"{self._base_url}/models", None)
        if answer.status_code in (401, 403):
            raise self._failure(answer)
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            listed = {str(entry["id"]): entry.get("max_model_len") for entry in answer.json()["data"]}
            return {name: tokens if isinstance(tokens, int) else None for name, tokens in listed.items()}
        return {}

    async def context(self) -> int | None:
        """The context in tokens that a llama.cpp server reports at ``/props``; None if it does not."""
        # Servers without this page answer in various ways.
        with contextlib.suppress(ValueError, KeyError, TypeError, EngineError):
            props = await self._send("GET", f"{_root(self._base_url)}/props", None)
            return int(props.json()["default_generation_settings"]["n_ctx"])
        return None

    async def attempt(self, endpoint: str, body: dict[str, Any]) -> dict[str, Any] | str:
        """The answer to a request body, or one line about the failure; for a refusal, the status (``HTTP 400``) and
        message. Raises ``EngineError`` if the server refuses the key."""
        try:
            answer = await self._post(f"{self._base_url}/{endpoint}", body)
        except EngineError as error:
            return str(error)
        if answer.status_code in (401, 403):
            raise self._failure(answer)
        with contextlib.suppress(ValueError, KeyError, TypeError):
            data: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
            if data["choices"]:
                return data
        return self._excerpt(answer)

    def _open(self, *, trust_env: bool) -> Clients:
        return Clients(
            self._parallel + 4,
            headers={"authorization": f"Bearer {self._api_key}"} if self._api_key else {},
            timeout=httpx.Timeout(self._timeout, connect=min(10.0, self._timeout)),
            trust_env=trust_env,
        )

    async def _post(self, url: str, body: dict[str, Any]) -> httpx.Response:
        return await self._send("POST", url, body)

    async def _send(self, method: str, url: str, body: dict[str, Any] | None) -> httpx.Response:
        """Send a request with retries on connection errors, 429 and 5xx. Raises ``EngineError`` when none are left."""
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {} if body is None else {"content-type": "application/json"}

        async def once() -> httpx.Response:
            try:
                answer = await self._client.request(method, url, content=content, headers=headers)
            except httpx.TransportError as error:
                raise Again(type(error).__name__ + (f": {self._hide(str(error))}" if str(error) else "")) from None
            if (answer.status_code != 429 and answer.status_code < 500) or answer.status_code == 501:
                return answer
            raise Again(self._excerpt(answer), retry_after(answer.headers.get("retry-after", "")))

        return await self._patiently(once)

    def _completion(self, answer: httpx.Response, seconds: float) -> Completion:
        try:
            data = answer.json()
            choice = data["choices"][0]
            usage, message = data.get("usage") or {}, choice.get("message") or {}
            return Completion(
                text=text_of(data),
                tool_calls=calls_of(data),
                reasoning=str(message.get("reasoning_content") or message.get("reasoning") or ""),
                prompt_tokens=count_of(usage, "prompt_tokens"),
                cached_tokens=count_of(usage.get("prompt_tokens_details") or {}, "cached_tokens"),
                completion_tokens=count_of(usage, "completion_tokens"),
                finish_reason=choice.get("finish_reason"),
                seconds=seconds,
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise EngineError(f"{self.shown_url} did not answer with a completion: {self._excerpt(answer)}") from None

    def _failure(self, answer: httpx.Response) -> EngineError:
        return EngineError(f"{self.shown_url} refused the request: {self._excerpt(answer)}")

    def _excerpt(self, answer: httpx.Response) -> str:
        text = self._hide(answer.text)
        return f"HTTP {answer.status_code}" + (f" {text}" if text else "")


def _root(base_url: str) -> str:
    head, _, last = base_url.rpartition("/")
    return head if VERSION.fullmatch(last) else base_url


class Seats:
    """Counts the running requests of an engine's servers, for all users in this process.

    llama.cpp batches neighbouring slots, but by default assigns the slot that was free the longest. With a quarter to a
    half of the slots busy, neighbouring slots give a fifth more tokens per second (docs/results.md). So each request
    names the lowest free slot, and waits for it even if others are free."""

    def __init__(self, servers: int, slots: int = 0) -> None:
        """``slots``: number per server; 0 if others use these servers too, so that no slot can be named."""
        self._slots = slots
        self._taken: list[set[int]] = [set() for _ in range(servers)]

    @contextlib.contextmanager
    def one(self) -> Iterator[tuple[int, int | None]]:
        """Reserve a place for a request: the first of the servers with the fewest running requests, and a slot
        there."""
        index = min(range(len(self._taken)), key=lambda server: len(self._taken[server]))
        taken = self._taken[index]
        number = next(number for number in itertools.count() if number not in taken)
        taken.add(number)
        # A request without a named slot occupies one that seems free.
        slot = number if max(taken) < self._slots else None
        try:
            yield index, slot
        finally:
            taken.discard(number)


class Spread:
    """``ports.Model`` over servers with the same weights: a prompt goes to the one with the fewest running requests."""

    def __init__(self, servers: Sequence[HttpModel], seats: Seats) -> None:
        self._servers, self._seats = list(servers), seats

    async def complete(self, prompt: Prompt) -> Completion:
        with self._seats.one() as (index, slot):
            return await self._servers[index].complete(prompt, slot)

    async def count_tokens(self, text: str) -> int:
        return await self._servers[0].count_tokens(text)

    async def aclose(self) -> None:
        for server in self._servers:
            await server.aclose()
