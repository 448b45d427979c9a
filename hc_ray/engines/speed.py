"""An engine's speed on this machine, against which its use in a sweep is compared, and its measurement (``hc-ray engine
bench``): a closed loop at rising concurrency, until throughput stops growing."""

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
    """An engine's speed at its knee."""

    knee: int
    """The fewest parallel requests that reach 95 % of the best throughput."""
    completion_tokens_per_second: float
    """Completions only, over all requests, at the best concurrency."""
    prompt_tokens_per_second: float | None = None
    """Prompts only, at the knee."""
    measured: str = ""
    """When and where."""

    def seconds(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Seconds that the engine needs at best for these tokens; prompts cost nothing if their speed is unknown."""
        prompts = prompt_tokens / self.prompt_tokens_per_second if self.prompt_tokens_per_second else 0.0
        return prompts + completion_tokens / self.completion_tokens_per_second


REQUEST_SECONDS = 600.0
"""Time limit in seconds of a request if the engine's speed is unknown, and the minimum otherwise."""
PATIENCE = 3.0
"""A request is given up if the engine is this many times slower than in its bench."""


def request_seconds(engine: EngineConfig, context_tokens: int | None = None) -> float:
    """Time limit of one request in seconds: the config's, or else several times the duration of an answer that fills
    the context while every slot is busy."""
    if engine.request_sec is not None:
        return engine.request_sec
    speed, tokens = known_speed(engine), engine.context_tokens or context_tokens or 0
    if speed is None:
        return REQUEST_SECONDS
    return max(REQUEST_SECONDS, PATIENCE * engine.parallel * tokens / speed.completion_tokens_per_second)


def known_speed(engine: EngineConfig) -> Speed | None:
    """This engine's speed as measured on this machine; None before its first bench."""
    try:
        return Speed.model_validate(recall("speeds", _key(engine)))
    except ValueError:
        return None


def keep_speed(engine: EngineConfig, speed: Speed) -> None:
    """Store a measurement for later sweeps."""
    remember("speeds", _key(engine), speed.model_dump(mode="json"))


def _key(engine: EngineConfig) -> str:
    """A key of everything that determines the speed, except the number of parallel requests, and of the version of the
    measurement."""
    # 4: measured through small pools (``http.Clients``); the older client limited speed beyond 64 parallel requests.
    method = 4 if engine.kind in ("openai", "server") else 3
    decides = {"method": method} | engine.model_dump(mode="json", include={"kind", "model", "base_url", "threads"})
    decides["base_url"] = next(iter(engine.urls), None)
    if engine.kind == "server":
        decides |= {"command": engine.command, "gpus": engine.num_gpus}
    return digest_of(decides)[:16]


_ASKED = "# A function that {does} of a list of numbers, with a short comment above each line.\ndef solve(numbers):\n"
_DOES = ("returns the sum", "returns the mean", "finds the largest", "finds the smallest", "counts the even ones")
_Answers = list[tuple[float, Completion]]
"""Answers, each with the time of its request in seconds."""
GAIN = 1.05
"""The least gain from one level to the next for which a further level is tried."""


class Level(Value):
    """The measurement at one level of concurrency."""

    concurrency: int
    output_tokens_per_second: float
    prompt_tokens_per_second: float
    """Read meanwhile."""
    p95_seconds: float
    """95th percentile of a request's duration."""


async def find_knee(
    model: Model,
    *,
    levels: Sequence[int] = (1, 2, 4, 8, 16),
    surely: int | None = None,
    seconds: float = 10.0,
    max_tokens: int = 64,
    chat: bool = False,
) -> tuple[list[Level], Speed]:
    """The throughput curve, and the speed at the knee, the smallest concurrency that reaches 95 % of the peak.

    Keeps each level's number of requests running for ``seconds``; beyond the first ``surely`` levels only while a level
    gains. The model and an embedded server's slots must allow that many. ``chat``: use chat prompts, not completions.
    Raises ``EngineError`` if the server fails or counts no tokens."""
    await model.complete(_prompt(0, 8, chat))  # warm up: the first request pays for lazy loading
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
    # If prompts and completions overlap, as on a GPU, at most half of the time counts for prompts.
    reading = min(0.5, peak.prompt_tokens_per_second / prefill)
    answers = peak.output_tokens_per_second / (1 - reading)
    return seen, Speed(knee=knee, completion_tokens_per_second=answers, prompt_tokens_per_second=prefill)


def _prompt(number: int, max_tokens: int, chat: bool, about: str = "") -> Prompt:
    """A prompt that differs from all others from its first line on, so that no cache hits."""
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
    """Prompt tokens per second, measured with one-token answers. A server may process prompts one after another, so the
    rate is taken up to the last answer."""

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
    """Keep ``concurrency`` requests running for ``seconds``. Returns the answers, each with its request's time, and the
    time of the last answer."""
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
    """Tokens per second up to ``ended``, counting a part of answers that were not finished by then."""
    total = 0.0
    for began, answer in answers:
        tokens = getattr(answer, field)
        if tokens is None:
            raise EngineError("the engine reports no token counts, so its throughput cannot be measured")
        total += tokens * (min(1.0, (ended - began) / answer.seconds) if answer.seconds else 1.0)
    return total / ended
