"""Routes a trial's prompts to an engine's replicas, unless an equal request has been answered already."""

import asyncio
import hashlib
import json
import math
from collections.abc import Awaitable, Callable, Sequence

from hc_ray.domain.errors import EngineError
from hc_ray.domain.ports import Model
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray_actors.asking.activity import EngineQueue, TrialActivity

ROOM = 16 << 20
"""Approximate bytes for the kept answers of a process: far more than running trials can ask for again."""
_ENTRY = 4000
"""Overhead of a kept answer in bytes, besides its text."""
_NOT_SENT = {"role", "purpose", "shared", "shared_tokens", "context"}

Answered = tuple[Completion, EngineQueue]
"""An answer, and the queue of the engine that gave it."""


class AnswerShelf:
    """The most recent answers of a process and its running requests, by model and prompt.

    Agents of a task, and configs of a climb, send equal prompts with equal seeds until they diverge (common random
    numbers). An engine that honours seeds has one answer to each: computing it again would cost engine time, and could
    differ only by batching noise."""

    def __init__(self, room: int = ROOM) -> None:
        self._room, self._taken = room, 0
        self._requests: dict[bytes, asyncio.Future[Answered | None]] = {}
        """The result is None if the caller that sent the request was cancelled; the next one sends it again."""

    async def obtain(
        self, model: str, prompt: Prompt, trial: TrialActivity, ask: Callable[[], Awaitable[Answered]]
    ) -> Completion:
        """A model's answer to a prompt: that of an equal request, or the result of ``ask``. ``model`` is a role's
        digest. While a trial waits for another trial's request, all its time counts as queued. If ``ask`` raises, so do
        all callers that wait for it."""
        key = _key(model, prompt)
        while (request := self._requests.pop(key, None)) is not None:
            self._requests[key] = request  # most recently used last
            with trial.at("engine"):
                await asyncio.wait([request])  # cancelling this wait leaves the request to the others
            if (answered := request.result()) is not None:
                answer, queue = answered
                queue.account.reuse(answer)
                return answer
        request = self._requests[key] = asyncio.get_running_loop().create_future()
        request.add_done_callback(lambda made: made.exception())  # retrieve it, since nobody may be waiting
        try:
            answered = await ask()
        except Exception as fault:
            del self._requests[key]
            request.set_exception(fault)
            raise
        except BaseException:
            del self._requests[key]
            request.set_result(None)
            raise
        request.set_result(answered)
        self._taken += _size(answered[0])
        self._make_room()
        return answered[0]

    def _make_room(self) -> None:
        while self._taken > self._room:
            oldest = next(key for key, request in self._requests.items() if request.done())
            answered = self._requests.pop(oldest).result()
            self._taken -= _size(answered[0]) if answered else 0


def _key(model: str, prompt: Prompt) -> bytes:
    # Do not sort keys: the order of a schema's properties is part of the request.
    asked = json.dumps([model, prompt.model_dump(exclude=_NOT_SENT)], ensure_ascii=False)
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).digest()


def _size(answer: Completion) -> int:
    called = sum(len(call.arguments) for call in answer.tool_calls)
    return _ENTRY + len(answer.text) + len(answer.reasoning) + called


Replica = tuple[Model, EngineQueue]


class Meter:
    """``ports.Model`` of one trial over an engine's replicas: a request waits for a slot of its task's replica. If a
    replica fails, the same prompt goes to another, so that the trial stays the same."""

    def __init__(
        self,
        replicas: Callable[[], Sequence[Replica]],
        activity: TrialActivity,
        task: str = "",
        shelf: Callable[[], tuple[AnswerShelf, str] | None] = lambda: None,
    ) -> None:
        """``replicas`` lists those that are up, for each request; ``task``: the digest that decides between them;
        ``shelf``: the shelf of answers and the model's key in it, or None to send every request."""
        self._replicas, self._activity, self._task, self._shelf = replicas, activity, task, shelf

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt. A reused answer is charged at its original cost."""
        if (shelf := self._shelf()) is None:
            return (await self._ask(prompt))[0]
        answers, model = shelf
        return await answers.obtain(model, prompt, self._activity, lambda: self._ask(prompt))

    async def _ask(self, prompt: Prompt) -> Answered:
        tokens, asked = asked_tokens(prompt), set[int]()
        while True:
            model, queue = self._chosen()
            try:
                async with queue.slot(self._activity, tokens):
                    began = self._activity.now()
                    answer = await model.complete(prompt)
                break
            except EngineError:
                queue.failed()
                asked.add(id(queue))
                if all(id(other) in asked or other.shunned for _, other in self._replicas()):
                    raise
        read, written = answer.prompt_tokens or 0, answer.completion_tokens or 0
        queue.account.answered(read, answer.cached_tokens or 0, written, self._activity.now() - began)
        return answer, queue

    def _chosen(self) -> Replica:
        replicas = self._replicas()
        return chosen(self._task, [one for one in replicas if not one[1].shunned] or replicas)

    async def count_tokens(self, text: str) -> int:
        return await self._chosen()[0].count_tokens(text)


def chosen(task_digest: str, replicas: Sequence[Replica], *, factor: float = 1.25) -> Replica:
    """The replica for a task's prompts, by consistent hashing with bounded loads (Mirrokni et al. 2016). All candidates
    of a task share one replica's prefix cache, even if others come and go, unless its load in tokens exceeds
    ``factor`` × the mean."""
    bound = math.ceil(factor * (sum(queue.outstanding for _, queue in replicas) + 1) / len(replicas))

    def rank(one: Replica) -> bytes:
        return hashlib.sha256(f"{task_digest}:{one[1].name}".encode()).digest()

    return next(one for one in sorted(replicas, key=rank, reverse=True) if one[1].outstanding < bound)


def asked_tokens(prompt: Prompt) -> int:
    """The most tokens that a request can cost: the prompt, at three characters per token, plus the longest answer."""
    texts = [prompt.text or "", *(message.content for message in prompt.messages)]
    return sum(map(len, texts)) // 3 + prompt.max_tokens
