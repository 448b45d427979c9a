"""``engine bench``: measures an engine's knee (the parallel requests beyond which nothing is gained), or its model's
profile (the form of actions that works best)."""

import asyncio
import datetime
import os
import platform
from collections.abc import Awaitable, Callable
from typing import Any

from hc_ray.domain.config import EngineConfig, SweepConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.ports import Capabilities, Model, SandboxPlace
from hc_ray.domain.profile import Profile
from hc_ray.engines.catalogue import catalogue, save_profile
from hc_ray.engines.profiles import own_settings, settled
from hc_ray.engines.speed import find_knee, keep_speed, request_seconds
from hc_ray.machine.paths import data_root
from hc_ray_actors.backends import choose, open_place
from hc_ray_actors.engine import Engine, model_of, open_model
from hc_ray_actors.role_models import role_model

STEPS = (1, 2, 4, 8, 16)
"""Numbers of parallel requests to try."""
BEYOND = (32, 64, 128, 256)
"""Further numbers for servers that are not embedded, as long as each step gains something."""
LEVEL_SECONDS = 6.0
"""Seconds to measure each number, and prompts alone."""


def bench_engine(
    config: EngineConfig, *, forms: bool = False, save: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:  # fmt: skip
    """Measure the engine's speed or, with ``forms``, the forms of actions; ``tell`` receives a line per figure. The
    speed is stored on this machine; ``save`` stores the profile for later sweeps with this model. Raises ``UserError``
    or ``InfrastructureError``."""
    if config.kind == "scripted":
        raise ConfigError("--engine scripted: a script has nothing to measure")
    if save and config.kind in ("embedded", "server") and config.model in catalogue():
        raise ConfigError(
            f"--save: the profile of {config.model} is a shipped file (configs/models/{config.model}.yaml); "
            "run without --save and edit it there"
        )
    steps = STEPS if config.kind == "embedded" else (*STEPS, *BEYOND)
    wide = config if forms else config.model_copy(update={"parallel": max(steps)})
    return asyncio.run(_bench(wide, _forms if forms else _knee, save, tell))


async def _bench(config: EngineConfig, measure: "_Measure", save: bool, tell: Callable[[str], None]) -> dict[str, Any]:
    config = role_model(config)[0]
    engine = Engine(config)
    model: Any = None
    try:
        endpoint = await engine.start()
        seen = Capabilities.model_validate(endpoint.capabilities)
        planned = role_model(config, seen)[1]
        model = open_model(config, endpoint, timeout=request_seconds(config))
        profile, found = await measure(model, config, planned, seen, tell)
    finally:
        if model is not None:
            await model.aclose()
        await engine.stop()
    resolved = model_of(config)
    kept = profile.model_copy(update={"settings": own_settings(profile)})
    return {
        "schema_version": 1,
        "model": endpoint.model,
        **found,
        "capabilities": endpoint.capabilities,
        "profile": profile.model_dump(mode="json"),
        "saved": str(save_profile(resolved, kept)) if save and profile != planned else None,
    }


_Found = tuple[Profile, dict[str, Any]]
_Measure = Callable[[Model, EngineConfig, Profile, Capabilities, Callable[[str], None]], Awaitable[_Found]]


async def _knee(
    model: Model, config: EngineConfig, planned: Profile, seen: Capabilities, tell: Callable[[str], None]
) -> _Found:
    levels = [step for step in (*STEPS, *BEYOND) if step <= config.parallel]
    curve, speed = await find_knee(
        model, levels=levels, surely=len(STEPS), seconds=LEVEL_SECONDS, chat=not seen.completion
    )
    for level in curve:
        rate = f"{level.output_tokens_per_second:.0f} answer tokens/s"
        tell(f"{level.concurrency:>3} parallel requests: {rate}, 95 % of answers within {level.p95_seconds:.1f} s")
    tell(f"best: {speed.knee} parallel requests (the knee of the throughput curve)")
    tell(f"prompts alone: {speed.prompt_tokens_per_second or 0.0:.0f} tokens/s")
    tell(f"answers alone: {speed.completion_tokens_per_second:.0f} tokens/s")
    keep_speed(config, speed.model_copy(update={"measured": _note(config)}))
    return planned, {
        "throughput": {str(level.concurrency): round(level.output_tokens_per_second, 1) for level in curve},
        "knee": speed.knee,
        "answer_tokens_per_second": round(speed.completion_tokens_per_second, 1),
        "prompt_tokens_per_second": round(speed.prompt_tokens_per_second or 0.0, 1),
    }


async def _forms(
    model: Model, config: EngineConfig, planned: Profile, seen: Capabilities, tell: Callable[[str], None]
) -> _Found:
    from hc_ray.agent.asking_forms import chosen, load_forms, measure
    from hc_ray.agent.loop import ActionForm

    if not seen.chat:
        raise ConfigError(f"--profile: {config.label} does not support chat, which forms of actions need")
    solver, items, room = settled(SweepConfig(), planned).solver, load_forms(), planned.context_tokens // 2
    forms: tuple[ActionForm, ...] = ("fenced", "calls") if seen.tools else ("fenced",)
    samples = len(solver.temperatures)
    tell(f"actions: {len(items)} situations, {samples} answers to each in each form ({', '.join(forms)})")
    place = _place()
    try:
        figures = await measure(model, forms, items, place, solver, room, tell)
    finally:
        await place.close()
    best, difference = chosen(figures, solver.actions)
    settings = dict(planned.settings)
    if best != solver.actions:
        settings["solver.actions"] = best
    told = [f"actions {one.form} {one.right}/{one.answers}" for one in figures]
    before = [] if planned.measured.startswith("not measured") else [planned.measured]
    profile = planned.model_copy(update={
        "settings": settings, "measured": "; ".join([*before, _note(config), *told]),
    })  # fmt: skip
    return profile, {
        "figures": [
            {**one.model_dump(mode="json"), "tokens_each": one.tokens / one.right if one.right else None}
            for one in figures
        ],
        "differences": {"solver.actions": difference.model_dump(mode="json")},
        "settings": {"solver.actions": best},
    }


def _note(config: EngineConfig) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return f"{today}, {os.cpu_count()} cores {platform.machine()}, {config.kind}"


def _place() -> SandboxPlace:
    # What is asked is plain Python and shell, and has no image of its own.
    return open_place(choose("bwrap").backend, data_root() / "public", label="solve")
