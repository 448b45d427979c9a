"""The settings of one engine."""

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from hc_ray.domain.credentials import url_fault
from hc_ray.domain.value import Value


class Sampling(Value):
    """Sampling parameters besides the temperature. Every request sends all of them: a server that gets none applies the
    model's own defaults, and then greedy decoding is no longer greedy. The defaults here have no effect on sampling."""

    top_p: float = Field(1.0, gt=0, le=1)
    """Sample only from the likeliest tokens whose probabilities add up to this value."""
    top_k: int = Field(0, ge=0)
    """Sample only from this many of the likeliest tokens; 0: all."""
    min_p: float = Field(0.0, ge=0, le=1)
    """Sample only tokens with at least this share of the likeliest token's probability."""
    repetition_penalty: float = Field(1.0, gt=0, le=2)
    """Values above 1 make tokens that already occurred less likely."""


class EngineConfig(Value):
    """One inference server."""

    kind: Literal["embedded", "openai", "scripted"] = "embedded"
    """``embedded``: xllamacpp on this machine; ``openai``: any OpenAI-compatible server; ``scripted``: a Python
    function that answers prompts."""
    model: str = "smollm2-135m-instruct"
    """A catalogue name, the path of a GGUF file, or the server's name for the model."""
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    """For ``embedded``: SHA-256 that the weights must have on every node; None: the one found where the sweep is
    planned."""
    base_url: str | None = None
    """For ``openai``: the server's URL, up to and including ``/v1``."""
    api_key_env: str | None = None
    """For ``openai``: name of the environment variable that holds the API key."""
    script: str | None = None
    """For ``scripted``: ``module:function`` with the signature ``(prompt) -> str``."""
    request_sec: float | None = Field(None, gt=0)
    """Time limit of one request, including its retries; None: by the speed that ``hc-ray engine bench`` measured here,
    at least 600 seconds."""
    replicas: int = Field(1, ge=1)
    """Number of servers of this engine on the cluster."""
    parallel: int = Field(16, ge=1)
    """Parallel requests per replica; ``hc-ray engine bench`` measures how many pay off."""
    threads: int | None = None
    """Threads of an embedded engine; None: one per core. A small model runs on several servers, which share them."""
    context_tokens: int | None = Field(None, ge=256)
    """Context length of one request in tokens; None: what the server says, 2,048 for ``embedded``."""
    sampling: Sampling | None = None
    """Sampling parameters; None: those of the model's profile."""

    @model_validator(mode="before")
    @classmethod
    def _is_a_server(cls, data: Any) -> Any:
        """A URL alone means a server behind it."""
        return {"kind": "openai", **data} if isinstance(data, dict) and data.get("base_url") else data

    @field_validator("base_url")
    @classmethod
    def _has_no_secret(cls, url: str | None) -> str | None:
        if url and (fault := url_fault(url)):
            raise ValueError(f"the URL {fault}; put the key in an environment variable and name that in api_key_env")
        return url

    @field_validator("api_key_env")
    @classmethod
    def _is_a_name(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError("must be the name of an environment variable, not the key itself")
        return name

    @property
    def label(self) -> str:
        """The model's name for a reader: never a path of this machine."""
        return (self.script or "no script") if self.kind == "scripted" else self.model.rsplit("/", 1)[-1]
