"""Where an engine's throughput stops growing: a closed loop at rising concurrency."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal

from hc_ray.domain.errors import EngineError
from hc_ray.domain.ports import Model
from hc_ray.domain.prompt import Completion, Message, Prompt
from hc_ray.domain.value import Value
from hc_ray.engines.speed import Speed

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
