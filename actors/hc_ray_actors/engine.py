"""One replica of an inference server: started, health-checked, its URL published. Tokens never pass through here."""

import asyncio
import os
from pathlib import Path
from typing import Any

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import EngineError, ModelError
from hc_ray.domain.ports import Capabilities
from hc_ray.domain.value import Value
from hc_ray.engines.speed import request_seconds
from hc_ray.machine.cleanup import owned_folder, remove_folder


class Endpoint(Value):
    """Where a role's prompts go."""

    base_url: str | None
    """None for the scripted engine, which lives in the process that asks."""
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


class Engine:
    """Hosts an ``embedded`` server in a child process of this actor; a URL of somebody else's is only probed."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._server: Any = None
        self._logs: Path | None = None

    async def start(self) -> Endpoint:
        """Start (or reach) the server and probe what it can do. Raises ``ModelError`` for a model that is none,
        ``EngineError`` for other weights than were planned with and for a server that does not come up."""
        from hc_ray.engines.catalogue import resolve, resolve_remote

        config = self._config
        if config.kind == "scripted":
            return Endpoint(base_url=None, model=config.script or "scripted")
        if config.kind == "embedded":
            from hc_ray.engines.embedded import EmbeddedServer

            model = resolve(config.model)
            if model.path is None:
                raise ModelError(
                    f"the weights of {config.model} are not downloaded; run: hc-ray models pull {config.model}"
                )
            self._logs = owned_folder("engine")
            self._server = EmbeddedServer(
                model.path,
                parallel=config.parallel,
                context_tokens=config.context_tokens or EMBEDDED_CONTEXT,
                threads=config.threads,
                log_path=self._logs / "engine.log",
                sha256=config.sha256 or model.digest,
            )
            url = await asyncio.to_thread(self._server.start)
            name, profile = model.name, model.profile
        else:
            url, name = config.base_url or "", config.model
            profile = resolve_remote(config.model).profile
        sampling = config.sampling or profile.sampling
        seen = await capabilities_of(config.model_copy(update={"base_url": url, "sampling": sampling}), name)
        return Endpoint(base_url=url, model=name, capabilities=seen.model_dump(mode="json"))

    async def alive(self) -> bool:
        """Whether the server that this actor started still runs; True where it started none."""
        return self._server is None or bool(self._server.alive())

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
        """End the server and everything of its process group. The log of one that died by itself stays until the next
        start or ``clean``."""
        if self._server is None:
            return
        lived = self._server.pid is not None
        await asyncio.to_thread(self._server.stop)
        if lived and self._logs is not None:
            remove_folder(self._logs)
