"""The proof of DESIGN 4: with an engine whose answer is a function of prompt and seed alone, a trial whose hidden tests
and solution were swapped shows the same bytes up to its first verdict, and after it only the verdict's one bit tells.

Real sandboxes, a real HTTP boundary, real verdicts. By default a handful of tasks; ``HC_RAY_NONINTERFERENCE=all`` takes
every task of the starter set (no model is asked: this is no look at its holdout)."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hc_ray.config import BudgetConfig, SolverConfig, TestgenConfig
from hc_ray_actors import plan as plan_module
from hc_ray_actors import sweep, verifiers
from tests.fakes.engine_server import EngineServer
from tests.fakes.recording import Seen, answer, record
from tests.fakes.sandbox_home import data_home
from tests.fakes.tasks import TEST_SH, make_task

STARTER = Path(__file__).parents[2] / "configs" / "tasks" / "starter"
EVERY_TASK = os.environ.get("HC_RAY_NONINTERFERENCE") == "all"
CHOSEN = ("adults-csv", "backwards", "regex-hex-color")
"""One of each way to be asked: files of the environment, a function, a pattern."""

CLOCK = {
    "at": "when an event was recorded",
    "elapsed_ms": "how long the trial has run",
    "engine_seconds": "how long the engine took",
    "started_at": "when something began",
    "finished_at": "when something ended",
    "renewed_at": "when the sweep directory's owner last said that it lives",
}
"""Fields that only tell the time, wherever they stand."""

IDENTITY = {
    "sweep.json": {
        "sweep_id": "names this run: derived from its begin and the dataset's folder",
        "dataset": "the dataset's folder: two runs of this test have a folder each",
        "config.dataset": "as above",
        "versions.git_sha": "the checkout's commit: somebody may commit between two runs",
        "sealed_digest": "says which hidden tests judged, so that a resume refuses others; no solver reads it",
    },
    "lease.json": {"owner": "the process", "pid": "the process"},
}
"""Fields that tell which run it was, by file."""

JUDGED = {
    "verifier_result": "the verdict",
    "verifier": "when the verdict was made",
    "agent_execution": "when the submission was made",
    "agent_result.metadata.score": "the verdict with turns and progress",
    "agent_result.metadata.bits": "the verdict",
    "agent_result.metadata.witness": "what was said beside the verdict, after it",
    "agent_result.metadata.cause": "what was said beside the verdict, after it",
    "agent_result.metadata.left_behind": "what grading did not carry over, after the search",
}
"""Fields of result.json that are the verdict's, written after it and read by no solver."""

DERIVED = ("report.json", "report.html", "tables/")
"""Tables of verdicts, made after the last one: only their names are compared."""

SOLVER = SolverConfig(
    samples=2,
    max_turns=6,
    max_rounds=3,
    testgen=TestgenConfig(total_min=3, total_max=6, tests_per_category_max=3, budget_tokens=600, rounds=1),
)
BUDGET = BudgetConfig(tokens=4000)
INSTRUCTION = (
    "Write the file {name}.py with a function `{name}(a, b)` that returns the {word} of its two numbers.\n\n"
    "Example: `{name}(3, 2)` returns `{value}`.\n"
)
SECRET = "/srv/only-the-solution-writes-this"
"""A file that no instruction asks for: tests that want it fail every candidate, and their own reference passes."""

PLAIN_SH = f"#!/bin/bash\n[ -f {SECRET} ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
SLOW_SH = PLAIN_SH.replace("\n", "\nsleep 2\nhead -c 3000000 /dev/zero | tr '\\0' 'x'\n", 1)
MANY_PY = f"""import os
import pytest


@pytest.mark.parametrize("number", range(37))
def test_wants_the_file(number):
    assert os.path.isfile({SECRET!r})
"""
FAILING: dict[str, dict[str, str]] = {
    "plain": {"test.sh": PLAIN_SH},
    "slow and enormous": {"test.sh": SLOW_SH, "padding.txt": "x" * 2_000_000},
    "many": {"test.sh": TEST_SH, "test_outputs.py": MANY_PY},
}


def only_add(folder: Path) -> None:
    make_task(folder, "add", instruction=INSTRUCTION.format(name="add", word="sum", value=5))


def made(folder: Path) -> None:
    only_add(folder)
    make_task(folder, "sub", instruction=INSTRUCTION.format(name="sub", word="difference", value=1))


def as_they_are(folder: Path) -> None:
    made(folder)
    names = sorted(path.name for path in STARTER.iterdir() if path.is_dir()) if EVERY_TASK else CHOSEN
    for name in names:
        shutil.copytree(STARTER / name, folder / name)


def swapped(make: Callable[[Path], None], *kinds: str) -> Callable[[Path], None]:
    """The same tasks with other hidden tests and another solution; kinds of tests taken in turn."""

    def write(folder: Path) -> None:
        make(folder)
        for number, task in enumerate(sorted(path for path in folder.iterdir() if path.is_dir())):
            for part in ("tests", "solution"):
                shutil.rmtree(task / part)
            files = FAILING[kinds[number % len(kinds)]]
            for path, text in {**{f"tests/{name}": text for name, text in files.items()}, **SOLVES}.items():
                (task / path).parent.mkdir(exist_ok=True)
                (task / path).write_text(text)

    return write


SOLVES = {"solution/solve.sh": f"#!/bin/bash\nmkdir -p /srv && touch {SECRET}\n"}


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineServer]:
    with EngineServer(answer) as server:
        yield server


@pytest.fixture(scope="module")
def run(engine: EngineServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Seen]]:
    from hc_ray.adapters.runner_build import ensure_runner

    with data_home() as home:
        ensure_runner()
        # Beside the data root, whose folders the sandboxes' users can enter.
        place = home / f"noninterference-{os.getpid()}"
        place.mkdir()

        def once(make: Callable[[Path], None], **settings: Any) -> Seen:
            root = place / f"run{len(list(place.iterdir()))}"
            settings = {"agents": ("raw", "best_of_n", "hc"), "solver": SOLVER, "budget": BUDGET, **settings}
            return record(root, home, engine, make, **settings)

        yield once
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def original(run: Callable[..., Seen]) -> Seen:
    return run(as_they_are)


def without(data: Any, paths: set[str], at: str = "") -> Any:
    """Plain data without the clock's fields and without those at dotted ``paths``."""
    if isinstance(data, dict):
        kept = {name: (value, f"{at}.{name}".lstrip(".")) for name, value in data.items() if name not in CLOCK}
        return {name: without(value, paths, here) for name, (value, here) in kept.items() if here not in paths}
    return [without(one, paths, at) for one in data] if isinstance(data, list) else data


def comparable(path: str, data: bytes) -> Any:
    """A file as it has to be equal: byte for byte, or without the fields that are named above."""
    if path.startswith(DERIVED) or path.startswith("events/"):
        return None  # Events are compared trial by trial: two writers share the journal, in the order of arrival.
    if not path.endswith(".json"):
        return data
    name = path.rsplit("/", 1)[-1]
    return without(json.loads(data), set(IDENTITY.get(path, {})) | set(JUDGED if name == "result.json" else ()))


def first_phase(seen: Seen, trial: str) -> Any:
    phase = seen.phases[trial][0]
    tar = seen.files.get(f"trials/{trial}/artifacts/submission.tar")
    return phase.requests, [without(event, set()) for event in phase.events], tar


def leaks(one: Seen, other: Seen, *, scored: bool = True) -> list[str]:
    """What differs between two runs up to the first verdicts. Without ``scored`` a trial's files are left out: one that
    got no verdict has other ones."""
    if set(one.phases) != set(other.phases):
        return ["names of trials"]
    found = [f"trial {trial}" for trial in one.phases if first_phase(one, trial) != first_phase(other, trial)]
    if scored:
        if set(one.files) != set(other.files):
            found.append(f"names of files: {sorted(set(one.files) ^ set(other.files))}")
        shared = sorted(set(one.files) & set(other.files))
        found += [path for path in shared if comparable(path, one.files[path]) != comparable(path, other.files[path])]
    return found


def test_the_engine_is_asked_for_suites_rounds_and_repairs(original):
    """What the proof is worth: the trials do all that could carry something."""
    bodies = [body.decode() for phases in original.phases.values() for path, body in phases[0].requests]
    assert any("An earlier attempt was" in body for body in bodies), "no repair"
    assert any("assert" in body for body in bodies), "no self-tests"
    assert len(original.phases) >= 15
    assert any(path.endswith("matrix.parquet") for path in original.files)


def test_other_hidden_tests_change_no_byte_before_the_first_verdict(original, run):
    other = run(swapped(as_they_are, "plain", "slow and enormous", "many"))
    assert leaks(original, other) == []
    # The swap did something: a candidate that passed fails now.
    assert {bit for bits in other.verdicts.values() for bit in bits} == {False}
    assert any(bits == [True] for bits in original.verdicts.values())


def test_missing_and_unreadable_hidden_tests_change_no_byte_before_the_missing_verdict(run):
    def damage(plan: sweep.Plan) -> None:
        first, second = (Path(plan.sealed_root, task.digest) for task in plan.taken)
        shutil.rmtree(first / "tests")
        (second / "verifier.json").write_bytes(b"\xff unreadable")

    settings = {"agents": ("hc",)}
    whole, damaged = run(made, **settings), run(made, before_run=damage, **settings)
    assert leaks(whole, damaged, scored=False) == []
    # A task whose tests are gone has no verdict: its trials are unscored, not failed.
    assert all(bits == [] for bits in damaged.verdicts.values())


def test_after_a_failed_verdict_two_failing_test_sets_cannot_be_told_apart(run):
    settings = {"agents": ("hc",), "solver": SOLVER.model_copy(update={"refinement": 1, "max_turns": 10})}
    one = run(swapped(only_add, "plain"), **settings)
    other = run(swapped(only_add, "many"), **settings)
    assert leaks(one, other) == []
    for trial, phases in one.phases.items():
        assert one.verdicts[trial] == other.verdicts[trial] == [False, False], "the trial was not refined"
        assert any(phase.requests for phase in phases[1:]), "nothing was asked after the verdict"
        assert [phase.requests for phase in phases] == [phase.requests for phase in other.phases[trial]]
        told = [[without(event, set()) for event in phase.events] for phase in phases]
        assert told == [[without(event, set()) for event in phase.events] for phase in other.phases[trial]]


@pytest.mark.parametrize("where", ["prompt", "journal", "submission"])
def test_a_planted_leak_of_one_bit_is_found(run, monkeypatch, where):
    """The proof can fail: the parity of the number of hidden files, carried into one place."""
    agents = {"agents": ("raw",)}

    _plant(monkeypatch, where)
    one, other = run(only_add, **agents), run(swapped(only_add, "plain"), **agents)
    assert any(found.startswith("trial ") for found in leaks(one, other))


def _plant(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    from hc_ray.solve.search import Search
    from hc_ray.solve.workbench import Workbench

    bit = {"now": 0}

    def peeking_seal(dataset: Path, public_root: Path, sealed_root: Path) -> Any:
        sealed = verifiers.seal(dataset, public_root, sealed_root)
        bit["now"] = sum(path.is_file() for path in dataset.glob("*/tests/*")) % 2
        if where != "prompt":
            return sealed
        tasks = tuple(
            task.model_copy(update={"instruction": task.instruction.replace(" ", "  ", bit["now"])})
            for task in sealed.tasks
        )
        return sealed.model_copy(update={"tasks": tasks})

    class Peeking:
        seal = staticmethod(peeking_seal)

        def __getattr__(self, name: str) -> Any:
            return getattr(verifiers, name)

    monkeypatch.setattr(plan_module, "verifiers", Peeking())
    if where == "journal":
        journal = Search.journal
        monkeypatch.setattr(Search, "journal", lambda self, what, **told: journal(self, what, **told, bit=bit["now"]))
    if where == "submission":
        difference = Workbench.difference

        async def marked(self: Workbench, place: str, files: dict[str, str]) -> Any:
            return await difference(self, place, {**files, "/srv/bit": str(bit["now"])})

        monkeypatch.setattr(Workbench, "difference", marked)
