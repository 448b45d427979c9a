import pytest

from hc_ray.climb.evaluation import Outcome, aggregate
from hc_ray.climb.generation import Generation
from hc_ray.climb.knobs import Site
from hc_ray.climb.proposals import Proposal
from hc_ray.climb.race import ClimbConfig, standing, weigh
from hc_ray.domain.config import SolverConfig
from tests.fakes.simulated_climb import World

ONE = ClimbConfig(generations=1, alpha=0.1, confirmations=3, race_alpha=0.5, looks=(1, 1), confirm=(1, 2), tokens=10**9)


def outcomes(passed, tokens=100, first=0):
    return {(task, first + i): Outcome(task=task, seed=first + i, passed=one, tokens=tokens)
            for task, row in passed.items() for i, one in enumerate(row)}  # fmt: skip


def evidence(control, changed, tokens=100, stage="race"):
    seeds = [(i, 50 + i) for i in range(len(next(iter(control.values()))))]
    return weigh(stage, outcomes(control), outcomes(changed, tokens, 50), seeds, seed=0)


def test_pairs_count_by_task_and_unscored_trials_leave_their_pair_out():
    found = evidence({"a": [True, False], "b": [None, False], "c": [None]}, {"a": [True, True], "b": [True, True],
                                                                             "c": [True]})  # fmt: skip
    assert (found.tasks, found.control, found.changed, found.delta) == (2, 0.25, 1.0, 0.75)
    assert found.p == pytest.approx(0.25), "both of two tasks got better: one of four sign assignments"
    assert evidence({"a": [None]}, {"a": [True]}).delta is None
    says = [str(evidence({"a": [True]}, {"a": [True]}, tokens)).rpartition(", ")[2] for tokens in (60, 140)]
    assert says == ["40 fewer tokens a trial (p 0.5000)", "40 more tokens a trial (p 0.5000)"]


def test_a_lead_is_ahead_a_lag_is_behind_and_fewer_than_six_tasks_decide_nothing():
    worse = {f"t{i}": [False] for i in range(8)}
    better = {task: [True] for task in worse}
    lead, lag = evidence(worse, better), evidence(better, worse)
    assert lead.p == pytest.approx(2**-8) and lag.p == pytest.approx(1 - 2**-8)
    assert standing(lead, 0.01, last=False) == "ahead" and standing(lag, 0.01, last=False) == "behind"
    assert standing(lead, 0.001, last=False) == "open" and standing(lead, 0.001, last=True) == "behind"
    assert standing(lead, 0.01, last=False, won="cheaper") == "open", "what saved tokens has to save them again"
    assert [ONE.look_alpha(number) for number in (0, 1)] == pytest.approx([1 / 6, 1 / 3])
    few = evidence({task: worse[task] for task in list(worse)[:5]}, {task: better[task] for task in list(better)[:5]})
    assert standing(few, 0.2, last=True) == "behind"
    assert "no change" in ONE.says(5, 3)[-1] and "80 % power" in ONE.says(12, 3)[-1]


def test_equal_pass_rates_are_decided_by_tokens_and_never_at_the_cost_of_a_pass():
    same = {f"t{i}": [i % 2 == 0] for i in range(8)}
    more, fewer = same | {"t0": [True], "t1": [True]}, same | {"t0": [False]}
    cheap = evidence(same, same, tokens=60)
    assert cheap.saved == 40 and standing(cheap, 0.01, last=True) == "cheaper"
    assert standing(evidence(same, same, tokens=160), 0.01, last=True) == "behind"
    assert standing(evidence(same, fewer, tokens=60), 0.01, last=True) == "behind"
    assert standing(evidence(same, more, 60, "confirm"), 0.01, last=True, won="cheaper") == "cheaper"
    assert standing(evidence(same, fewer, 60, "confirm"), 0.01, last=True, won="cheaper") == "behind"
    assert standing(evidence(same, more, 60, "confirm"), 0.01, last=True, won="ahead") == "behind"


@pytest.mark.parametrize("tasks", [6, 9])
def test_on_few_tasks_without_any_effect_at_most_the_declared_share_is_accepted(tasks):
    site, accepted, runs = Site(solver=SolverConfig()), 0, 300
    for seed in range(runs):
        world = World(seed, tasks, 0.0)
        config = ONE.model_copy(update={"seed": seed})
        made = [Proposal(proposer=name, generation=1, place=place, parent="", knob="solver.samples", after=5 + place,
                         before=4, solver=SolverConfig(samples=5 + place))
                for place, name in enumerate(("rules", "tpe", "meta-reasoner"))]  # fmt: skip
        decisions = Generation(1, site, world.tasks, config, world, spent=0).decide(made)
        assert sum(one.verdict == "accepted" for one in decisions) <= 1
        accepted += any(one.verdict == "accepted" for one in decisions)
    assert 0 < accepted <= runs * 0.1 + 3 * (runs * 0.1 * 0.9) ** 0.5


def test_no_change_of_skills_is_judged_on_tasks_that_some_were_learned_from():
    site, world = Site(solver=SolverConfig()), World(1, 16, 0.0)
    change = Proposal(proposer="tpe", generation=1, place=0, parent="", knob="solver.use_skills", before=False,
                      after=True, solver=SolverConfig(use_skills=True))  # fmt: skip
    for learned in (0, 3):
        trials = Generation(1, site, world.tasks, ONE, world, spent=0, learned_from=set(world.tasks[:learned]))
        (decision,) = trials.decide([change])
        assert (decision.verdict == "refused") == (not decision.evidence) == bool(learned), decision.why
    assert "learned from 3 of these tasks" in decision.why


def test_aggregates_hold_rates_over_tasks_and_no_task():
    trials = [Outcome(task=f"secret-{i % 4}", seed=i, passed=None if i == 7 else i % 4 == 0, tokens=100, self_pass=True,
                      duplicates=0.5, stop=["turns", "tokens"][i % 2]) for i in range(8)]  # fmt: skip
    seen = aggregate(trials)
    assert (seen.tasks, seen.trials, seen.unscored, seen.pass_rate) == (4, 8, 1, 0.25)
    assert seen.means == {"self_pass": 1.0, "duplicates": 0.5, "tokens": 100.0, "ended by turns": 0.5,
                          "ended by tokens": 0.5}  # fmt: skip
    assert "secret" not in seen.model_dump_json()
