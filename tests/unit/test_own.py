"""Agents of a user's own in the place of ours: what becomes of a trial, and what they cannot see."""

import dataclasses
import inspect
import sys
from pathlib import Path

import pytest

from hc_ray.domain.config import SolverConfig
from hc_ray.domain.value import Value
from hc_ray.machine import own_code
from tests.fakes.trial import TASK, WRONG, Bench, scripted

FAKES = Path(__file__).parents[1] / "fakes"


@pytest.fixture
def own(home, monkeypatch):
    """Gives the settled name of an agent of ``tests/fakes/own_agents.py``, which lies in the user's folder."""
    monkeypatch.chdir(FAKES)
    yield lambda name: own_code.keep(f"own_agents:{name}")
    own_code.load.cache_clear()
    sys.modules.pop("own_agents", None)


async def test_an_agent_asks_adds_tests_and_picks_within_the_trials_account(own) -> None:
    bench = Bench(scripted(WRONG))
    outcome = await bench.solve(own("Picks"))
    assert "n * 2" in bench.submitted() and outcome.stop_reason == "finished" and outcome.suite is not None
    assert outcome.chosen == outcome.candidates[1].id and outcome.bits == (True,)
    solved = [prompt for prompt in bench.prompts if prompt.role == "solver"]
    assert len(solved) == outcome.turns == 2 and len({prompt.seed for prompt in solved}) == 2
    first, second = outcome.candidates
    assert first.turns == 2 and first.prompt_tokens > 0 and second.prompt_tokens == 0
    asked = outcome.prompt_tokens - outcome.suite.prompt_tokens
    assert asked == first.prompt_tokens and outcome.notes == ()


async def test_without_an_answer_the_first_candidate_with_files_is_handed_in(own) -> None:
    bench = Bench(scripted(WRONG))
    outcome = await bench.solve(own("Samples"))
    assert outcome.stop_reason == "finished" and len(outcome.candidates) == 3 and "n + 5" in bench.submitted()
    assert all("Mind negative numbers." in (prompt.text or "") for prompt in bench.prompts)


@pytest.mark.parametrize(("name", "said"), [
    ("Raises", "ZeroDivisionError: by nothing"), ("Exits", "SystemExit: 3"),
    ("Foreign", "did not return a candidate of this attempt"),
])  # fmt: skip
async def test_what_an_agent_does_wrong_is_its_own_failure_and_what_it_had_is_handed_in(own, name, said) -> None:
    agent = own(name)
    for _ in range(2):  # the second time the foreign one returns a candidate of the first
        bench = Bench(scripted(WRONG))
        outcome = await bench.solve(agent)
    assert outcome.stop_reason == "error" and outcome.bits == (True,) and "n * 2" in bench.submitted()
    (note,) = outcome.notes
    assert said in note and ("own_agents.py:" in note) == (name != "Foreign")


@pytest.mark.parametrize(("most", "why"), [({"max_turns": 3}, "turns"), ({"max_turns": 1000}, "tokens")])
async def test_an_agent_that_asks_for_ever_ends_with_what_it_has_when_nothing_is_left(own, most, why) -> None:
    bench = Bench(scripted(WRONG))
    outcome = await bench.solve(own("Spends"), SolverConfig(max_answer_tokens=60, **most), tokens=3000)
    assert outcome.stop_reason == why and "n * 2" in bench.submitted()
    assert 0 < outcome.prompt_tokens + outcome.completion_tokens <= 3000
    assert outcome.turns == len(bench.prompts) and (why == "tokens" or outcome.turns == 3)


async def test_a_sandbox_of_an_agents_own_holds_its_files_and_ends_with_the_trial(own) -> None:
    bench = Bench(scripted(WRONG))
    await bench.solve(own("Tries"))
    assert "n * 2" in bench.submitted() and all(sandbox.closed for sandbox in bench.place.made)


async def test_a_selector_of_ones_own_picks_for_hc_and_one_that_fails_prefers_nobody(own) -> None:
    last, lazy = own("last"), own("lazy")
    bodies = [f"    return n + {number}\n" for number in range(5, 9)]
    for selector in (last, lazy):
        outcome = await Bench(scripted(*bodies)).solve("hc", SolverConfig(max_answer_tokens=60, selector=selector))
        assert outcome.selection is not None and outcome.selection.selector == selector
        if selector == last:
            scored = outcome.selection.scores
            assert outcome.chosen == max(scored, key=lambda one: scored[one]) and "raised" not in outcome.selection.why
        else:
            assert "it raised KeyError" in outcome.selection.why and set(outcome.selection.scores.values()) == {0.0}


async def test_nothing_that_an_attempt_offers_leads_to_the_tasks_name_its_tags_or_a_verdict(own) -> None:
    name = own("Picks")
    bench = Bench(scripted(WRONG))
    await bench.solve(name)
    found = list(offered(sys.modules[own_code.load(name).__module__].SEEN[-1]))
    texts = [one for one in found if isinstance(one, str)]
    assert len(texts) > 50 and TASK.instruction in texts
    assert [text for text in texts if "secret" in text] == []
    assert [one for one in found if getattr(one, "__qualname__", "").endswith(("judge", "judged"))] == []


def offered(root: object) -> list[object]:
    """All that can be reached by public attributes, items and fields."""
    found, seen, queue = [], {id(root)}, [root]
    while queue:
        one = queue.pop()
        found.append(one)
        if isinstance(one, dict):
            inner = [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            inner = list(one)
        elif isinstance(one, Value) or dataclasses.is_dataclass(one) or one is root:
            inner = [getattr(one, name) for name in dir(one) if name[0] != "_" and not name.startswith("model_")]
        elif inspect.ismethod(one):
            inner = [one.__self__] if one.__self__ is not root else []
        else:
            inner = []
        for other in inner:
            if id(other) not in seen:
                seen.add(id(other))
                queue.append(other)
    return found
