"""The base of all remote models, whatever their protocol: URL, client, slots, retries, and errors without secrets."""

import asyncio
import contextlib
import email.utils
import functools
import hashlib
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Generic, TypeVar
from urllib.parse import urlsplit, urlunsplit

from hc_ray.domain.errors import ConfigError, EngineError

TOO_LONG = re.compile(r"exceed_context_size|context (?:length|size|window)|maximum context|prompt is too long", re.I)
"""How servers report that a prompt does not fit."""
VERSION = re.compile(r"v\d+[a-z0-9]*", re.I)
"""A version segment of a URL."""
LONGEST_PAUSE = 60.0
"""The longest wait in seconds before a retry, whatever the server asks for."""
_REMEMBERED = 10_000
"""The most texts whose token counts are cached."""
_Answer = TypeVar("_Answer")
_Client = TypeVar("_Client")


class Again(Exception):
    """A temporary failure of a request; ``pause``: seconds that the server asks to wait."""

    def __init__(self, says: str, pause: float = 0.0) -> None:
        super().__init__(says)
        self.pause = pause


class RemoteModel(Generic[_Client]):
    """Safe for concurrent use within one event loop, to which its connections belong. Runs at most ``parallel``
    requests at once.

    ``timeout``: seconds per request, including retries and back-off but not waiting for a slot. ``sampling``:
    parameters for every prompt, as accepted in ``probe``; None means ``plain_sampling``, which has no effect.
    ``refused``: fields not to send, also from ``probe``. ``ours``: a server of this cluster, reached without a
    proxy."""

    plain_sampling: Mapping[str, float] = {}
    _counts: bool | None = None
    """Whether the server can count the tokens of a text; None before the first attempt."""

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
        refused: Collection[str] = (),
        ours: bool = False,
    ) -> None:
        self._base_url = normal_base_url(base_url)
        self.model = model
        self._api_key = api_key
        self._parallel = parallel
        self._timeout = timeout
        self._retries = retries
        self._backoff = backoff
        self._sampling = dict(self.plain_sampling if sampling is None else sampling)
        self._refused = frozenset(refused)
        self._direct = ours or urlsplit(self._base_url).hostname in ("127.0.0.1", "localhost", "::1")
        self._slots = asyncio.Semaphore(parallel)
        self._known: dict[bytes, int] = {}
        """Digest of a text → its tokens; trials of a task count the same texts."""

    @property
    def shown_url(self) -> str:
        """The base URL without a user name or password."""
        parts = urlsplit(self._base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    async def count_tokens(self, text: str) -> int:
        """Tokens of a text by the server's own count, or else one per three bytes."""
        if self._counts is not False and text.strip():
            key = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
            if (count := self._known.get(key)) is None:
                count = await self._counted(text)
                self._counts = self._counts or count is not None
            if count is not None:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[key] = count
                return count
        return math.ceil(len(text.encode()) / 3)

    async def _counted(self, text: str) -> int | None:
        """Tokens as the server counts them; None if it cannot."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the connections."""
        if client := self.__dict__.pop("_client", None):
            await client.close()

    def _open(self, *, trust_env: bool) -> _Client:
        """Create a client, which must have a ``close``. ``trust_env``: use the environment's proxies."""
        raise NotImplementedError

    @functools.cached_property
    def _client(self) -> _Client:
        return self._open(trust_env=not self._direct)

    async def _patiently(self, send: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """The result of ``send``, which is retried while it raises ``Again``. Raises ``EngineError`` when no time or
        retries are left."""
        fault = Again("")
        try:
            async with asyncio.timeout(self._timeout):
                for attempt in range(self._retries + 1):
                    if attempt:
                        # Up to 50 % jitter, so that requests that failed together are not retried together.
                        pause = self._backoff * 2 ** (attempt - 1) * random.uniform(1, 1.5)
                        await asyncio.sleep(min(LONGEST_PAUSE, pause + fault.pause))
                    try:
                        return await send()
                    except Again as again:
                        fault = again
        except TimeoutError:
            raise EngineError(f"{self.shown_url} did not answer within {self._timeout:g} s") from None
        often = f" {self._retries + 1} times; last error" if self._retries else ""
        raise EngineError(f"{self.shown_url} failed{often}: {fault}") from None

    def _hide(self, text: str) -> str:
        """One line of at most 240 characters, without secrets."""
        # Hide first, then cut: half a key is a secret too.
        for secret in (self._api_key, urlsplit(self._base_url).password):
            text = text.replace(secret, "***") if secret else text
        return " ".join(text.split())[:240]


def normal_base_url(url: str) -> str:
    """Normalise a URL up to its version segment: add a missing scheme and ``/v1``, and cut off an endpoint.

    Raises ``ConfigError`` for anything but an HTTP URL."""
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
    for endpoint in ("/chat/completions", "/completions", "/models", "/messages"):
        path = path.removesuffix(endpoint)
    if not any(VERSION.fullmatch(segment) for segment in path.split("/")):
        path += "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def retry_after(header: str) -> float:
    """The seconds in a ``Retry-After`` header (RFC 9110, 10.2.3), a number or a date; 0 if it is invalid."""
    with contextlib.suppress(ValueError, OverflowError):
        if header.strip().isdecimal():
            return float(header)
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    return 0.0
