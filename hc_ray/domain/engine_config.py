"""The settings of one engine."""

import re
import shlex
from pathlib import PurePath
from typing import Any, Literal, Self

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


ANTHROPIC_URL, ANTHROPIC_KEY = "https://api.anthropic.com", "ANTHROPIC_API_KEY"
"""Default URL of an ``anthropic`` engine, and default variable with its key."""
PRESETS = ("vllm", "sglang", "llama-server")
"""Servers whose options hc-ray knows."""


class EngineConfig(Value):
    """One inference server, or several replicas."""

    kind: Literal["embedded", "openai", "server", "anthropic", "scripted"] = "embedded"
    """``embedded``: xllamacpp on this machine; ``openai``: any running OpenAI-compatible server; ``server``: one that
    hc-ray starts with ``command``; ``anthropic``: Claude by the Messages API; ``scripted``: a Python function that
    answers prompts."""
    model: str = Field("smollm2-135m-instruct", min_length=1)
    """A catalogue name, the path of a GGUF file, or the server's name for the model."""
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    """For ``embedded``: SHA-256 that the weights must have on every node; None: that of the planning machine's
    weights."""
    base_url: str | None = Field(None, min_length=1)
    """For ``openai``: the server's URL, up to and including ``/v1``; for ``anthropic``: None is Anthropic's own."""
    base_urls: tuple[str, ...] = ()
    """For ``openai``: instead of ``base_url``, the URLs of several servers of the same model, one per replica."""
    command: str | None = None
    """For ``server``: the program and its options. If the program is ``vllm``, ``sglang`` or ``llama-server``, by name
    or path, hc-ray adds the model, the address and the like. Any other command must contain ``{host}`` and ``{port}``,
    and may contain ``{model}``, ``{context_tokens}``, ``{parallel}`` and ``{gpus}``; it gets its key in
    HC_RAY_ENGINE_KEY. Either may start with ``env NAME=VALUE``."""
    gpus: int | None = Field(None, ge=0)
    """For ``server``: number of GPUs per server, over which it spreads the model; None: 1 for ``vllm`` and ``sglang``,
    else 0."""
    start_sec: float = Field(900.0, gt=0)
    """For ``server``: seconds until it must be ready."""
    api_key_env: str | None = None
    """For ``openai`` and ``anthropic``: name of the environment variable that holds the API key."""
    script: str | None = Field(None, min_length=1)
    """For ``scripted``: ``module:function`` with the signature ``(prompt) -> str``."""
    request_sec: float | None = Field(None, gt=0)
    """Time limit in seconds of one request, including its retries; None: from the speed that ``hc-ray engine bench``
    measured here, at least 600."""
    replicas: int = Field(1, ge=1)
    """Number of servers of this engine on the cluster; with ``base_urls``, the number of URLs."""
    parallel: int = Field(16, ge=1)
    """Parallel requests per replica; if not set, the number that ``hc-ray engine bench`` found to pay off here."""
    threads: int | None = None
    """Threads of an embedded engine; None: one per core. A small model runs on several servers, which share them."""
    context_tokens: int | None = Field(None, ge=256)
    """Context length of one request in tokens; None: what the server reports, 2,048 for ``embedded``, 16,384 for
    ``server`` or the catalogue model's own."""
    sampling: Sampling | None = None
    """Sampling parameters; None: those of the model's profile."""

    @model_validator(mode="before")
    @classmethod
    def _is_a_server(cls, data: Any) -> Any:
        """Infer the kind from a URL or command, and the number of replicas from the URLs."""
        if not isinstance(data, dict):
            return data
        urls = data.get("base_urls") or ()
        if urls and not isinstance(urls, str):
            data = {"replicas": len(urls), **data}
        if data.get("kind") == "anthropic":
            data = {**data, "api_key_env": data.get("api_key_env") or ANTHROPIC_KEY}
            return data if urls else {**data, "base_url": data.get("base_url") or ANTHROPIC_URL}
        kind = "openai" if urls or data.get("base_url") else "server" if data.get("command") else None
        return {"kind": kind, **data} if kind else data

    @field_validator("base_url", "base_urls")
    @classmethod
    def _has_no_secret(cls, given: Any) -> Any:
        for url in (given,) if isinstance(given, str) else given or ():
            if fault := url_fault(url):
                raise ValueError(f"the URL {fault}; put the key in an environment variable and name it in api_key_env")
        return given

    @field_validator("command")
    @classmethod
    def _is_a_command(cls, command: str | None) -> str | None:
        if command is not None:
            program = program_of(shlex.split(command))  # raises ValueError: no closing quotation
            if PurePath(program).name not in PRESETS and not ("{host}" in command and "{port}" in command):
                raise ValueError(
                    f"hc-ray does not know the options of {program or 'an empty command'}: the command must contain "
                    f"{{host}} and {{port}} where they belong, or start one of {', '.join(PRESETS)}"
                )
        return command

    @model_validator(mode="after")
    def _one_replica_a_url(self) -> Self:
        if self.base_url and self.base_urls:
            raise ValueError("set either base_url or base_urls, not both")
        if len(set(self.base_urls)) < len(self.base_urls):
            raise ValueError("base_urls lists the same URL twice")
        if self.remote and self.replicas != max(1, len(self.base_urls)):
            raise ValueError(f"replicas of an engine of kind {self.kind} are its URLs: list them under base_urls")
        return self

    @field_validator("api_key_env")
    @classmethod
    def _is_a_name(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError("must be the name of an environment variable, not the key itself")
        return name

    @property
    def remote(self) -> bool:
        """Whether its server is external: already running, with capabilities that must be probed."""
        return self.kind in ("openai", "anthropic")

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of a remote engine's servers, one per replica."""
        return self.base_urls or ((self.base_url,) if self.base_url else ())

    @property
    def program(self) -> str:
        """The name of the program that ``command`` starts; empty if there is none."""
        return PurePath(program_of(shlex.split(self.command or ""))).name

    @property
    def preset(self) -> str | None:
        """The program if hc-ray knows its options, else None."""
        return self.program if self.program in PRESETS and "{port}" not in (self.command or "") else None

    @property
    def num_gpus(self) -> int:
        """GPUs that each replica takes on its node."""
        if self.kind != "server":
            return 0
        return self.gpus if self.gpus is not None else int(self.preset in ("vllm", "sglang"))

    @property
    def label(self) -> str:
        """The model's name for display, never a path of this machine."""
        return (self.script or "no script") if self.kind == "scripted" else self.model.rsplit("/", 1)[-1]


def program_of(words: list[str]) -> str:
    """The program of a command that may start with ``env NAME=VALUE``; empty if there is none."""
    return next((word for word in words if word != "env" and not re.match(r"[A-Za-z_]\w*=", word)), "")
