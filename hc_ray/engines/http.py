"""A model behind an OpenAI-compatible server (llama-server, vLLM, SGLang, Ollama, the embedded engine): the only module
that speaks HTTP to an engine. One model may lie on several servers (``Spread``)."""

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
"""A machine that loses its power, or its network, says nothing: whoever waits there for an answer is to learn of it
within 40 s, not when the request's own time is over."""


class Clients:
    """As many HTTP clients as keep their pools small. For each request httpcore looks at all connections of a pool,
    several times: with 128 of them that is 18 ms of processor time a request, and 60 requests a second at most."""

    def __init__(self, connections: int, **settings: Any) -> None:
        """``connections`` of all clients together, at least; ``settings`` are those of ``httpx.AsyncClient``."""
        count = -(-connections // POOL)
        limits = httpx.Limits(max_connections=POOL, max_keepalive_connections=POOL)
        trusted = httpx.create_ssl_context(trust_env=settings["trust_env"])
        # httpx looks for proxies only where it makes the transport itself.
        proxies = settings["trust_env"] and urllib.request.getproxies()

        def transport() -> httpx.AsyncHTTPTransport | None:
            return None if proxies else httpx.AsyncHTTPTransport(trusted, limits=limits, socket_options=WATCHED)

        self._clients = [
            httpx.AsyncClient(limits=limits, verify=trusted, transport=transport(), **settings) for _ in range(count)
        ]
        self._busy = [0] * count
        self._free = asyncio.Semaphore(count * POOL)

    async def request(self, method: str, url: str, **more: Any) -> httpx.Response:
        """As ``httpx.AsyncClient.request``, by the client with the fewest requests under way; none waits in a client's
        queue while another has a free connection."""
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
        """Answer one prompt. A prompt that does not fit the model's context is no failure of the server: it is answered
        with an empty text and ``finish_reason='context'``. ``slot``: where a llama.cpp server is to compute it, which
        waits where that one is busy; None leaves it the choice. Raises ``EngineError`` when the server fails."""
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
        """Name of each model that the server lists → tokens of context, where it says them, as vLLM and SGLang do.
        Raises ``EngineError`` when it cannot be reached, or refuses the key."""
        answer = await self._send("GET", f"{self._base_url}/models", None)
        if answer.status_code in (401, 403):
            raise self._failure(answer)
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            listed = {str(entry["id"]): entry.get("max_model_len") for entry in answer.json()["data"]}
            return {name: tokens if isinstance(tokens, int) else None for name, tokens in listed.items()}
        return {}

    async def context(self) -> int | None:
        """Tokens of context that a llama.cpp server says to have at ``/props``; None where it says none."""
        # What has no such page says so as it likes.
        with contextlib.suppress(ValueError, KeyError, TypeError, EngineError):
            props = await self._send("GET", f"{_root(self._base_url)}/props", None)
            return int(props.json()["default_generation_settings"]["n_ctx"])
        return None

    async def attempt(self, endpoint: str, body: dict[str, Any]) -> dict[str, Any] | str:
        """The answer to a body as it stands, or in one line what came instead; of a server that refuses it its status
        (``HTTP 400``) and its words. Raises ``EngineError`` when it refuses the key."""
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
        """One request with retries on connection errors, 429 and 5xx. Raises ``EngineError`` when they are used up."""
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
    """What an engine's servers have in hand, for all in this process who ask them.

    llama.cpp computes in one batch what lies in neighbouring slots, and left to itself it takes the slot that was free
    for longest: with a quarter to a half of the slots busy, neighbours get a fifth more tokens a second
    (docs/results.md). So the lowest free slot is named; a request waits for the slot that it names, be others free."""

    def __init__(self, servers: int, slots: int = 0) -> None:
        """``slots``: how many each server has; 0 where others ask these servers too, and none can be named."""
        self._slots = slots
        self._taken: list[set[int]] = [set() for _ in range(servers)]

    @contextlib.contextmanager
    def one(self) -> Iterator[tuple[int, int | None]]:
        """A place for one request: the server that has the fewest in hand, the first of equals, and a slot there."""
        index = min(range(len(self._taken)), key=lambda server: len(self._taken[server]))
        taken = self._taken[index]
        number = next(number for number in itertools.count() if number not in taken)
        taken.add(number)
        # One that had no slot of its own sits in one that seems free.
        slot = number if max(taken) < self._slots else None
        try:
            yield index, slot
        finally:
            taken.discard(number)


class Spread:
    """``ports.Model``: each prompt goes to the server with the fewest in hand. All of them hold the same weights."""

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
