"""How fast an engine was found to be on this machine (``hc-ray engine bench``): what its use in a sweep is held
against."""

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.value import Value, digest_of
from hc_ray.machine.whole_files import recall, remember


class Speed(Value):
    """An engine at its knee."""

    knee: int
    """The fewest parallel requests that reach 95 % of the best throughput."""
    completion_tokens_per_second: float
    """Of answers alone, all requests together, at the best concurrency."""
    prompt_tokens_per_second: float | None = None
    """Prompts alone, at the knee."""
    measured: str = ""
    """When and where."""

    def seconds(self, prompt_tokens: float, completion_tokens: float) -> float:
        """What the engine needs at its best for so many tokens; prompts cost nothing where their speed is not known."""
        prompts = prompt_tokens / self.prompt_tokens_per_second if self.prompt_tokens_per_second else 0.0
        return prompts + completion_tokens / self.completion_tokens_per_second


REQUEST_SECONDS = 600.0
"""Time limit of a request to an engine whose speed is not known, and the least of any other's."""
PATIENCE = 3.0
"""How much slower than its bench an engine may be before a request is given up."""


def request_seconds(engine: EngineConfig, context_tokens: int | None = None) -> float:
    """Time limit of one request: what the config says, else what an answer that fills the context would take with
    every slot busy, several times over."""
    if engine.request_sec is not None:
        return engine.request_sec
    speed, tokens = known_speed(engine), engine.context_tokens or context_tokens or 0
    if speed is None:
        return REQUEST_SECONDS
    return max(REQUEST_SECONDS, PATIENCE * engine.parallel * tokens / speed.completion_tokens_per_second)


def known_speed(engine: EngineConfig) -> Speed | None:
    """What was measured here with this engine; None before its first bench."""
    try:
        return Speed.model_validate(recall("speeds", _key(engine)))
    except ValueError:
        return None


def keep_speed(engine: EngineConfig, speed: Speed) -> None:
    """Remember a measurement for the sweeps to come."""
    remember("speeds", _key(engine), speed.model_dump(mode="json"))


def _key(engine: EngineConfig) -> str:
    """Of what decides the speed, apart from the number of parallel requests; and of how it is served and measured, so
    that what an older version did otherwise is measured again."""
    # 4: asked through small pools (``http.Clients``); beyond 64 requests at once the older client was the limit.
    method = 4 if engine.kind in ("openai", "server") else 3
    decides = {"method": method} | engine.model_dump(mode="json", include={"kind", "model", "base_url", "threads"})
    decides["base_url"] = next(iter(engine.urls), None)
    if engine.kind == "server":
        decides |= {"command": engine.command, "gpus": engine.num_gpus}
    return digest_of(decides)[:16]
