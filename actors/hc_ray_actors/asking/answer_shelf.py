"""Answers in a process's memory: equal requests are computed once.

The agents of a task, and the configs of a climb, ask the same prompts with the same seeds for as long as they have done
the same (common random numbers). An engine that honours seeds has one answer to each: computed again, it would cost the
engine's time and differ by the noise of its batches alone."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable

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
    """The last answers, and the requests under way, by what was asked of which model."""

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
