"""How fast an engine was found to be on this machine (``hc-ray engine bench``): what its use in a sweep is held
against."""

import json
import os
from pathlib import Path

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.value import Value, digest_of
from hc_ray.machine.paths import data_root


class Speed(Value):
    """An engine at its knee."""

    knee: int
    """The fewest parallel requests that reach 95 % of the best throughput."""
    completion_tokens_per_second: float
    """At the knee, all requests together."""
    prompt_tokens_per_second: float | None = None
    """Prompts alone, at the knee."""
    measured: str = ""
    """When and where."""

    def seconds(self, prompt_tokens: float, completion_tokens: float) -> float:
        """What the engine needs at its best for so many tokens; prompts cost nothing where their speed is not known."""
        prompts = prompt_tokens / self.prompt_tokens_per_second if self.prompt_tokens_per_second else 0.0
        return prompts + completion_tokens / self.completion_tokens_per_second


def known_speed(engine: EngineConfig) -> Speed | None:
    """What was measured here with this engine; None before its first bench."""
    try:
        return Speed.model_validate(json.loads(_path().read_text())[_key(engine)])
    except (OSError, ValueError, KeyError):
        return None


def keep_speed(engine: EngineConfig, speed: Speed) -> None:
    """Remember a measurement for the sweeps to come."""
    path = _path()
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        known = {}
    known[_key(engine)] = speed.model_dump(mode="json")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(known, indent=1))
    temporary.replace(path)


def _path() -> Path:
    return data_root() / "speeds.json"


def _key(engine: EngineConfig) -> str:
    """Of what decides the speed, apart from the number of parallel requests."""
    return digest_of(engine.model_dump(mode="json", include={"kind", "model", "base_url", "threads"}))[:16]
