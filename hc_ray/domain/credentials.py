"""Secrets in the environment: recognises them, keeps them out of child processes, and removes them from texts.

A variable names a secret if one word of its name is ``KEY``, ``TOKEN``, ``SECRET`` or the like. Nothing here stores a
value."""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

HIDDEN = "***"
SHORT = 8
"""Shorter values count as settings (``true``, ``token``) and are not removed from texts."""

_WORDS = frozenset(
    {"KEY", "KEYS", "APIKEY", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE"}
    | {"CREDENTIAL", "CREDENTIALS", "AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "PAT", "PRIVATE", "SIGNATURE", "SIG"}
)
_PLACES = frozenset({"PATH", "FILE", "DIR", "FOLDER", "SOCK", "SOCKET", "MODE"})
"""Endings of names that state a secret's location or use, not its value."""
_STORES = ("AWS_", "AZURE_", "GOOGLE_", "MLFLOW_TRACKING_")
_QUERY = re.compile(r"(?i)([?&][\w.-]*(?:key|token|secret|password|passwd|signature|sig)[\w.-]*=)[^&\s\"'<>]+")
_USER = re.compile(r"(?<=://)[^/\s@\"'<>]+@")
_BEARER = re.compile(r"(?i)(\b(?:bearer|basic) )[\w.~+/=-]{8,}")


def is_secret_name(name: str) -> bool:
    """``OPENAI_API_KEY``, ``apiKey``, ``x-auth-token``; not ``PATH``, ``SSH_AUTH_SOCK`` or ``RAY_AUTH_TOKEN_PATH``."""
    words = [word.upper() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
    return bool(words) and words[-1] not in _PLACES and not _WORDS.isdisjoint(words)


def secret_values(*, named: Collection[str] = ()) -> tuple[str, ...]:
    """The values in this process's environment that must not appear in texts, longest first: those of secret names and
    of ``named`` ones, and passwords in URLs."""
    found = set()
    for name, value in os.environ.items():
        if name in named or (is_secret_name(name) and not _is_place(value)):
            found.add(value.strip())
        elif "://" in value and "@" in value:
            found.add(_password(value))
    return tuple(sorted((value for value in found if len(value) >= SHORT), key=len, reverse=True))


def _is_place(value: str) -> bool:
    return value.startswith(("/", "~", ".")) and Path(value).expanduser().exists()


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


def without_secrets() -> dict[str, str]:
    """An environment for a child process that needs no keys: without secrets, and with URLs without their user part."""
    return {
        name: _USER.sub("", value) if "://" in value else value
        for name, value in os.environ.items()
        if not is_secret_name(name)
    }


def forget_secrets() -> None:
    """Remove every secret from this process's environment, so that its future children inherit none."""
    kept = without_secrets()
    for name in os.environ.keys() - kept.keys():
        del os.environ[name]
    os.environ.update(kept)


def of_stores() -> list[str]:
    """Names of the variables in this process's environment that configure access to object stores and tracking
    servers."""
    return [name for name in os.environ if name.startswith(_STORES)]


def replace(values: Mapping[str, str | None]) -> None:
    """Set variables of this process's environment; None removes a variable."""
    for name, value in values.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def scrub(text: str) -> str:
    """Remove this process's secrets, user parts and keys in URLs, and bearer tokens from a text."""
    for value in secret_values():
        if value in text:
            text = text.replace(value, HIDDEN)
    text = _USER.sub(f"{HIDDEN}@", text)
    return _BEARER.sub(rf"\1{HIDDEN}", _QUERY.sub(rf"\1{HIDDEN}", text))


class Censor:
    """Removes this process's secrets from data to be written; returns data without secrets unchanged."""

    def __init__(self, values: Iterable[str]) -> None:
        """``values``: the result of ``secret_values``; searches for them as they are and as JSON encodes them."""
        spelled = {spelling for value in values for spelling in (value, json.dumps(value)[1:-1])}
        self._values = tuple(sorted((spelling.encode() for spelling in spelled), key=len, reverse=True))

    def clean(self, data: bytes) -> bytes:
        for value in self._values:
            if value in data:
                data = data.replace(value, HIDDEN.encode())
        return data


def url_fault(url: str) -> str | None:
    """Why a URL must not be in a config, which is stored and shown; None if it may. Never quotes the URL."""
    try:
        parts = urlsplit(url)
        if parts.password or (parts.username and parts.scheme in {"http", "https"}):
            return "contains a user name or password, which would be stored with the sweep"
    except ValueError:
        return "is not a valid URL"
    if any(is_secret_name(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        return "contains a key in its query, which would be stored with the sweep"
    return None
