"""One replica of an inference server: started, health-checked, its URL published. Tokens never pass through here."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import EngineError, ModelError
from hc_ray.domain.ports import Capabilities, Model
from hc_ray.domain.value import Value
from hc_ray.engines.speed import request_seconds
from hc_ray.machine.cleanup import owned_folder, remove_folder

if TYPE_CHECKING:
    from hc_ray.engines.embedded import EmbeddedServer


class Endpoint(Value):
    """Where a role's prompts go."""

    base_urls: tuple[str, ...]
    """Servers of one machine that hold the same model. None for the scripted engine, which lives in the process that
    asks."""
    model: str
    capabilities: dict[str, Any] = {}
    """What the server was seen to do when it was started."""


async def capabilities_of(config: EngineConfig, name: str | None = None) -> Capabilities:
    """What the server at the engine's URL does when it is asked. Raises ``ModelError`` where somebody else's server
    does not answer, ``EngineError`` where ours does not."""
    from hc_ray.engines.http import HttpModel
    from hc_ray.engines.probe import probe

    key = os.environ.get(config.api_key_env or "", "") or None
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

    key = os.environ.get(config.api_key_env or "", "") or None
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

        config = self._config
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
            threads = servers_of(model.path, config.threads)
            self._servers = [
                EmbeddedServer(
                    model.path,
                    parallel=-(-config.parallel // len(threads)),
                    context_tokens=config.context_tokens or EMBEDDED_CONTEXT,
                    threads=own,
                    log_path=self._logs / f"engine-{number}.log",
                    sha256=config.sha256 or model.digest,
                )
                for number, own in enumerate(threads)
            ]
            urls = tuple(await asyncio.gather(*(asyncio.to_thread(server.start) for server in self._servers)))
            name, profile = model.name, model.profile
        else:
            urls, name = (config.base_url or "",), config.model
            profile = resolve_remote(config.model).profile
        sampling = config.sampling or profile.sampling
        seen = await capabilities_of(config.model_copy(update={"base_url": urls[0], "sampling": sampling}), name)
        return Endpoint(base_urls=urls, model=name, capabilities=seen.model_dump(mode="json"))

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
