"""What becomes of an engine's slots."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from hc_ray.domain.events import EngineUse, Waited
from hc_ray.domain.prompt import Completion

Doing = Literal["engine", "sandbox", "verdict", "decision"]
"""What a trial is at."""


@dataclass
class Account:
    """What became of an engine's slots over some time, and what it answered."""

    seconds: float = 0.0
    busy: float = 0.0
    queued: float = 0.0
    waited: dict[Waited, float] = field(default_factory=dict)
    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reused: int = 0
    reused_tokens: int = 0
    across: list[tuple[float, float, int, int]] = field(default_factory=list)
    """Answers to requests that began before this account did: when they came by this account's own seconds, how long
    they took, their prompts' tokens beyond the cache, and their own."""

    def add(self, seconds: float, busy: int, waiting: int, slots: int, doing: Counter[Doing]) -> None:
        """So many seconds in which nothing changed. A free slot waits for what the trials do that ask nothing; where
        all of them ask, there are too few."""
        self.seconds += seconds
        self.busy += busy * seconds
        self.queued += waiting * seconds
        free = (slots - busy) * seconds
        if not free:
            return
        elsewhere: dict[Waited, int] = {
            "sandbox": doing["sandbox"], "verdict": doing["verdict"], "decision": doing["decision"],
        }  # fmt: skip
        elsewhere = {what: count for what, count in elsewhere.items() if count}
        if not elsewhere:
            elsewhere = {"requests" if doing["engine"] else "trials": 1}
        for what, count in elsewhere.items():
            self.waited[what] = self.waited.get(what, 0.0) + free * count / sum(elsewhere.values())

    def answered(self, prompt_tokens: int, cached_tokens: int, completion_tokens: int, seconds: float) -> None:
        """An answer that took so many seconds came just now."""
        if seconds > self.seconds:
            self.across.append((self.seconds, seconds, prompt_tokens - cached_tokens, completion_tokens))
        self.requests += 1
        self.prompt_tokens += prompt_tokens
        self.cached_tokens += cached_tokens
        self.completion_tokens += completion_tokens

    def reuse(self, answer: Completion) -> None:
        """A request got the answer to an earlier one that was equal."""
        self.reused += 1
        self.reused_tokens += answer.tokens

    def told(self, engine: str, slots: int) -> EngineUse:
        return EngineUse(
            engine=engine,
            slots=slots,
            seconds=round(self.seconds, 3),
            busy=round(self.busy, 3),
            queued=round(self.queued, 3),
            waited={what: round(seconds, 3) for what, seconds in sorted(self.waited.items()) if seconds},
            requests=self.requests,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            completion_tokens=self.completion_tokens,
            reused=self.reused,
            reused_tokens=self.reused_tokens,
            across=tuple(
                (round(self.seconds - came, 3), round(took, 3), prompt, written)
                for came, took, prompt, written in self.across
            ),
        )
