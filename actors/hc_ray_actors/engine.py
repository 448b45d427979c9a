"""One replica of an inference server: started, health-checked, its URL published. Tokens never pass through here."""

import asyncio
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import EngineError, InfrastructureError, ModelError
from hc_ray.domain.ports import Capabilities, Model
from hc_ray.domain.value import Value
from hc_ray.engines.speed import request_seconds
from hc_ray.machine.cleanup import owned_folder, remove_folder
from hc_ray_actors.cluster import ENGINE, LOOPBACK, Cluster, own_address
from hc_ray_actors.ray_token import derived_key

if TYPE_CHECKING:
    from hc_ray.engines.embedded import EmbeddedServer


class Endpoint(Value):
    """Where a role's prompts go."""

    base_urls: tuple[str, ...]
    """Servers of one machine that hold the same model. None for the scripted engine, which lives in the process that
    asks."""
    model: str
    key_name: str | None = None
    """What the servers' key is derived from (``ray_token.derived_key``); None where they have none of ours."""
    capabilities: dict[str, Any] = {}
    """What the server was seen to do when it was started."""


def _key(config: EngineConfig, key_name: str | None) -> str | None:
    return derived_key(key_name) if key_name else os.environ.get(config.api_key_env or "", "") or None


async def capabilities_of(config: EngineConfig, name: str | None = None, key_name: str | None = None) -> Capabilities:
    """What the server at the engine's URL does when it is asked. Raises ``ModelError`` where somebody else's server
    does not answer, ``EngineError`` where ours does not."""
    from hc_ray.engines.http import HttpModel
    from hc_ray.engines.probe import probe

    key = _key(config, key_name)
    model = HttpModel(config.base_url or "", name or config.model, api_key=key, timeout=request_seconds(config))
    try:
        return await probe(model, config.sampling)
    except EngineError as fault:
        if config.kind != "openai":
            raise
        raise ModelError(
            f"no model answers at {config.base_url}: {fault}; start the server, or correct the URL "
            "(--base-url, or roles.ROLE.base_url)"
        ) from fault
    finally:
        await model.aclose()


EMBEDDED_CONTEXT = 2048
"""Tokens of context of an embedded engine, unless the config says otherwise."""


def open_model(config: EngineConfig, endpoint: Endpoint, *, timeout: float) -> Model:
    """The model behind an endpoint. ``timeout``: seconds that one request may take."""
    if config.kind == "scripted":
        from hc_ray.engines.scripted import ScriptedModel, load_script

        return ScriptedModel(load_script(config.script or ""))
    from hc_ray.engines.http import HttpModel
    from hc_ray.engines.spread import Spread

    key = _key(config, endpoint.key_name)
    servers = [
        HttpModel(url, endpoint.model, api_key=key, parallel=config.parallel, timeout=timeout,
                  sampling=endpoint.capabilities.get("sampling"))
        for url in endpoint.base_urls
    ]  # fmt: skip
    return servers[0] if len(servers) == 1 else Spread(servers)


class Engine:
    """Hosts ``embedded`` servers in child processes of this actor; a URL of somebody else's is only probed."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._servers: list[EmbeddedServer] = []
        self._logs: Path | None = None

    async def start(self) -> Endpoint:
        """Start (or reach) the server and probe what it can do. Raises ``ModelError`` for a model that is none,
        ``EngineError`` for other weights than were planned with and for a server that does not come up."""
        from hc_ray.engines.catalogue import resolve, resolve_remote

        config, key_name = self._config, None
        if config.kind == "scripted":
            return Endpoint(base_urls=(), model=config.script or "scripted")
        if config.kind == "embedded":
            from hc_ray.engines.embedded import EmbeddedServer, servers_of

            model = resolve(config.model)
            if model.path is None:
                raise ModelError(
                    f"the weights of {config.model} are not downloaded; run: hc-ray models pull {config.model}"
                )
            self._logs = owned_folder("engine")
            host = own_address()
            key_name = None if host == LOOPBACK else f"engine {secrets.token_hex(16)}"
            threads = servers_of(model.path, config.threads)
            self._servers = [
                EmbeddedServer(
                    model.path,
                    parallel=-(-config.parallel // len(threads)),
                    context_tokens=config.context_tokens or EMBEDDED_CONTEXT,
                    threads=own,
                    log_path=self._logs / f"engine-{number}.log",
                    sha256=config.sha256 or model.digest,
                    host=host,
                    key=_key(config, key_name),
                )
                for number, own in enumerate(threads)
            ]
            urls = tuple(await asyncio.gather(*(asyncio.to_thread(server.start) for server in self._servers)))
            name, profile = model.name, model.profile
        else:
            urls, name = (config.base_url or "",), config.model
            profile = resolve_remote(config.model).profile
        sampling = config.sampling or profile.sampling
        asked = config.model_copy(update={"base_url": urls[0], "sampling": sampling})
        seen = await capabilities_of(asked, name, key_name)
        return Endpoint(base_urls=urls, model=name, key_name=key_name, capabilities=seen.model_dump(mode="json"))

    async def alive(self) -> bool:
        """Whether the servers that this actor started still run; True where it started none."""
        return all(server.alive() for server in self._servers)

    async def fault(self) -> str | None:
        """Why somebody else's server does not answer, in one line; None if it does, or is ours."""
        if self._config.kind != "openai":
            return None
        from hc_ray.engines.http import HttpModel

        key = os.environ.get(self._config.api_key_env or "", "") or None
        model = HttpModel(self._config.base_url or "", self._config.model, api_key=key, timeout=5.0, retries=0)
        try:
            await model.models()
        except EngineError as fault:
            return str(fault)
        finally:
            await model.aclose()
        return None

    async def stop(self) -> None:
        """End the servers and everything of their process groups. The logs of one that died by itself stay until the
        next start or ``clean``."""
        if not self._servers:
            return
        lived = all(server.pid is not None for server in self._servers)
        await asyncio.gather(*(asyncio.to_thread(server.stop) for server in self._servers))
        if lived and self._logs is not None:
            remove_folder(self._logs)


def spawn_engine(cluster: Cluster, engine: EngineConfig, turn: int = 0) -> Any:
    """An engine's actor: the nodes that may hold engines take turns. Raises ``InfrastructureError`` if none is left."""
    if not (nodes := cluster.nodes(ENGINE)):
        raise InfrastructureError(f"no node of {cluster.where} offers {ENGINE}")
    return cluster.spawn(Engine, located(engine), node=nodes[turn % len(nodes)], resource=ENGINE, units=0.01)


def located(engine: EngineConfig) -> EngineConfig:
    """With the absolute path of a model file: actors do not work in the driver's directory."""
    if engine.kind != "embedded" or not Path(engine.model).is_file():
        return engine
    return engine.model_copy(update={"model": str(Path(engine.model).absolute())})
