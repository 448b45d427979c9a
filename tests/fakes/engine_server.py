"""An inference server without a model: it speaks the OpenAI endpoints, answers by a function of the request's JSON, and
records every byte that it was sent. Its token counts are those of texts in normal form: equal for two equal runs."""

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO

from tests.fakes.normal_form import normal_form

Answer = Callable[[dict[str, Any]], str]


class Rejected(Exception):
    """What an answer function raises to refuse a request: a status and the server's words."""

    def __init__(self, status: int, says: str) -> None:
        super().__init__(says)
        self.status = status


def prompt_of(body: dict[str, Any]) -> str:
    if "prompt" in body:
        return str(body["prompt"])
    return "\n".join(str(message["content"]) for message in body["messages"])


def tokens_of(text: str) -> int:
    return len(normal_form(text).split())


class EngineServer:
    """A context manager. ``base_url`` ends in ``/v1``; ``requests`` holds (path, body bytes) in order of arrival, and
    ``wire`` beside each all the bytes that came for it: request line, headers, body.

    ``failures`` are statuses that the first answers get instead; ``endpoints`` are those it has; without ``usage`` it
    counts no tokens; ``key`` is the bearer token it wants; ``pause`` is what its failures say in Retry-After.
    ``listed`` is what it says of each of its ``models`` beside the name, ``props`` what it says of itself. Of a prompt
    beyond ``context`` tokens it cuts the beginning in silence, or refuses it where it ``refuses``. With ``tools`` it
    calls the first tool that it is given."""

    def __init__(
        self, answer: Answer, *, failures: Sequence[int] = (), usage: bool = True, key: str | None = None,
        endpoints: Sequence[str] = ("/v1/chat/completions", "/v1/completions", "/v1/models", "/tokenize"),
        delay: float = 0.0, pause: str = "", host: str = "127.0.0.1", port: int = 0, models: Sequence[str] = ("fake",),
        listed: Mapping[str, Any] | None = None, props: Mapping[str, Any] | None = None, context: int | None = None,
        refuses: bool = False, tools: bool = False,
    ) -> None:  # fmt: skip
        self.listed, self.props, self.context, self.refuses, self.tools = listed or {}, props, context, refuses, tools
        self.models = models
        self.answer, self.usage, self.key, self.delay = answer, usage, key, delay
        self.pause = pause
        self.endpoints = frozenset(endpoints) | ({"/props"} if props is not None else set())
        self.failures = list(failures)
        self.requests: list[tuple[str, bytes]] = []
        self.wire: list[bytes] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self._server = _Server((host, port), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def bodies(self) -> list[dict[str, Any]]:
        """The JSON of every request that asked for text."""
        return [json.loads(body) for path, body in self.requests if path.endswith("completions")]

    def __enter__(self) -> "EngineServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reply(self, method: str, path: str, raw: bytes, authorization: str | None, wire: bytes) -> tuple[int, Any]:
        with self._lock:
            self.requests.append((path, raw))
            self.wire.append(wire)
            failure = self.failures.pop(0) if self.failures else None
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            if self.delay:
                threading.Event().wait(self.delay)
            if failure is not None:
                return failure, {"error": {"message": f"told to fail with {failure}"}}
            if self.key is not None and authorization != f"Bearer {self.key}":
                return 401, {"error": {"message": f"no such key: {authorization}"}}
            if path not in self.endpoints:
                return 404, {"error": {"message": "not found"}}
            return self._reply(method, path, json.loads(raw) if raw else {})
        except Rejected as refusal:
            return refusal.status, {"error": {"message": str(refusal)}}
        finally:
            with self._lock:
                self._now -= 1

    def _reply(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": name, **self.listed} for name in self.models]}
        if path == "/props":
            return 200, self.props
        if path == "/tokenize":
            return 200, {"tokens": list(range(tokens_of(body["content"])))}
        size = tokens_of(prompt_of(body))
        if self.context is not None and size > self.context:
            if self.refuses:
                raise Rejected(400, f"the request has {size} tokens and exceeds the available context size")
            size = self.context
        text = self.answer(body)
        chat = path.endswith("chat/completions")
        choice: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        if self.tools and body.get("tools"):
            call = {"name": body["tools"][0]["function"]["name"], "arguments": {"path": "/tmp"}}
            choice = {"message": {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": call}]}}
        data: dict[str, Any] = {"choices": [{"index": 0, "finish_reason": "stop", **choice}]}
        if self.usage:
            data["usage"] = {"prompt_tokens": size, "completion_tokens": tokens_of(text)}
        return 200, data


class _Server(ThreadingHTTPServer):
    """Says nothing of an asker who did not wait for the answer: it may be said in the middle of another test."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Overheard:
    """A request's stream that keeps what was read of it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.heard = stream, bytearray()

    def readline(self, limit: int = -1) -> bytes:
        line = self._stream.readline(limit)
        self.heard += line
        return line

    def read(self, count: int = -1) -> bytes:
        data = self._stream.read(count)
        self.heard += data
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _handler(engine: EngineServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            self.rfile: Any = _Overheard(self.rfile)

        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            wire = bytes(self.rfile.heard)
            self.rfile.heard.clear()
            status, data = engine.reply(self.command, self.path, raw, self.headers.get("authorization"), wire)
            payload = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            if engine.pause and status >= 400:
                self.send_header("retry-after", engine.pause)
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = _serve

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
