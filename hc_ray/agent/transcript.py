"""The message history of one lineage. It only grows, so that each prompt starts with the previous one and hits a
server's prefix cache. Near the context's end, old outputs are dropped all at once; if that is not enough, the model
summarises its work and continues from its notes. The task and the last turns are always kept."""

from collections.abc import Sequence
from itertools import chain

from hc_ray.domain.prompt import Message, ToolCall

KEPT_TURNS = 4
"""The most recent turns, which no compaction touches."""
_FULL, _ROOM = 0.75, 0.5
"""Shares of the context: compaction starts above the first and continues down to the second."""
_STUBBED = 400
"""The least size in characters of an old output worth dropping."""
_CHARACTERS_A_TOKEN = 3.2
"""Characters per token before the server's first count."""
_CUT = 0.95
"""A continued prompt has more tokens than the previous one; a count below this share of it shows that it was cut."""
_LONGEST_TOKEN = 20
"""More characters per token than any tokenizer reaches on average."""
_STUB = "(The output of this step was left out to save context. Repeat the command if you need it.)"


class Transcript:
    """``room``: maximum tokens of a prompt."""

    def __init__(self, system: str, task: str, *, room: int) -> None:
        self.room = room
        self._system, self._task = system, task
        self._notes = ""
        self._turns: list[tuple[Message, ...]] = []
        """Turns: an answer and its results, as one ``user`` message or one ``tool`` message per call."""
        self._counted: tuple[int, int] | None = None
        """The server's token count of a prompt, and that prompt's length in characters."""
        self._sent = ""
        self._extends = False
        self.compactions = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        task = self._task
        if self._notes:
            task += f"\n\nYou have worked on this before. Your notes on that work:\n\n{self._notes}"
        opening = (Message(role="system", content=self._system), Message(role="user", content=task))
        return (*opening, *chain(*self._turns))

    def ended_by(self, question: str) -> tuple[Message, ...]:
        """The messages with a question, if any, appended to the last message, so that roles alternate."""
        *before, last = self.messages
        if not question:
            return (*before, last)
        if last.role != "user":
            return (*before, last, Message(role="user", content=question))
        return (*before, last.model_copy(update={"content": f"{last.content}\n\n{question}"}))

    def add(self, answer: str, observation: str) -> None:
        self._turns.append(
            (Message(role="assistant", content=answer or "(no answer)"), Message(role="user", content=observation))
        )

    def add_calls(self, answer: str, calls: Sequence[ToolCall], results: Sequence[str], observation: str) -> None:
        """Add a turn of native tool calls. ``observation`` (the remaining budget) is appended to the last result."""
        told = [Message(role="tool", content=result, tool_call_id=call.id)
                for call, result in zip(calls, results, strict=True)]  # fmt: skip
        self._turns.append((Message(role="assistant", content=answer, tool_calls=tuple(calls)), *told))
        self.tell(observation)

    def tell(self, text: str) -> None:
        """Append to the last message to the model, for example feedback after a submission."""
        *before, last = self._turns[-1]
        more = last.model_copy(update={"content": f"{last.content}\n\n{text}"})
        self._turns[-1] = (*before, more)

    def counted(self, tokens: int | None) -> bool:
        """Take the server's token count of the last prompt; returns False, and reduces the room, if the count shows
        that the server silently cut off the prompt's beginning."""
        if not tokens:
            return True
        before = self._counted[0] if self._counted and self._extends else 0
        if tokens < before * _CUT or tokens * _LONGEST_TOKEN < len(self._sent):
            self.room = min(self.room, tokens)
            self._counted = None
            return False
        self._counted = (tokens, len(self._sent))
        return True

    @property
    def shared_tokens(self) -> int | None:
        """The server's token count of the previous prompt, if the last one starts with all of it."""
        return self._counted[0] if self._counted and self._extends else None

    def sent(self, more: int = 0) -> float:
        """Note that the prompt is sent, with ``more`` characters at its end; returns the share of its characters that
        it has in common with the previous one."""
        text = _text(self.messages)
        before, self._sent = self._sent, text
        self._extends = bool(before) and text.startswith(before)
        differs = (i for i, (a, b) in enumerate(zip(before, text, strict=False)) if a != b)
        same = len(before) if self._extends else next(differs, len(text) if before else 0)
        return same / (len(text) + more)

    @property
    def tokens(self) -> int:
        """Estimated tokens of the prompt."""
        size = len(_text(self.messages))
        if self._counted is None:
            return int(size / _CHARACTERS_A_TOKEN)
        tokens, characters = self._counted
        rate = max(_CHARACTERS_A_TOKEN / 2, characters / max(1, tokens)) if characters > 2000 else _CHARACTERS_A_TOKEN
        return tokens + int((size - characters) / rate)

    @property
    def full(self) -> bool:
        return self.tokens > _FULL * self.room

    def drop_outputs(self) -> bool:
        """Drop the outputs of all but the last turns; returns whether there is room again."""
        early = max(0, len(self._turns) - KEPT_TURNS)
        for i, (answer, *told) in enumerate(self._turns[:early]):
            kept = [one if len(one.whole) < _STUBBED else one.model_copy(update={"content": _STUB}) for one in told]
            self._turns[i] = (answer, *kept)
        self.compactions += 1
        return self.tokens <= _ROOM * self.room

    def summarised(self, notes: str) -> bool:
        """Replace all but the last turns by the model's notes; returns whether there is room again."""
        self._notes = notes.strip()
        del self._turns[: max(0, len(self._turns) - KEPT_TURNS)]
        while self.tokens > _FULL * self.room and len(self._turns) > 1:
            del self._turns[0]
        return self.tokens <= _FULL * self.room


def _text(messages: Sequence[Message]) -> str:
    return "\0".join(f"{one.role}\n{one.whole}" for one in messages)
