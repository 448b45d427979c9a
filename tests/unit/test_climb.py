import json

import pytest
from pydantic import ValidationError

from hc_ray.climb.climb import Climb
from hc_ray.climb.knobs import KNOBS, Site
from hc_ray.climb.proposals import Record
from hc_ray.climb.race import ClimbConfig
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.errors import OutputError
from hc_ray.domain.prompt import Completion
from tests.fakes.simulated_climb import World
from tests.fakes.sweepdir import MemoryStore

START = Site(solver=SolverConfig())
SHORT = ClimbConfig(generations=3, looks=(1, 1), confirm=(1,), race_alpha=0.5, alpha=0.5, confirmations=9, tokens=10**9)


class Recording(World):
    def evaluate(self, cells, *, tokens):
        self.cells = [*getattr(self, "cells", ()), *cells]
        return super().evaluate(cells, tokens=tokens)


class Written(MemoryStore):
    def __init__(self, before=()):
        super().__init__()
        self.order = []
        for path, data in before:
            self.write(path, data)

    def write(self, path, data):
        super().write(path, data)
        self.order.append((path, data))


def meta(prompt):
    wanted = ("solver.repairs", 4) if prompt.seed % 2 else ("solver.hint", f"Check the edges {prompt.seed} times.")
    text = json.dumps({"knob": wanted[0], "value": wanted[1], "reason": "The figures say that this may help."})
    return Completion(text=text, prompt_tokens=500, completion_tokens=50)


def climbed(config=SHORT, world=None, **more):
    world, store = world or World(8, 8, 3.0), more.pop("store", None) or Written()
    climb = Climb(START, world.tasks, config, evaluator=world, store=store, **more)
    climb.run()
    return climb, store


def accepted(climb):
    return [one for one in climb.history if one.accepted]


def test_a_climb_that_was_killed_anywhere_goes_on_to_the_same_end_and_asks_for_no_stored_proposal_again():
    climb, store = climbed(ask=meta)
    assert accepted(climb), "this world has something to find"
    for count in range(len(store.order)):
        asked = []
        again, second = climbed(ask=lambda one, kept=asked: (kept.append(one), meta(one))[1],
                                store=Written(store.order[:count]))  # fmt: skip
        assert (again.site, again.history, again.tokens) == (climb.site, climb.history, climb.tokens)
        assert second.files == store.files, f"killed after {count} writes"
        known = {Record.model_validate_json(data).proposal.generation for path, data in store.order[:count]
                 if path != "climb/declared.json" and b"meta-reasoner" in data}  # fmt: skip
        assert len(asked) == 3 - len(known)


@pytest.mark.parametrize("budget", [1, 9_000, 40_000, 111_111])
def test_the_budget_is_passed_by_no_more_than_the_trial_in_flight_and_its_end_reverts_the_undecided(budget):
    world = World(8, 8, 3.0)
    climb, _ = climbed(SHORT.model_copy(update={"tokens": budget, "generations": 9, "confirmations": 99}), world)
    assert budget <= climb.tokens == world.spent < budget + 6000
    last = [one.decision.verdict for one in climb.history[-3:] if one.decision]
    assert "undecided" in last and "accepted" not in last
    assert climb.site.solver == [START.solver, *(one.proposal.solver for one in accepted(climb))][-1]


def test_proposers_take_equal_turns_and_every_comparison_has_seeds_of_its_own():
    world, told = Recording(8, 8, 3.0), list[tuple[str, int]]()
    climb, _ = climbed(world=world, tell=lambda one: told.append((one.path, len(world.cells))))
    assert told[:3] == [(f"climb/1-{place}.json", 1) for place in range(3)], "stored when only the baseline had run"
    turns = [one.proposal.proposer for one in climb.history]
    assert {turns.count(name) for name in ("rules", "tpe", "no change")} == {3}
    assert len({turns[i] for i in (0, 3, 6)}) == 3, "who comes first rotates"
    seeds = {}
    for cell in world.cells:
        seeds.setdefault(f"{cell.stage} {cell.arm}", set()).update(cell.seeds)
    assert seeds["race tpe"] <= seeds["race control"] and not seeds["race control"] & seeds["confirm control"]
    assert not seeds["race no change"] & seeds["race control"]


def test_stagnation_takes_bigger_steps_within_three_guardrails():
    terms = SHORT.model_copy(update={"generations": 8, "patience": 2, "confirmations": 999})
    climb, _ = climbed(terms, World(1, 8, 0.0))
    assert [one.proposal.reach for one in climb.history[::3]] == [1, 1, 2, 2, 3, 3, 3, 3]
    steps = [abs(one.proposal.after - one.proposal.before) / knob.box[2] for one in climb.history
             if one.proposal.knob and (knob := KNOBS[one.proposal.knob]).kind == "whole" and knob.box]  # fmt: skip
    assert 1 < max(steps) <= 3


def test_failed_confirmations_are_counted_from_the_last_acceptance_on_and_the_last_of_them_ends_the_climb():
    for seed in range(4):
        terms = SHORT.model_copy(update={"generations": 30, "confirmations": 2, "alpha": 0.05, "seed": seed})
        climb, _ = climbed(terms, World(seed, 8, 3.0 if seed % 2 else 0.0))
        tried = [[one.accepted for one in climb.history[i : i + 3] if one.confirmed] for i in range(0, 90, 3)]
        since = next((i for i, one in enumerate(reversed(tried)) if True in one), len(tried))
        assert [len(one) for one in tried if True not in one].count(3) == 0, "two are left at most"
        assert len(climb.history) < 90
        assert climb.ended_by == "confirmations" and sum(map(len, tried[len(tried) - since :])) == climb.failed == 2


class Rigged(World):
    """Only these arms pass; all trials cost the same."""

    passing = ()

    def evaluate(self, cells, *, tokens):
        return [[one.model_copy(update={"passed": cell.arm in self.passing, "tokens": 1000}) for one in made]
                for cell, made in zip(cells, super().evaluate(cells, tokens=tokens), strict=True)]  # fmt: skip


def test_a_false_alarm_uses_up_a_confirmation_and_is_no_reason_to_revert_a_change():
    world = Rigged(3, 8, 0.0)
    world.passing = ("no change",)
    climb, _ = climbed(SHORT.model_copy(update={"generations": 9, "confirmations": 2}), world)
    assert [one.proposal.proposer for one in accepted(climb)] == ["no change"] * 2 and climb.failed == 2
    assert climb.ended_by == "confirmations" and climb.site == START
    world.passing = ("no change", "tpe", "rules")
    climb, _ = climbed(SHORT.model_copy(update={"generations": 1}), world)
    assert sorted(bool(one.proposal.knob) for one in accepted(climb)) == [False, True] and climb.failed == 0
    assert climb.site != START


@pytest.mark.parametrize("looks", [(), (0,), (-1, 2), (51,), (50,) * 6])
def test_looks_that_are_none_or_reach_the_seeds_of_other_trials_are_refused(looks):
    for name in ("looks", "confirm"):
        with pytest.raises(ValidationError):
            ClimbConfig(**{name: looks})


def test_a_folder_with_another_climb_is_refused():
    _, store = climbed()
    with pytest.raises(OutputError, match="another start, tasks, skills, prompt or terms"):
        climbed(SHORT.model_copy(update={"seed": 9}), store=store)
