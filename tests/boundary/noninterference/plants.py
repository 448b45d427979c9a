"""Doctored builds: each carries one bit of the hidden tests (the parity of the number of their files, or how long they
take to read) into a place where something could see it, or into several. A proof that finds none proves nothing."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hc_ray.agent import sandbox_forks
from hc_ray.agent.budget import Purse
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.search import pool, schedule
from hc_ray.search import trial as trial_module
from hc_ray.search.search import Search
from hc_ray.selftests import runner
from hc_ray.stores import mlflow_tracker
from hc_ray_actors import verifiers
from hc_ray_actors.driver import plan as plan_module
from hc_ray_actors.driver import results

SLOW_SECONDS = 0.5


class Bit:
    """What a doctored build has learnt of the hidden tests."""

    def __init__(self) -> None:
        self.now = 0
        self.seconds = 0.0

    @property
    def spare(self) -> dict[str, str]:
        """Where the bit is 0, a doctored build is as the sound one."""
        return {"spare": "1"} if self.now else {}


Plant = Callable[[pytest.MonkeyPatch, Bit], None]


def peeking(patch: pytest.MonkeyPatch, plant: Plant, *, in_prompt: bool) -> None:
    """A build whose plan looks at the hidden tests, and whose ``plant`` carries what it saw."""
    bit = Bit()

    def seal(dataset: Path, public_root: Path, sealed_root: Path) -> Any:
        sealed = verifiers.seal(dataset, public_root, sealed_root)
        began = time.monotonic()
        bit.now = sum(path.is_file() for path in dataset.glob("*/tests/*")) % 2
        time.sleep(SLOW_SECONDS * bit.now)  # as if there were more to read
        bit.seconds = time.monotonic() - began
        if not in_prompt:
            return sealed
        tasks = tuple(
            task.model_copy(update={"instruction": task.instruction.replace(" ", "  ", bit.now)})
            for task in sealed.tasks
        )
        return sealed.model_copy(update={"tasks": tasks})

    class Peeking:
        def __getattr__(self, name: str) -> Any:
            return seal if name == "seal" else getattr(verifiers, name)

    patch.setattr(plan_module, "verifiers", Peeking())
    plant(patch, bit)


def _nothing(patch: pytest.MonkeyPatch, bit: Bit) -> None:
    pass


def _seed(patch: pytest.MonkeyPatch, bit: Bit) -> None:
    seed_of = schedule.seed_of
    patch.setattr(schedule, "seed_of", lambda *place: seed_of(*place) ^ bit.now)


def _journal(patch: pytest.MonkeyPatch, bit: Bit) -> None:
    journal = Search.journal
    patch.setattr(Search, "journal", lambda self, what, **told: journal(self, what, **told, **bit.spare))


def _suite(patch: pytest.MonkeyPatch, bit: Bit) -> None:
    make = trial_module.write_suite

    async def marked(*words: Any, **named: Any) -> Any:
        suite, exchanges = await make(*words, **named)
        return suite.model_copy(update={"assumptions": (*suite.assumptions, *[" "] * bit.now)}), exchanges

    patch.setattr(trial_module, "write_suite", marked)


def _candidate(patch: pytest.MonkeyPatch, bit: Bit) -> None:
    make = pool.candidate_of

    def marked(*words: Any, **named: Any) -> Any:
        candidate = make(*words, **named)
        files = {path: text + "\n" * bit.now for path, text in candidate.files.items()}
        return candidate.model_copy(update={"files": files})

    patch.setattr("hc_ray.search.search.candidate_of", marked)


def _submission(patch: pytest.MonkeyPatch, bit: Bit) -> None:
    hand_in = SandboxForks.hand_in

    async def marked(self: SandboxForks, place: str, files: dict[str, str]) -> Any:
        return await hand_in(self, place, {**files, **({"/srv/bit": "1"} if bit.now else {})})

    patch.setattr(SandboxForks, "hand_in", marked)


def _observation(patch: pytest.MonkeyPatch, bit: Bit) -> None:
    read_runs = runner.read_runs

    def marked(*words: Any, **named: Any) -> Any:
        runs = read_runs(*words, **named)
        dots = "." * bit.now
        return tuple(tuple(one.model_copy(update={"detail": one.detail + dots}) for one in each) for each in runs)

    patch.setattr(runner, "read_runs", marked)


def _tokens_left(patch: pytest.MonkeyPatch, bit: Bit) -> None:
    patch.setattr(Purse, "left", property(lambda self: self.limit - self.spent - bit.now))


def _folder(patch: pytest.MonkeyPatch, bit: Bit) -> None:
    name = sandbox_forks.sandbox_name
    patch.setattr(sandbox_forks, "sandbox_name", lambda *place: name(*place) + "0" * bit.now)


def _tracker(patch: pytest.MonkeyPatch, bit: Bit) -> None:
    params = mlflow_tracker.params_of
    patch.setattr(mlflow_tracker, "params_of", lambda *words: {**params(*words), **bit.spare})


def _result(patch: pytest.MonkeyPatch, bit: Bit) -> None:
    versions = results.versions
    patch.setattr(results, "versions", lambda: {**versions(), **bit.spare})


def _timing(patch: pytest.MonkeyPatch, bit: Bit) -> None:
    payable = Search.payable

    async def hurried(self: Search, slots: Any) -> Any:
        # The slower the hidden tests were, the less is tried.
        return await payable(self, slots[:1] if bit.seconds > SLOW_SECONDS / 2 else slots)

    patch.setattr(Search, "payable", hurried)


def _beside(*plants: Plant) -> Plant:
    def all_of_them(patch: pytest.MonkeyPatch, bit: Bit) -> None:
        for plant in plants:
            plant(patch, bit)

    return all_of_them


PLANTS: dict[str, tuple[Plant, tuple[str, ...]]] = {
    "a space in the prompt": (_nothing, ("requests",)),
    "a seed": (_seed, ("requests",)),
    "a candidate": (_candidate, ("candidates.json",)),
    "the submission": (_submission, ("submission",)),
    "an observation": (_observation, ("requests",)),
    "the count of tokens left": (_tokens_left, ("journal",)),
    "a decision by the time that passed": (_timing, ("requests",)),
    # Alone, each of these showed in its own place and nowhere else.
    "the journal, the suite, a sandbox's name, the tracker, the versions": (
        _beside(_journal, _suite, _folder, _tracker, _result),
        ("journal", "suite.json", "sandboxes", "tracker", "sweep.json"),
    ),
}
"""Where the bit goes, and the words by which the comparison has to tell it, one for each place."""
