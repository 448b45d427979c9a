"""A trial's way to an engine's replicas: which of them is asked."""

import hashlib
import math
from collections.abc import Callable, Sequence

from hc_ray.domain.errors import EngineError
from hc_ray.domain.ports import Model
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray_actors.asking.activity import EngineQueue, TrialActivity
from hc_ray_actors.asking.answer_shelf import Answered, AnswerShelf

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
                if all(id(other) in asked or other.draining or other.shunned for _, other in self._replicas()):
                    raise
        read, written = answer.prompt_tokens or 0, answer.completion_tokens or 0
        queue.account.answered(read, answer.cached_tokens or 0, written, self._activity.now() - began)
        return answer, queue

    def _chosen(self) -> Replica:
        replicas = self._replicas()
        taking = [None if queue.draining else queue.outstanding for _, queue in replicas]
        well = [None if queue.shunned else load for load, (_, queue) in zip(taking, replicas, strict=True)]
        return replicas[replica(self._task, taking if well.count(None) == len(well) else well)]

    async def count_tokens(self, text: str) -> int:
        return await self._chosen()[0].count_tokens(text)


def replica(task_digest: str, loads: Sequence[int | None], *, factor: float = 1.25) -> int:
    """Which replica of an engine a task's prompts go to: consistent hashing with bounded loads (Mirrokni et al. 2016).
    All candidates of a task share one replica's prefix cache, unless that has more than ``factor`` × the mean load in
    hand, in tokens. None in ``loads`` is a replica that takes nothing. Raises ``EngineError`` where no other is
    left."""
    able = {index: load for index, load in enumerate(loads) if load is not None}
    if not able:
        raise EngineError("no replica of the engine takes requests any more")
    bound = math.ceil(factor * (sum(able.values()) + 1) / len(able))
    ranked = sorted(able, key=lambda index: hashlib.sha256(f"{task_digest}:{index}".encode()).digest(), reverse=True)
    return next(index for index in ranked if able[index] < bound)


def asked_tokens(prompt: Prompt) -> int:
    """Tokens that a request may take of its engine: those of the prompt, at three characters each, and of the longest
    answer."""
    texts = [prompt.text or "", *(message.content for message in prompt.messages)]
    return sum(map(len, texts)) // 3 + prompt.max_tokens
