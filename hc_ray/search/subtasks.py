"""Where a search stands in its parts: which one is on, whether its checkpoint holds, what became of those before."""

from collections.abc import Sequence

from hc_ray.domain.value import Value
from hc_ray.search.decompose import Ended, Subtask

ATTEMPTS = 3
"""Rounds that a part may take to reach its checkpoint, as far as its turns reach."""


class Reached(Value):
    """What the best of a search has come to, as checkpoints ask."""

    suite: bool = False
    answers: bool = False
    tests: bool = False


class Progress:
    """Walks through the parts of one trial."""

    def __init__(self, parts: Sequence[Subtask], *, turns: int) -> None:
        """``turns``: all that the trial may take; each part's share ends at its part of them."""
        self.parts, self._turns = tuple(parts), turns
        self.ended: list[Ended] = []
        self._since = 0
        self._attempts = 0

    @property
    def now(self) -> Subtask:
        """The part that is on; the last one stays on to the end."""
        return self.parts[min(len(self.ended), len(self.parts) - 1)]

    def holds(self, reached: Reached) -> bool:
        """Whether the checkpoint of the part that is on holds."""
        part = self.now
        if part.checkpoint == "suite":
            return reached.suite
        if part.checkpoint == "answers":
            return reached.answers
        return part.checkpoint == "tests" and reached.tests

    def overdue(self, turns: int) -> bool:
        """Whether the part has used its turns, or its attempts. The last part has all that is left."""
        if self.now.checkpoint == "end":
            return False
        return self._attempts >= ATTEMPTS or (self._attempts > 0 and turns >= self.now.share * self._turns)

    def attempt(self) -> None:
        """A round was spent on the part."""
        self._attempts += 1

    def advance(self, turns: int, *, completed: bool) -> Ended:
        """End the part that is on, and begin the next."""
        ended = Ended(name=self.now.name, status="completed" if completed else "failed", turns=turns - self._since,
                      attempts=self._attempts)  # fmt: skip
        self.ended.append(ended)
        self._since, self._attempts = turns, 0
        return ended

    def all_ended(self, turns: int, *, completed: bool) -> tuple[Ended, ...]:
        """What became of every part when the search has ended: with a complete search the part that was on is
        completed and those after it were not needed; else it has failed, and they were never begun."""
        if len(self.ended) >= len(self.parts):
            return tuple(self.ended)
        last = Ended(name=self.now.name, status="completed" if completed else "failed", turns=turns - self._since,
                     attempts=self._attempts)  # fmt: skip
        rest = [Ended(name=part.name, status="skipped", turns=0, attempts=0)
                for part in self.parts[len(self.ended) + 1 :]]  # fmt: skip
        return (*self.ended, last, *rest)
