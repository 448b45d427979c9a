"""A trial's way to an engine's replicas: which of them is asked, and whether it must be."""

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
"""Bytes that the kept answers of a process take, about: far more than the trials under way can ask for again."""
_ENTRY = 4000
"""Bytes that an answer takes beside its text."""
_NOT_SENT = {"role", "purpose", "shared", "shared_tokens", "context"}

Answered = tuple[Completion, EngineQueue]
"""An answer, and before which engine its request stood."""


class AnswerShelf:
    """The last answers of a process, and the requests under way, by what was asked of which model.

    The agents of a task, and the configs of a climb, ask the same prompts with the same seeds for as long as they have
    done the same (common random numbers). An engine that honours seeds has one answer to each: computed again, it would
    cost the engine's time and differ by the noise of its batches alone."""

    def __init__(self, room: int = ROOM) -> None:
        self._room, self._taken = room, 0
        self._requests: dict[bytes, asyncio.Future[Answered | None]] = {}
        """None: whoever asked was ended, and the next that wants the answer asks."""

    async def obtain(
        self, model: str, prompt: Prompt, trial: TrialActivity, ask: Callable[[], Awaitable[Answered]]
    ) -> Completion:
        """The answer of a model to a prompt: that of an equal request, or what ``ask`` comes to. ``model``: a role's
        digest. A trial that waits for another one's request stands in a queue all the time: nobody works for it. Raises
        what ``ask`` raises, for all that wait."""
        key = _key(model, prompt)
        while (request := self._requests.pop(key, None)) is not None:
            self._requests[key] = request  # the last used stand last
            with trial.at("engine"):
                await asyncio.wait([request])  # its cancellation leaves the request to the others
            if (answered := request.result()) is not None:
                answer, queue = answered
                queue.account.reuse(answer)
                return answer
        request = self._requests[key] = asyncio.get_running_loop().create_future()
        request.add_done_callback(lambda made: made.exception())  # nobody else may be there to be told
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
    # Keys stay in their order: that of a schema's properties is part of what a server is sent.
    asked = json.dumps([model, prompt.model_dump(exclude=_NOT_SENT)], ensure_ascii=False)
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).digest()


def _size(answer: Completion) -> int:
    called = sum(len(call.arguments) for call in answer.tool_calls)
    return _ENTRY + len(answer.text) + len(answer.reasoning) + called


Replica = tuple[Model, EngineQueue]


class Meter:
    """``ports.Model`` of one trial over an engine's replicas: a request waits for a slot of the one that the task's
    prompts go to. What a replica fails to answer, another one is asked: the same prompt, so that the answer is that of
    the same trial."""

    def __init__(
        self,
        replicas: Callable[[], Sequence[Replica]],
        activity: TrialActivity,
        task: str = "",
        shelf: Callable[[], tuple[AnswerShelf, str] | None] = lambda: None,
    ) -> None:
        """``replicas`` tells those that are up, at each request; ``task``: the digest that decides which is asked;
        ``shelf``: where answers to equal requests are, and the name there of the model asked; None: each is asked."""
        self._replicas, self._activity, self._task, self._shelf = replicas, activity, task, shelf

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt. An answer that another trial's equal request came to costs what it cost there."""
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
    """Which replica of an engine a task's prompts go to: consistent hashing with bounded loads (Mirrokni et al. 2016).
    All candidates of a task share one replica's prefix cache, whichever others come and go, unless that has more than
    ``factor`` × the mean load in hand, in tokens."""
    bound = math.ceil(factor * (sum(queue.outstanding for _, queue in replicas) + 1) / len(replicas))

    def rank(one: Replica) -> bytes:
        return hashlib.sha256(f"{task_digest}:{one[1].name}".encode()).digest()

    return next(one for one in sorted(replicas, key=rank, reverse=True) if one[1].outstanding < bound)


def asked_tokens(prompt: Prompt) -> int:
    """Tokens that a request may take of its engine: those of the prompt, at three characters each, and of the longest
    answer."""
    texts = [prompt.text or "", *(message.content for message in prompt.messages)]
    return sum(map(len, texts)) // 3 + prompt.max_tokens
