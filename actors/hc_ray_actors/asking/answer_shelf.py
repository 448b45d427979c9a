"""Answers in a process's memory: equal requests are computed once.

The agents of a task, and the configs of a climb, ask the same prompts with the same seeds for as long as they have done
the same (common random numbers). An engine that honours seeds has one answer to each: computed again, it would cost the
engine's time and differ by the noise of its batches alone."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable

from hc_ray.domain.prompt import Completion, Prompt
from hc_ray_actors.asking.activity import EngineQueue, Operation, TrialActivity

ROOM = 16 << 20
"""Bytes that the kept answers of a process take, about: far more than the trials under way can ask for again."""
_ENTRY = 4000
"""Bytes that an answer takes beside its text."""
_NOT_SENT = {"role", "purpose", "shared", "shared_tokens", "context"}


class Request:
    """One request to an engine, and all trials that wait for its answer."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Completion | None] = asyncio.get_running_loop().create_future()
        """None: whoever asked was ended, and the next that wants the answer asks."""
        self.answer.add_done_callback(lambda made: made.exception())  # nobody else may be there to be told
        self._queue: EngineQueue | None = None
        self._started: float | None = None
        self._operations: list[Operation] = []

    def begin(self, queue: EngineQueue, now: float) -> None:
        """The engine behind a queue has it now."""
        self._queue = queue
        self._start(now)

    def lost(self) -> None:
        """That engine failed, and it waits for another."""
        self._start(None)

    def _start(self, now: float | None) -> None:
        self._started = now
        for operation in self._operations:
            operation.started = now

    async def joined(self, trial: TrialActivity) -> Completion | None:
        """Its answer, for one more trial. Until an engine has the request that trial stands in a queue, and so it did
        all the time where the request comes to nothing."""
        with trial.at("engine") as operation:
            operation.started = self._started
            self._operations.append(operation)
            try:
                await asyncio.wait([self.answer])  # its cancellation leaves the request to the others
                if (answer := self.answer.result()) is None:
                    operation.started = None
            finally:
                self._operations.remove(operation)
        if answer is not None and self._queue is not None:
            self._queue.account.reuse(answer)
        return answer


class AnswerShelf:
    """The last answers, and the requests under way, by what was asked of which model."""

    def __init__(self, room: int = ROOM) -> None:
        self._room, self._taken = room, 0
        self._requests: dict[bytes, Request] = {}

    async def obtain(
        self, model: str, prompt: Prompt, trial: TrialActivity, ask: Callable[[Request], Awaitable[Completion]]
    ) -> Completion:
        """The answer of a model to a prompt: that of an equal request, or what ``ask`` comes to. ``model``: a role's
        digest. Raises what ``ask`` raises, for all that wait."""
        key = _key(model, prompt)
        while (request := self._requests.pop(key, None)) is not None:
            self._requests[key] = request  # the last used stand last
            if (answer := await request.joined(trial)) is not None:
                return answer
        request = self._requests[key] = Request()
        try:
            answer = await ask(request)
        except Exception as fault:
            del self._requests[key]
            request.answer.set_exception(fault)
            raise
        except BaseException:
            del self._requests[key]
            request.answer.set_result(None)
            raise
        request.answer.set_result(answer)
        self._taken += _size(answer)
        self._make_room()
        return answer

    def _make_room(self) -> None:
        while self._taken > self._room:
            oldest = next(key for key, request in self._requests.items() if request.answer.done())
            answer = self._requests.pop(oldest).answer.result()
            self._taken -= _size(answer) if answer else 0


def _key(model: str, prompt: Prompt) -> bytes:
    # Keys stay in their order: that of a schema's properties is part of what a server is sent.
    asked = json.dumps([model, prompt.model_dump(exclude=_NOT_SENT)], ensure_ascii=False)
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).digest()


def _size(answer: Completion) -> int:
    called = sum(len(call.arguments) for call in answer.tool_calls)
    return _ENTRY + len(answer.text) + len(answer.reasoning) + called
