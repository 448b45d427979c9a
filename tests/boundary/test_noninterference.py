"""The proof of DESIGN 4: with an engine whose answer is a function of prompt and seed alone, a trial whose hidden tests
and solution were swapped shows the same bytes up to its first verdict, and after it only the verdict's one bit tells.

Whole trials, real sandboxes, a real HTTP boundary, real verdicts, several trials at once. By default every task of the
starter set with ``hc``, and a few with every agent; ``scripts/noninterference`` takes every task with every agent and
the tests that it has (no model is asked: this is no look at its holdout)."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hc_ray.domain.config import BudgetConfig, SolverConfig, TestgenConfig
from hc_ray_actors.driver import sweep
from tests.boundary.noninterference import datasets
from tests.boundary.noninterference.compare import asked, events, leaks, shown
from tests.boundary.noninterference.datasets import CHOSEN, EVERY, Make, add_and_sub, only_add, starter, swapped
from tests.boundary.noninterference.plants import PLANTS, peeking
from tests.fakes.engine_server import EngineServer
from tests.fakes.figures import tell
from tests.fakes.recording import Seen, forget, record
from tests.fakes.sandbox_home import runs_home
from tests.fakes.unsteady_model import answer

FULL = os.environ.get("HC_RAY_NONINTERFERENCE") == "all"
AGENTS = ("raw", "best_of_n", "hc")
BUDGET = BudgetConfig(tokens=4000)
SOLVER = SolverConfig(
    samples=2, samples_max=2, max_turns=6, max_rounds=3,
    testgen=TestgenConfig(total_min=3, total_max=6, tests_per_category_max=3, budget_tokens=600, rounds=1),
)  # fmt: skip
SMALL = SolverConfig(
    samples=2, samples_max=2, max_turns=3, max_rounds=2, repairs=1,
    testgen=TestgenConfig(total_min=2, total_max=3, tests_per_category_max=2, budget_tokens=400, rounds=1,
                          second_reading=True),
)  # fmt: skip
LOOP = SolverConfig(
    agent_style="loop", samples=1, samples_max=1, max_turns=10, max_rounds=2, plans=("plain",), greedy=1,
    testgen=TestgenConfig(style="files", answer_tokens=600, budget_tokens=4000, rounds=1),
)  # fmt: skip
"""Agents that act in their sandboxes, under whole test files."""
TINY = SMALL.model_copy(update={"samples": 1, "max_turns": 2})
"""One candidate and, where a test fails, its repair: what fits fifty-odd tasks twice into CI."""
Run = Callable[..., Seen]


class Figures:
    """What was compared, for docs/trust.md."""

    def __init__(self) -> None:
        self.tasks: set[str] = set()
        self.trials = self.requests = self.bytes = self.differences = self.planted = self.found = 0

    def alike(self, one: Seen, other: Seen, **how: bool) -> None:
        """Count a comparison; fails the test where it finds a difference."""
        found = leaks(one, other, **how)
        names = {trial for trial in one.phases if trial}
        self.tasks |= {name.rpartition("__")[0] for name in names}
        self.trials += len(names)
        self.requests += one.requests + other.requests
        self.bytes += one.bytes + other.bytes
        self.differences += len(found)
        assert found == [], shown(one, other)

    def plain(self) -> dict[str, Any]:
        return {**vars(self), "tasks": len(self.tasks), "agents": list(AGENTS), "every_agent_on_every_task": FULL}


@pytest.fixture(scope="module")
def figures():
    kept = Figures()
    yield kept
    tell("noninterference", kept.plain())


@pytest.fixture(scope="module")
def engine():
    with EngineServer(answer) as server:
        yield server


@pytest.fixture(scope="module")
def run(engine):
    """One sweep after another, each at the same place: not even a path may tell two runs apart."""
    with runs_home() as (home, place):

        def once(make: Make, **settings: Any) -> Seen:
            wide = {"concurrency": 4, "sandbox_slots": 3}
            settings = {"agents": AGENTS, "solver": SOLVER, "budget": BUDGET, **wide, **settings}
            try:
                return record(place / "now", home, engine, make, **settings)
            finally:
                forget(place / "now")

        yield once


@pytest.fixture(scope="module")
def original(run):
    """Every agent on tasks as they are."""
    return run(_as_they_are)


def _as_they_are(folder: Path) -> None:
    add_and_sub(folder)
    starter(EVERY if FULL else CHOSEN)(folder)


def test_the_engine_is_asked_for_suites_rounds_and_repairs(original):
    """What the proof is worth: the trials do all that could carry something."""
    sent = [wire.decode() for trial, phases in original.phases.items() if trial for wire in phases[0].requests]
    assert any("An earlier attempt was" in wire for wire in sent), "no repair"
    assert any("assert" in wire for wire in sent), "no self-tests"
    assert all(wire.startswith("POST /") and "\r\n\r\n" in wire for wire in sent)
    assert len([trial for trial in original.phases if trial]) >= 12
    assert all(phases[0].sandboxes and phases[0].events for trial, phases in original.phases.items() if trial)
    assert any(path.endswith("matrix.parquet") for path in original.files)
    batches = [told for call, told in original.tracked if call.startswith("log_batch")]
    assert all(any(batch[part] for batch in batches) for part in ("params", "tags", "metrics"))


def test_other_hidden_tests_change_no_byte_before_the_first_verdict(original, run, figures):
    other = run(swapped(_as_they_are, "plain", "slow", "many"))
    figures.alike(original, other)
    # The swap did something: a candidate that passed fails now.
    assert {bit for bits in other.verdicts.values() for bit in bits} == {False}
    assert any(bits == [True] for bits in original.verdicts.values())
    # The prompts tell the truth: addresses, times, temporary folders stand in them as they were.
    raw = [sorted(wire for phases in one.phases.values() for wire in phases[0].requests) for one in (original, other)]
    assert raw[0] != raw[1]
    assert not any(mark in wire for wire in raw[0] for mark in (b"<time>", b"<address>", b"0x?", b"/tmp/?"))


@pytest.mark.proof
def test_no_task_of_the_starter_set_lets_its_tests_through(run, figures):
    settings = {"agents": ("hc",), "solver": SMALL if FULL else TINY}
    # Every seventh by name unless scripts/noninterference asks for all: some of each kind, within minutes.
    names = EVERY if FULL else EVERY[::7]
    one, other = (run(swapped(starter(names), kind), **settings) for kind in ("passing", "plain"))
    figures.alike(one, other)
    assert len(EVERY) >= 50 and len(one.verdicts) == len(names) >= 7
    assert {tuple(bits) for bits in one.verdicts.values()} == {(True,)}
    assert {tuple(bits) for bits in other.verdicts.values()} == {(False,)}


@pytest.mark.proof
def test_slow_enormous_and_illegible_tests_change_no_byte(run, figures):
    settings = {"solver": SMALL}
    one = run(swapped(datasets.three, "plain"), **settings)
    other = run(datasets.odd(datasets.three), **settings)
    figures.alike(one, other)
    assert all(bits == [False] for bits in other.verdicts.values())


def test_agents_that_act_in_their_sandboxes_see_nothing_of_other_hidden_tests_either(run, figures):
    settings = {"agents": ("raw", "hc"), "solver": LOOP, "budget": BudgetConfig(tokens=60_000), "context": 16_384}
    one, other = run(only_add, **settings), run(swapped(only_add, "many"), **settings)
    figures.alike(one, other)
    sent = [wire.decode() for trial, phases in one.phases.items() if trial for wire in phases[0].requests]
    assert any("These failed:" in wire for wire in sent) and any("turns left" in wire for wire in sent)
    assert {bit for bits in other.verdicts.values() for bit in bits} == {False}
    assert any(bits == [True] for bits in one.verdicts.values())


def test_missing_and_unreadable_tests_change_no_byte_before_the_missing_verdict(run, figures):
    def damage(plan: sweep.Plan) -> None:
        shutil.rmtree(Path(plan.sealed_root, "controls"), ignore_errors=True)
        first, second, third = (Path(plan.sealed_root, task.digest) for task in plan.taken)
        shutil.rmtree(first / "tests")
        (second / "verifier.json").write_bytes(b"\xff unreadable")
        # No mode keeps root from reading; a link into nowhere keeps everybody.
        (third / "tests" / "test.sh").unlink()
        (third / "tests" / "test.sh").symlink_to("gone")
        (third / "solution" / "solve.sh").chmod(0)

    settings = {"agents": ("hc",), "solver": TINY}
    whole, damaged = run(datasets.three, **settings), run(datasets.three, before_run=damage, **settings)
    figures.alike(whole, damaged, scored=False)
    # A task whose tests are gone has no verdict: its trials are unscored, not failed.
    assert all(bits == [] for bits in damaged.verdicts.values())


@pytest.mark.proof
def test_after_a_failed_verdict_two_failing_test_sets_cannot_be_told_apart(run, figures):
    settings = {"agents": ("hc",), "solver": SOLVER.model_copy(update={"refinement": 1, "max_turns": 20})}
    one = run(swapped(add_and_sub, "plain"), **settings)
    other = run(swapped(add_and_sub, "many", "slow"), **settings)
    figures.alike(one, other)
    for trial, phases in one.phases.items():
        others = other.phases[trial]
        assert [asked(phase) for phase in phases] == [asked(phase) for phase in others]
        assert [phase.sandboxes for phase in phases] == [phase.sandboxes for phase in others]
        assert [events(phase) for phase in phases] == [events(phase) for phase in others]
        if trial:
            assert one.verdicts[trial] == other.verdicts[trial] == [False, False], "the trial was not refined"
            assert any(phase.requests for phase in phases[1:]), "nothing was asked after the verdict"


@pytest.mark.proof
@pytest.mark.docker
def test_in_docker_other_hidden_tests_change_no_byte_either(run, figures):
    settings = {"agents": ("hc",), "solver": TINY, "sandbox": "docker"}
    one, other = (run(swapped(only_add, kind), **settings) for kind in ("passing", "many"))
    figures.alike(one, other)
    assert list(one.verdicts.values()) == [[True]] and list(other.verdicts.values()) == [[False]]


@pytest.fixture(scope="module")
def sound(run):
    """The build as it is, on two test files: the doctored builds' bit is 0 there."""
    return run(only_add, agents=("hc",), solver=SMALL)


@pytest.fixture(scope="module")
def repaired(run):
    """The same, with trials that repair what fails."""
    seen = run(only_add, agents=("hc",))
    assert any(b"An earlier attempt was" in wire for phases in seen.phases.values() for wire in phases[0].requests)
    return seen


def test_two_runs_of_the_same_differ_in_nothing_but_what_is_true_of_one_run(sound, run):
    again = run(only_add, agents=("hc",), solver=SMALL)
    assert leaks(sound, again) == [] and sound.verdicts == again.verdicts, shown(sound, again)


def test_the_build_as_it_is_shows_no_difference_where_the_doctored_ones_do(sound, run):
    assert leaks(sound, run(swapped(only_add, "plain"), agents=("hc",), solver=SMALL)) == []


@pytest.mark.parametrize("where", PLANTS)
def test_a_planted_leak_of_one_bit_is_found(request, run, monkeypatch, figures, where):
    """The proof can fail: one bit of the hidden tests in one place, or in several that do not touch each other."""
    plant, told = PLANTS[where]
    # An observation is told where something is repaired.
    repairs = where == "an observation"
    sound: Seen = request.getfixturevalue("repaired" if repairs else "sound")
    peeking(monkeypatch, plant, in_prompt="prompt" in where)
    found = leaks(sound, run(swapped(only_add, "plain"), agents=("hc",), solver=SOLVER if repairs else SMALL))
    seen = [any(line.endswith(word) for line in found) for word in told]
    figures.planted += len(seen)
    figures.found += sum(seen)
    assert all(seen), found
