"""Agents and selectors as a user writes them, good and bad."""

import sys
from collections.abc import Sequence

from hc_ray.api import Agent, Attempt, Candidate, PassMatrix, SelfTest

RIGHT = "def double(n):\n    if n < 0:\n        raise ValueError(n)\n    return n * 2\n"
WRONG = "def double(n):\n    return n + 5\n"
SEEN: list[Attempt] = []
KEPT: list[Candidate] = []


class Picks(Agent):
    """Adds a wrong and a right candidate, and lets the self-tests tell which is which."""

    self_tests = True

    async def solve(self, attempt: Attempt) -> Candidate | None:
        SEEN.append(attempt)
        await attempt.ask("How would you do it?", "And how else?")
        await attempt.add({"double.py": WRONG})
        (right,) = [await attempt.add({"/app/double.py": RIGHT})]
        rows = await attempt.run_tests(*attempt.candidates)
        assert [len(row) for row in rows] == [len(attempt.tests)] * 2 and attempt.feedback(attempt.candidates[0])
        return right if attempt.best() == right else attempt.candidates[0]


class Samples(Agent):
    """Three of our samples, of which it picks none."""

    async def solve(self, attempt: Attempt) -> None:
        await attempt.sample(3, advice="Mind negative numbers.")


class Raises(Agent):
    async def solve(self, attempt: Attempt) -> Candidate | None:
        await attempt.add({"double.py": RIGHT})
        raise ZeroDivisionError("by nothing")


class Exits(Agent):
    async def solve(self, attempt: Attempt) -> Candidate | None:
        await attempt.add({"double.py": RIGHT})
        sys.exit(3)


class Spends(Agent):
    async def solve(self, attempt: Attempt) -> Candidate | None:
        await attempt.add({"double.py": RIGHT})
        while True:
            await attempt.ask("Say it again.", max_tokens=200)


class Foreign(Agent):
    """Returns what it made in another trial."""

    async def solve(self, attempt: Attempt) -> Candidate | None:
        KEPT.append(await attempt.add({"double.py": RIGHT if KEPT else WRONG}))
        return KEPT[0]


class Tries(Agent):
    async def solve(self, attempt: Attempt) -> Candidate | None:
        async with attempt.sandbox({"double.py": RIGHT}) as box:
            done = await box.exec([sys.executable, "-c", "import double; print(double.double(4))"], timeout=20)
        return await attempt.add({"double.py": RIGHT if done.stdout.strip() == b"8" else WRONG})


class Asks(Agent):
    """Digs out what judges, and asks it for every candidate until one passes."""

    async def solve(self, attempt: Attempt) -> Candidate | None:
        from hc_ray.domain.candidate import Submission

        search, passed = attempt._search, False
        while not passed:
            made = Submission.of(b"", id="mine", trial=search.name, task_digest=search.task.digest)
            passed = await search.judge(made)
        return None


def last(matrix: PassMatrix, tests: Sequence[SelfTest]) -> dict[str, float]:
    return {one: float(place) for place, one in enumerate(matrix.candidates)}


def lazy(matrix: PassMatrix, tests: Sequence[SelfTest]) -> dict[str, float]:
    return {}


class Opens(Agent):
    """Looks for the hidden tests where they are sealed."""

    async def solve(self, attempt: Attempt) -> Candidate | None:
        from hc_ray.machine.paths import data_root

        found = sorted((data_root() / "sealed").rglob("test_*.py"))
        return await attempt.add({"double.py": found[0].read_text()})
