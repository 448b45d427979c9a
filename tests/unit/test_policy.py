from itertools import pairwise
from typing import Any

import pytest

from hc_ray.domain.config import SolverConfig
from hc_ray.search.policy import ActionName, State, decide
from hc_ray.search.pool import checkpoint
from hc_ray.search.selection import Selection
from tests.fakes.trial import Bench, scripted

ORDINARY: dict[str, Any] = {"round": 2, "turns_left": 20, "runnable": 6, "best": "c1.0", "confidence": 0.95,
                            "stated": 1, "alike": 4}  # fmt: skip
CASES: tuple[tuple[ActionName, str, dict[str, Any]], ...] = (
    ("complete", "complete", {}),
    ("continue", "go on", {"best": None, "runnable": 0, "alike": 0}),
    ("continue", "go on", {"failing": ("t1",)}),
    ("continue", "go on", {"confidence": 0.5}),
    ("continue", "go on", {"stated": 0, "alike": 1}),
    ("complete", "complete", {"stated": 0, "alike": 2}),
    ("continue", "go on", {"agreement_needed": True, "alike": 2}),
    ("continue", "go on", {"agreement_needed": True, "alike": 3, "rivals": 3}),
    ("complete", "complete", {"agreement_needed": True, "alike": 4, "rivals": 3}),
    ("complete", "complete", {"agreement_needed": True, "alike": 3, "runnable": 12}),
    ("continue", "go on", {"agreement_needed": True, "alike": 5, "stated": 0}),
    ("complete", "complete", {"agreement_needed": True, "alike": 6, "rivals": 5, "stated": 0}),
    ("complete", "complete", {"turns_left": 0}),
    ("stop", "turns", {"failing": ("t1",), "turns_left": 0}),
    ("stop", "tokens", {"failing": ("t1",), "affordable": 0}),
    ("stop", "rounds", {"failing": ("t1",), "round": 10}),
    ("no_progress", "stagnation", {"failing": ("t1",), "idle": 8}),
    ("continue", "go on", {"failing": ("t1",), "idle": 7}),
)


@pytest.mark.parametrize(("action", "rule", "differs"), CASES)
def test_each_rule_decides_where_it_holds(action: ActionName, rule: str, differs: dict[str, Any]) -> None:
    decision = decide(State(**{**ORDINARY, **differs}), SolverConfig())
    assert (decision.action, decision.rule) == (action, rule)


def test_only_a_posterior_share_must_be_clear_before_a_search_ends() -> None:
    unclear = State(**{**ORDINARY, "confidence": 0.5})
    assert [decide(unclear, SolverConfig(selector=name)).action for name in ("posterior", "codet")] == [
        "continue",
        "complete",
    ]


def test_mixed_signals_buy_more_candidates_an_end_none_and_a_new_start_fresh_ones_only():
    def samples(**differs: Any) -> int:
        return decide(State(**{**ORDINARY, "failing": ("t1",), **differs}), SolverConfig()).samples

    assert samples(confidence=0.5) == 8 and samples(alike=2) == 8
    assert samples() == 4 and samples(best=None, runnable=0, alike=0) == 4 and samples(turns_left=0) == 0


async def test_a_new_start_takes_another_plan_and_is_told_what_was_tried() -> None:
    bench = Bench(scripted("    return n.missing\n"))
    config = SolverConfig(max_answer_tokens=60, patience=4, repairs=0, plans=("plain", "steps"))
    await bench.solve("hc", config, tokens=40_000)
    anew = [prompt for prompt in bench.prompts if "Earlier attempts" in (prompt.text or "")]
    assert anew and all("AttributeError" in (prompt.text or "") for prompt in anew)
    plain = [prompt for prompt in bench.prompts if prompt.role == "solver" and prompt not in anew]
    assert plain, "every candidate was told what was tried"
    bench = Bench(lambda prompt: scripted(f"    return n.missing_{prompt.seed}\n")(prompt))
    differs = {"patience": 8, "samples_max": 4, "repairs": 2}
    outcome = await bench.solve("hc", config.model_copy(update=differs), tokens=40_000)
    decided = [event.detail for event in bench.log.actions("decide")]
    began = {one["state"]["round"] + 1 for one in decided if one["action"] == "no_progress"}
    repairs = {candidate.round for candidate in outcome.candidates if candidate.parent}
    assert repairs and not repairs & began, "a new start repairs none"
    done = [one["action"] for one in decided]
    assert done.count("no_progress") > 1 and ("no_progress",) * 2 not in pairwise(done), "patience begins anew"


def selection(chosen: str, scores: dict[str, float], *clusters: tuple[str, ...]) -> Selection:
    agreement = {name: float(len(cluster) - 1) for cluster in clusters for name in cluster}
    return Selection(selector="posterior", chosen=chosen, scores=scores, clusters=clusters, confidence=1.0, why="",
                     agreement=agreement)  # fmt: skip


def test_the_best_checkpoint_is_replaced_only_by_something_better() -> None:
    held = selection("a", {"a": -1.0}, ("a",))
    better = selection("b", {"a": -2.0, "b": -1.0}, ("a",), ("b",))
    equal = selection("b", {"a": -1.0, "b": -1.0}, ("a",), ("b",))
    agreed = selection("b", {"a": -1.0, "b": -1.0, "c": -1.0}, ("b", "c"), ("a",))
    assert checkpoint(None, equal).chosen == "b"
    assert checkpoint(held, better).chosen == "b" and checkpoint(held, agreed).chosen == "b"
    assert checkpoint(held, equal).chosen == "a"
    assert checkpoint(held, selection("b", {"b": -9.0})).chosen == "b", "what a verdict has failed is not kept"
