"""The message history of one lineage: it only grows, so that each prompt begins with the one before it and a server's
prefix cache holds. Near the end of the context, old outputs are dropped in one go; where that is not enough, the model
sums up its work and goes on from its notes. What is kept whatever happens: the task, and the last turns."""

from collections.abc import Sequence
from itertools import chain

from hc_ray.domain.prompt import Message, ToolCall

KEPT_TURNS = 4
"""Turns at the end that no compaction touches."""
_FULL, _ROOM = 0.75, 0.5
"""Shares of the context: compaction begins beyond the first and goes on down to the second."""
_STUBBED = 400
"""Characters from which an old output is worth dropping."""
_CHARACTERS_A_TOKEN = 3.2
"""Where the server has not counted yet."""
_CUT = 0.95
"""A prompt that goes on from another has more tokens; one with fewer than this share of them was cut."""
_LONGEST_TOKEN = 20
"""Characters of a token, on average, that no tokenizer reaches."""
_STUB = "(The output of this step was left out to save context. Repeat the command if you need it.)"


class Transcript:
    """``room``: tokens that a prompt may have."""

    def __init__(self, system: str, task: str, *, room: int) -> None:
        self.room = room
        self._system, self._task = system, task
        self._notes = ""
        self._turns: list[tuple[Message, ...]] = []
        """Each an answer and what came of it: one ``user`` message, or a ``tool`` message a call."""
        self._counted: tuple[int, int] | None = None
        """Tokens that the server counted for a prompt, and that prompt's characters."""
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
        """The messages with a question of ours, if there is one, at the end of what was told last, so that roles
        alternate."""
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
        """A turn of native tool calls. ``observation`` (what is left to spend) ends the last result."""
        told = [Message(role="tool", content=result, tool_call_id=call.id)
                for call, result in zip(calls, results, strict=True)]  # fmt: skip
        self._turns.append((Message(role="assistant", content=answer, tool_calls=tuple(calls)), *told))
        self.tell(observation)

    def tell(self, text: str) -> None:
        """Add to the last thing that the model is told, such as what is found after it has submitted."""
        *before, last = self._turns[-1]
        more = last.model_copy(update={"content": f"{last.content}\n\n{text}"})
        self._turns[-1] = (*before, more)

    def counted(self, tokens: int | None) -> bool:
        """The server's own count of the prompt that was sent last; False where it shows that the server has cut the
        prompt's beginning off, as some do in silence: there is less room then."""
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
        """What the server counted for the prompt before, where the one that was sent last begins with all of it."""
        return self._counted[0] if self._counted and self._extends else None

    def sent(self, more: int = 0) -> float:
        """The prompt is sent now, with so many characters more at its end: the share of them all with which the one
        before began."""
        text = _text(self.messages)
        before, self._sent = self._sent, text
        self._extends = bool(before) and text.startswith(before)
        differs = (i for i, (a, b) in enumerate(zip(before, text, strict=False)) if a != b)
        same = len(before) if self._extends else next(differs, len(text) if before else 0)
        return same / (len(text) + more)

    @property
    def tokens(self) -> int:
        """About how many tokens the prompt has."""
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
        """Leave out the outputs of all turns but the last; whether there is room again."""
        early = max(0, len(self._turns) - KEPT_TURNS)
        for i, (answer, *told) in enumerate(self._turns[:early]):
            kept = [one if len(one.whole) < _STUBBED else one.model_copy(update={"content": _STUB}) for one in told]
            self._turns[i] = (answer, *kept)
        self.compactions += 1
        return self.tokens <= _ROOM * self.room

    def summarised(self, notes: str) -> bool:
        """Put the model's notes in the place of all turns but the last; whether there is room again."""
        self._notes = notes.strip()
        del self._turns[: max(0, len(self._turns) - KEPT_TURNS)]
        while self.tokens > _FULL * self.room and len(self._turns) > 1:
            del self._turns[0]
        return self.tokens <= _FULL * self.room


def _text(messages: Sequence[Message]) -> str:
    return "\0".join(f"{one.role}\n{one.whole}" for one in messages)
