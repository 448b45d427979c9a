"""How fast an engine was found to be on this machine (``hc-ray engine bench``), which its use in a sweep is held
against; and how that is found out: by a closed loop at rising concurrency, until the throughput grows no more."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import EngineError
from hc_ray.domain.ports import Model
from hc_ray.domain.prompt import Completion, Message, Prompt
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


_ASKED = "# A function that {does} of a list of numbers, with a short comment above each line.\ndef solve(numbers):\n"
_DOES = ("returns the sum", "returns the mean", "finds the largest", "finds the smallest", "counts the even ones")
_Answers = list[tuple[float, Completion]]
"""With the second in which each was asked."""
GAIN = 1.05
"""What more requests at once must give, for still more to be tried."""


class Level(Value):
    """What was seen at one concurrency."""

    concurrency: int
    output_tokens_per_second: float
    prompt_tokens_per_second: float
    """Read meanwhile."""
    p95_seconds: float
    """Of one request."""


async def find_knee(
    model: Model,
    *,
    levels: Sequence[int] = (1, 2, 4, 8, 16),
    surely: int | None = None,
    seconds: float = 10.0,
    max_tokens: int = 64,
    chat: bool = False,
) -> tuple[list[Level], Speed]:
    """The curve, and the engine's speed at its knee, the smallest concurrency that reaches 95 % of the peak.

    Keeps ``concurrency`` requests in flight for ``seconds`` at every level; after the first ``surely`` of them only
    as long as a level gains. The model must let so many through, and an embedded server must have so many slots.
    ``chat``: ask in that form, not for completions. Raises ``EngineError`` when the server fails or counts no tokens.
    """
    await model.complete(_prompt(0, 8, chat))  # the first request pays for what is loaded lazily
    seen: list[Level] = []
    rates: dict[int, float] = {}
    for concurrency in sorted(set(levels)):
        best = max(rates.values(), default=0.0)
        seen.append(level := await _measure(model, concurrency, seconds, max_tokens, chat))
        rates[concurrency] = level.output_tokens_per_second
        if surely is not None and len(seen) > surely and rates[concurrency] < GAIN * best:
            break
    knee = min(concurrency for concurrency, rate in rates.items() if rate >= 0.95 * max(rates.values()))
    peak = max(seen, key=lambda level: level.output_tokens_per_second)
    prefill = await _prefill(model, knee, seconds, chat)
    # Where reading overlaps with writing, as on a GPU, at most half of the time counts as spent on it.
    reading = min(0.5, peak.prompt_tokens_per_second / prefill)
    answers = peak.output_tokens_per_second / (1 - reading)
    return seen, Speed(knee=knee, completion_tokens_per_second=answers, prompt_tokens_per_second=prefill)


def _prompt(number: int, max_tokens: int, chat: bool, about: str = "") -> Prompt:
    """No two are alike from their first line on, so that no cache knows one."""
    text = f"# {number}\n" + about + _ASKED.format(does=_DOES[number % len(_DOES)])
    return Prompt(
        role="solver",
        purpose="bench",
        messages=(Message(role="user", content=text),) if chat else (),
        text=None if chat else text,
        max_tokens=max_tokens,
        temperature=0.7,
        seed=number,
    )


async def _prefill(model: Model, concurrency: int, seconds: float, chat: bool) -> float:
    """Prompt tokens a second, of prompts that are answered with one token. A server may read them one after another, so
    that one which waits is no part read: what counts is the time until the last was answered."""

    def prompt(number: int) -> Prompt:
        return _prompt(number, 1, chat, "".join(f"# {line}: {number * line}\n" for line in range(12)))

    answers, ended = await _closed_loop(model, concurrency, seconds, prompt)
    return _rate(answers, "prompt_tokens", ended)


async def _measure(model: Model, concurrency: int, seconds: float, max_tokens: int, chat: bool) -> Level:
    answers, _ = await _closed_loop(model, concurrency, seconds, lambda number: _prompt(number, max_tokens, chat))
    spans = sorted(answer.seconds for _, answer in answers)
    return Level(
        concurrency=concurrency,
        output_tokens_per_second=_rate(answers, "completion_tokens", seconds),
        prompt_tokens_per_second=_rate(answers, "prompt_tokens", seconds),
        p95_seconds=spans[min(len(spans) - 1, int(0.95 * len(spans)))],
    )


async def _closed_loop(
    model: Model, concurrency: int, seconds: float, prompt: Callable[[int], Prompt]
) -> tuple[_Answers, float]:
    """Answers with the second in which each was asked, and the second in which the last one came. For ``seconds`` all
    of ``concurrency`` are at work."""
    started = time.monotonic()
    answers: _Answers = []

    async def work(worker: int) -> None:
        asked = 0
        while (began := time.monotonic() - started) < seconds:
            answer = await model.complete(prompt(worker * 1000 + asked))
            answers.append((began, answer.model_copy(update={"seconds": time.monotonic() - started - began})))
            asked += 1

    await asyncio.gather(*(work(worker) for worker in range(concurrency)))
    return answers, time.monotonic() - started


def _rate(answers: _Answers, field: Literal["prompt_tokens", "completion_tokens"], ended: float) -> float:
    """Tokens a second up to ``ended``: of an answer that was not over then a part."""
    total = 0.0
    for began, answer in answers:
        tokens = getattr(answer, field)
        if tokens is None:
            raise EngineError("the engine reports no token counts, so its throughput cannot be measured")
        total += tokens * (min(1.0, (ended - began) / answer.seconds) if answer.seconds else 1.0)
    return total / ended
