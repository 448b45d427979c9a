"""One replica of an inference server: started, health-checked, its URL published. Tokens never pass through here."""

import asyncio
import os
import platform
import secrets
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hc_ray import engines
from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import ConfigError, EngineError, ModelError
from hc_ray.domain.ports import Capabilities, Model
from hc_ray.domain.value import Value, digest_of
from hc_ray.engines.speed import request_seconds
from hc_ray.engines.weights_shelf import WeightsShelf
from hc_ray.machine.cleanup import owned_folder, remove_folder
from hc_ray.machine.sealed_box import Addressee
from hc_ray.machine.whole_files import recall, remember
from hc_ray_actors.cluster import LOOPBACK, own_address
from hc_ray_actors.ray_token import derived_key

if TYPE_CHECKING:
    from hc_ray.engines.catalogue import ResolvedModel
    from hc_ray.engines.http import Seats
    from hc_ray.engines.server import ServerProcess


class Endpoint(Value):
    """The address of a role's model."""

    base_urls: tuple[str, ...]
    """Servers on one machine with the same model. Empty for the scripted engine, which runs in the caller's process."""
    model: str
    key_name: str | None = None
    """The name from which the servers' key is derived (``ray_token.derived_key``); None if we did not set a key."""
    capabilities: dict[str, Any] = {}
    """The server's capabilities, as probed at its start."""


def _key(config: EngineConfig, key_name: str | None) -> str | None:
    return derived_key(key_name) if key_name else os.environ.get(config.api_key_env or "", "") or None


def _client(config: EngineConfig, url: str, name: str, key: str | None, **more: Any) -> Any:
    """A client for the server at a URL. Raises ``UserError`` if the config lacks what that kind of server needs."""
    if config.remote and config.api_key_env and key is None:
        raise ConfigError(
            f"{config.api_key_env} is not set: export your API key in it, or name another variable (--api-key-env)"
        )
    if config.kind == "anthropic":
        from hc_ray.engines.anthropic_messages import AnthropicModel

        return AnthropicModel(url, name, api_key=key or "", **more)
    from hc_ray.engines.http import HttpModel

    return HttpModel(url, name, api_key=key, ours=not config.remote, **more)


async def capabilities_of(
    config: EngineConfig, url: str, name: str | None = None, key_name: str | None = None
) -> Capabilities:
    """Probe the server at a URL. Raises ``ModelError`` if an external server does not answer, ``EngineError`` if ours
    does not."""
    from hc_ray.engines.probe import FIRST_SECONDS, probe

    model = _client(config, url, name or config.model, _key(config, key_name), timeout=request_seconds(config))
    try:
        first = config.request_sec or FIRST_SECONDS
        own = config.kind == "anthropic"
        seen = model.probe(config.sampling) if own else probe(model, config.sampling, first=first)
        return await seen
    except EngineError as fault:
        if not config.remote:
            raise
        remedy = "start the server, or correct the URL (--base-url, or roles.ROLE.base_url)"
        if "HTTP 401" in str(fault) or "HTTP 403" in str(fault):
            remedy = f"export a valid API key in {config.api_key_env or 'a variable and name that (--api-key-env)'}"
        if "; it lists " in str(fault):
            remedy = "choose one of those (--model, or roles.ROLE.model)"
        says = str(fault).removeprefix(f"{model.shown_url} ")
        raise ModelError(f"no model answers at {url}: {says}; {remedy}") from fault
    finally:
        await model.aclose()


async def remembered_capabilities(
    config: EngineConfig, url: str, name: str | None, key_name: str | None
) -> Capabilities:
    """Like ``capabilities_of``, which takes seconds, but cached for the embedded engine: if two probes in a row agreed
    on this machine, with the same weights, settings and code, it is not probed again."""
    if config.kind != "embedded":
        return await capabilities_of(config, url, name, key_name)
    key = _asked_of(config, name)
    shown = recall("capabilities", key) or []
    with suppress(ValueError):
        if len(shown) == 2 and shown[0] == shown[1]:
            return Capabilities.model_validate(shown[0])
    seen = await capabilities_of(config, url, name, key_name)
    with suppress(OSError):  # the data folder may be full or not writable
        remember("capabilities", key, [*shown[-1:], seen.model_dump(mode="json")])
    return seen


def _asked_of(config: EngineConfig, name: str | None) -> str:
    """Digest of everything that determines an embedded engine's capabilities."""
    from hc_ray.engines.embedded import servers_of

    model, folder = model_of(config), Path(engines.__file__).parent
    assert model.path is not None
    settings = config.model_dump(mode="json", include={"parallel", "context_tokens", "sampling"})
    code = [file.read_text("utf-8") for file in (*sorted(folder.glob("*.py")), Path(__file__))]
    own = [platform.node(), version("xllamacpp"), config.sha256 or model.digest, name]
    return digest_of([settings, own, servers_of(model.path, config.threads), code])[:16]


EMBEDDED_CONTEXT = 2048
"""Tokens of context of an embedded engine, unless the config says otherwise."""


def _slots(parallel: int, servers: int) -> int:
    """Slots per server of an embedded engine whose servers share ``parallel`` requests."""
    return -(-parallel // servers)


def seats_of(config: EngineConfig, endpoint: Endpoint) -> "Seats":
    """The seats of an engine that only this process uses."""
    from hc_ray.engines.http import Seats

    servers = len(endpoint.base_urls)
    return Seats(servers, _slots(config.parallel, servers) if config.kind == "embedded" else 0)


def open_model(config: EngineConfig, endpoint: Endpoint, *, timeout: float, seats: "Seats | None" = None) -> Model:
    """The model behind an endpoint. ``timeout``: seconds per request. ``seats``: the shared count of its servers'
    running requests; None if this caller counts alone."""
    if config.kind == "scripted":
        from hc_ray.engines.scripted import ScriptedModel, load_script

        return ScriptedModel(load_script(config.script or ""))
    from hc_ray.engines.http import Seats, Spread

    key = _key(config, endpoint.key_name)
    servers = [
        _client(config, url, endpoint.model, key, parallel=config.parallel, timeout=timeout,
                sampling=endpoint.capabilities.get("sampling"), refused=endpoint.capabilities.get("refused", ()))
        for url in endpoint.base_urls
    ]  # fmt: skip
    only: Model = servers[0]
    return Spread(servers, seats or Seats(len(servers))) if config.kind == "embedded" else only


class Engine(WeightsShelf, Addressee):
    """Hosts servers in child processes of this actor; an external URL is only probed."""

    def __init__(self, config: EngineConfig, known: Capabilities | None = None) -> None:
        """``known``: an external server's capabilities if it has just been probed."""
        self._config, self._known = config, known
        self._servers: Sequence[ServerProcess] = ()
        self._logs: Path | None = None

    async def start(self) -> Endpoint:
        """Start the server, and probe its capabilities unless they are known. Raises ``UserError`` for an invalid model
        or program, ``EngineError`` if the weights differ from the plan or the server does not come up."""
        config, key_name = self._config, None
        if config.kind == "scripted":
            return Endpoint(base_urls=(), model=config.script or "scripted")
        urls, name = config.urls[:1], config.model
        if not config.remote:
            self._logs, host = owned_folder("engine"), own_address()
            key_name = None if host == LOOPBACK else f"engine {secrets.token_hex(16)}"
            serve = _embedded if config.kind == "embedded" else _launched
            name, self._servers = serve(config, host, _key(config, key_name), self._logs)
            urls = tuple(await asyncio.gather(*(asyncio.to_thread(server.start) for server in self._servers)))
        # A planned engine has its sampling parameters; a bench without a plan takes them from the profile.
        sampling = config.sampling or model_of(config).profile.sampling
        asked = config.model_copy(update={"sampling": sampling})
        seen = self._known or await remembered_capabilities(asked, urls[0], name, key_name)
        if config.kind == "server" and (seen.context or config.context_tokens or 0) < (config.context_tokens or 0):
            raise ModelError(
                f"the server of {config.label} has a context of {seen.context:,} tokens, but the plan assumes "
                f"{config.context_tokens:,}; set engine.context_tokens"
            )
        return Endpoint(base_urls=urls, model=name, key_name=key_name, capabilities=seen.model_dump(mode="json"))

    async def alive(self) -> bool:
        """Whether all servers that this actor started are still running; True if it started none."""
        return all(await asyncio.gather(*(asyncio.to_thread(server.alive) for server in self._servers)))

    async def fault(self) -> str | None:
        """Why an external server does not answer, in one line; None if it does, or if the server is ours."""
        config = self._config
        if not config.remote:
            return None
        model = _client(config, config.urls[0], config.model, _key(config, None), timeout=5.0, retries=0)
        try:
            await model.models()
        except EngineError as fault:
            return str(fault)
        finally:
            await model.aclose()
        return None

    async def stop(self) -> None:
        """End the servers with their process groups. The logs of one that died by itself stay until the next start or
        ``clean``."""
        if not self._servers:
            return
        lived = all(server.pid is not None for server in self._servers)
        await asyncio.gather(*(asyncio.to_thread(server.stop) for server in self._servers))
        if lived and self._logs is not None:
            remove_folder(self._logs)


def model_of(config: EngineConfig) -> "ResolvedModel":
    """An engine's model on this node: local weights, or a name that its server knows."""
    from hc_ray.engines.catalogue import catalogue, resolve, resolve_remote

    weights = config.model in catalogue() or config.model.endswith(".gguf")
    if config.kind == "embedded" or (config.kind == "server" and weights):
        return resolve(config.model, config.sha256)
    return resolve_remote(config.model)


def _embedded(config: EngineConfig, host: str, key: str | None, folder: Path) -> "tuple[str, Sequence[ServerProcess]]":
    from hc_ray.engines.embedded import EmbeddedServer, servers_of

    model = model_of(config)
    assert model.path is not None
    threads = servers_of(model.path, config.threads)
    return model.name, [
        EmbeddedServer(
            model.path,
            parallel=_slots(config.parallel, len(threads)),
            context_tokens=config.context_tokens or EMBEDDED_CONTEXT,
            threads=own,
            log_path=folder / f"engine-{number}.log",
            sha256=config.sha256 or model.digest,
            host=host,
            key=key,
        )
        for number, own in enumerate(threads)
    ]


def _launched(config: EngineConfig, host: str, key: str | None, folder: Path) -> "tuple[str, Sequence[ServerProcess]]":
    from hc_ray.engines.server import launched

    model = model_of(config)
    if config.sha256 not in (None, model.digest):
        raise EngineError(
            f"{model.path} has different weights on this node than the plan expects; copy them again there"
        )
    return config.model, [launched(config, str(model.path or config.model), host=host, key=key, folder=folder)]
