"""``engine bench``: an engine's knee (the parallel requests beyond which nothing is gained) and its model's profile."""

import asyncio
import datetime
import os
import platform
import time
from collections.abc import Callable
from typing import Any

from hc_ray.adapters.http_model import HttpModel
from hc_ray.config import EngineConfig
from hc_ray.errors import ConfigError
from hc_ray.home import data_root
from hc_ray.models import catalogue, resolve, resolve_remote, save_profile
from hc_ray.prompt import Message, Prompt
from hc_ray_actors.engine import Engine
from hc_ray_actors.sandboxes import choose, open_place

STEPS = (1, 2, 4, 8, 16)
"""Parallel requests that are tried."""
ENOUGH = 0.95
"""Of the best throughput: the first step that reaches it is the knee."""
ANSWER_TOKENS = 64
_WISH = "Write a Python function that takes a list of words and returns the longest one. Explain each line. " * 3


def bench_engine(
    config: EngineConfig, *, save: bool = False, tell: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Measure; ``tell`` gets a line for each figure as it comes. ``save`` keeps the profile where the next sweep with
    this model finds it. Raises ``UserError`` or ``InfrastructureError``."""
    if config.kind == "scripted":
        raise ConfigError("--engine scripted: a script has no speed and no profile to measure")
    if save and config.kind == "embedded" and config.model in catalogue():
        raise ConfigError(
            f"--save: the profile of {config.model} is a shipped file (configs/models/{config.model}.yaml); "
            "run without --save and edit it there"
        )
    wide = config.model_copy(update={"parallel": max(STEPS)})
    return asyncio.run(_bench(wide, save, tell))


async def _bench(config: EngineConfig, save: bool, tell: Callable[[str], None]) -> dict[str, Any]:
    from hc_ray.solve.calibrate import load_items, measure_profile

    engine = Engine(config)
    place = open_place(choose("auto").backend, data_root() / "public", label="solve")
    model: HttpModel | None = None
    try:
        endpoint = await engine.start()
        key = os.environ.get(config.api_key_env or "", "") or None
        model = HttpModel(endpoint.base_url or "", endpoint.model, api_key=key, parallel=config.parallel)
        throughput = {}
        for parallel in STEPS:
            throughput[parallel] = await _throughput(model, parallel)
            tell(f"{parallel:>3} parallel: {throughput[parallel]:.0f} answer tokens/s")
        knee = knee_of(throughput)
        tell(f"knee: {knee} parallel requests")
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        note = f"{today}, {os.cpu_count()} cores {platform.machine()}, {config.kind}"
        calibration = await measure_profile(model, load_items(), place=place, note=note)
    finally:
        if model is not None:
            await model.aclose()
        await place.close()
        await engine.stop()
    for figure in calibration.figures:
        stops = ", stop rules" if figure.stops else ""
        tell(f"{figure.what} {figure.form} T {figure.temperature:g}{stops}: {figure.passed}/{figure.samples}")
    tell(f"best form: {calibration.profile.form}; tests: {calibration.profile.test_form}")
    resolved = resolve(config.model) if config.kind == "embedded" else resolve_remote(config.model)
    return {
        "schema_version": 1,
        "model": endpoint.model,
        "throughput": {str(parallel): round(rate, 1) for parallel, rate in throughput.items()},
        "knee": knee,
        "capabilities": endpoint.capabilities,
        "figures": [figure.model_dump(mode="json") for figure in calibration.figures],
        "profile": calibration.profile.model_dump(mode="json"),
        "saved": str(save_profile(resolved, calibration.profile)) if save else None,
    }


async def _throughput(model: HttpModel, parallel: int) -> float:
    """Answer tokens a second with so many requests in flight, over three rounds of them."""

    async def lane(number: int) -> int:
        tokens = 0
        for turn in range(3):
            prompt = Prompt(
                role="solver",
                purpose="bench",
                messages=(Message(role="user", content=_WISH),),
                max_tokens=ANSWER_TOKENS,
                temperature=0.7,
                seed=1000 * number + turn,
            )
            tokens += (await model.complete(prompt)).completion_tokens or 0
        return tokens

    began = time.monotonic()
    counts = await asyncio.gather(*(lane(number) for number in range(parallel)))
    return sum(counts) / (time.monotonic() - began)


def knee_of(throughput: dict[int, float]) -> int:
    """The fewest parallel requests that reach ``ENOUGH`` of the best throughput."""
    best = max(throughput.values())
    return min(parallel for parallel, rate in throughput.items() if rate >= ENOUGH * best)
