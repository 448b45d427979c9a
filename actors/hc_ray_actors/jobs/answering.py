"""Starts and stops engines for use in this process. Separate from ``single``, since the MCP server imports it but
nothing that opens tests."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from hc_ray.agent.role import RoleModel, together
from hc_ray.domain.config import RoleName
from hc_ray_actors.engine import Engine
from hc_ray_actors.role_models import Looked, Planned
from hc_ray_actors.trials import RoleSetup, Trials

ONE_TASK: dict[str, Any] = {"split": "dev", "include": (), "exclude": (), "tags": (), "limit": None,
                            "configs": (), "grid": {}}  # fmt: skip
"""Settings of a sweep for a single task, which override the config."""


@contextlib.asynccontextmanager
async def answering(models: Mapping[RoleName, Planned], seen: Looked) -> AsyncIterator[dict[RoleName, RoleModel]]:
    """Start the engines of these models for the duration of the context; yields the roles. ``seen``: capabilities of
    external servers, as probed at planning time."""
    engines = {config: Engine(config, next(iter(seen.get(config, ())), None)) for config, _, _ in models.values()}
    trials = Trials("", None)
    try:
        endpoints = {config: await engine.start() for config, engine in engines.items()}
        setups: dict[RoleName, RoleSetup] = {
            role: RoleSetup(engine=config, endpoints=(endpoints[config],), profile=profile, digest=digest)
            for role, (config, profile, digest) in models.items()
        }
        await trials.arrange({str(role): setup for role, setup in setups.items()}, {})
        yield together({role: trials.role(role, 0) for role in setups})
    finally:
        await trials.stop()
        for engine in engines.values():
            await engine.stop()
