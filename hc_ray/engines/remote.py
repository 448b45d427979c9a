"""What asking a server has in common, whatever it speaks: its URL, a client and slots, patience, and secrets that stand
in no error."""

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
"""How a server says that a prompt does not fit."""
VERSION = re.compile(r"v\d+[a-z0-9]*", re.I)
"""A version segment of a URL."""
LONGEST_PAUSE = 60.0
"""Seconds before a request is repeated, at most, whatever the server asks for."""
_REMEMBERED = 10_000
"""Texts whose tokens are remembered."""
_Answer = TypeVar("_Answer")
_Client = TypeVar("_Client")


class Again(Exception):
    """What was wrong with a request may pass; ``pause``: seconds for which the server asks to be left alone."""

    def __init__(self, says: str, pause: float = 0.0) -> None:
        super().__init__(says)
        self.pause = pause


class RemoteModel(Generic[_Client]):
    """Safe for concurrent use within one event loop, to which its connections belong; ``parallel`` requests are under
    way at once.

    ``timeout`` bounds one request in seconds, retries and back-off included, waiting for a slot excluded. ``sampling``
    is sent with every prompt as ``probe`` saw it accepted; None: ``plain_sampling``, which changes nothing. What stands
    in ``refused``, also of ``probe``, is not sent. ``ours``: it is a server of this cluster, before which no proxy of
    the environment stands."""

    plain_sampling: Mapping[str, float] = {}
    _counts: bool | None = None
    """Whether the server counts the tokens of a text; None before it was asked for the first time."""

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
        """Digest of a text → its tokens. Trials of one task ask the same, whatever their agents and seeds."""

    @property
    def shown_url(self) -> str:
        """The base URL without a user name or password."""
        parts = urlsplit(self._base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    async def count_tokens(self, text: str) -> int:
        """By the server's own count; where it has none, one token per three bytes."""
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
        """Tokens as the server counts them; None where it does not."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the connections."""
        if client := self.__dict__.pop("_client", None):
            await client.close()

    def _open(self, *, trust_env: bool) -> _Client:
        """A client, which has a ``close``. ``trust_env``: it may use the proxies that the environment names."""
        raise NotImplementedError

    @functools.cached_property
    def _client(self) -> _Client:
        return self._open(trust_env=not self._direct)

    async def _patiently(self, send: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """What ``send`` answers, called again while it raises ``Again``. Raises ``EngineError`` when the time or the
        retries are used up."""
        fault = Again("")
        try:
            async with asyncio.timeout(self._timeout):
                for attempt in range(self._retries + 1):
                    if attempt:
                        # Half as much again at most, so that what failed together does not come back together.
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
        """One line of it, at most 240 characters, without secrets."""
        # Hidden first, then cut: half a key is a secret too.
        for secret in (self._api_key, urlsplit(self._base_url).password):
            text = text.replace(secret, "***") if secret else text
        return " ".join(text.split())[:240]


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
    for endpoint in ("/chat/completions", "/completions", "/models", "/messages"):
        path = path.removesuffix(endpoint)
    if not any(VERSION.fullmatch(segment) for segment in path.split("/")):
        path += "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def retry_after(header: str) -> float:
    """Seconds that a server asks to be left alone (RFC 9110, 10.2.3): their number, or a date; 0 for anything else."""
    with contextlib.suppress(ValueError, OverflowError):
        if header.strip().isdecimal():
            return float(header)
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    return 0.0
