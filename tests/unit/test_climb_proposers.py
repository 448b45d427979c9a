import json

import pytest

from hc_ray.climb import meta_reasoner, rules, tpe
from hc_ray.climb.evaluation import FACTS, Aggregates
from hc_ray.climb.knobs import KNOBS, Site, live
from hc_ray.climb.proposals import Decision, Moment, Record, propose
from hc_ray.climb.race import Evidence
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.prompt import Completion, Malformed, Prompt

SITE = Site(solver=SolverConfig())
SEEN = Aggregates(tasks=12, trials=24, pass_rate=0.25, means={"duplicates": 0.1, "ended by turns": 0.2})


def moment(**more):
    plain = {"site": SITE, "knobs": live(SITE), "aggregates": SEEN, "history": [], "generation": 3, "place": 0,
             "reach": 1, "seed": 5, "taken": frozenset()}  # fmt: skip
    return Moment(**{**plain, **more})


def decided(key, asked, delta, by="tpe", verdict="reverted"):
    found = propose(moment(), by, key, asked, "because it may help here")
    assert not found.fault
    worth = Evidence(stage="race", seeds=2, tasks=12, control=0.3, changed=0.3 + delta, delta=delta)
    decision = Decision.model_validate({"verdict": verdict, "why": "", "evidence": [worth.model_dump()]})
    return Record(proposal=found, decision=decision)


class Meta:
    """Answers the same, and keeps what it was asked."""

    def __init__(self, answer):
        self.answer, self.asked = answer, list[Prompt]()

    def __call__(self, prompt):
        self.asked.append(prompt)
        return None if self.answer is None else Completion(text=self.answer, prompt_tokens=900, completion_tokens=60)


def said(knob, value, reason="Few candidates differ, so more variety may find another."):
    return json.dumps({"knob": knob, "value": value, "reason": reason})


@pytest.mark.parametrize(("seen", "key", "up"), [
    ({"means": {"duplicates": 0.6}}, "solver.temperatures", True),
    ({"means": {"malformed": 0.5}}, "solver.temperatures", False),
    ({"means": {"weak_suite": 0.8}}, "solver.testgen.rounds", True),
    ({"means": {"self_pass": 0.9}}, "solver.testgen.tests_per_category_max", True),
    ({"means": {"self_pass": 0.1}, "pass_rate": 0.6}, "solver.repairs", False),
    ({"means": {"ended by turns": 0.5}}, "solver.max_turns", True),
    ({"means": {"ended by tokens": 0.5}}, "solver.samples", False),
])  # fmt: skip
def test_rules_turn_what_the_aggregates_point_at_and_go_on_where_that_was_tried(seen, key, up):
    now = moment(aggregates=SEEN.model_copy(update=seen))
    first = rules.suggest(now)
    assert first.knob == key and (first.after > first.before) == up
    again = rules.suggest(now._replace(history=[Record(proposal=first, decision=Decision(verdict="reverted", why=""))]))
    assert again.solver != first.solver and not again.fault


def test_rules_try_everything_within_reach_once():
    now, tried = moment(knobs=[KNOBS["solver.repairs"], KNOBS["solver.selector"]]), list[Record]()
    for _ in range(5):
        tried.append(Record(proposal=rules.suggest(now._replace(history=tried))))
    assert len({one.proposal.solver.hash for one in tried}) == 5 and not any(one.proposal.fault for one in tried)
    assert "was tried" in rules.suggest(now._replace(history=tried)).fault


@pytest.mark.parametrize("answer", [
    f"Sure!\n```json\n{said('solver.repairs', 1)}\n```",
    "<think>\nPerhaps {x} or " + said("solver.samples", 9) + "?\n</think>\n" + said("solver.repairs", 1),
    json.dumps({**json.loads(said("solver.repairs", 1)), "confidence": 0.7, "expected": {"pass rate": 0.4}}),
    json.dumps({"changes": [json.loads(said("solver.repairs", 1))]}), said("solver.repairs", 1) + " {}",
    said("solver.repairs", 1).replace("}", ', "more": "in two\nlines"}'),
])  # fmt: skip
def test_a_models_change_is_its_last_object_with_a_knob_whatever_else_it_says(answer):
    found = meta_reasoner.read(Completion(text=answer))
    assert not isinstance(found, Malformed) and (found.knob, found.value) == ("solver.repairs", 1)


def test_the_meta_reasoner_is_shown_live_knobs_aggregates_and_its_own_history_alone():
    meta = Meta(said("solver.temperatures", [0.9, 0.9, 0.9]))
    own = decided("solver.repairs", 3, 0.08, "meta-reasoner", "accepted")
    found = meta_reasoner.suggest(moment(history=[own, decided("solver.samples", 6, -0.05)]), meta)
    (asked,) = meta.asked
    text = asked.messages[0].content
    assert (asked.role, found.proposer, found.after, found.tokens) == ("meta", "meta-reasoner", [0.4, 0.6, 0.8], 960)
    assert found.asked == [0.9, 0.9, 0.9] and found.answer == meta.answer and "variety" in found.reason
    assert "solver.repairs: 2 to 3: accepted, pass rate +0.080" in text and "solver.samples: 4 to 6" not in text
    assert "pass rate: 0.25" in text and "duplicates: 0.1 (share of a trial's candidates that repeat" in text
    assert set(meta_reasoner.MEANING) == set(FACTS)
    assert "ended by turns: 0.2 (share of searches that reached their limit of turns)" in text
    assert "solver.hint" in text and "solver.tournament" not in text and "budget.tokens" not in text
    assert asked.schema_ and asked.schema_["properties"]["knob"]["enum"] == [knob.key for knob in live(SITE)]


@pytest.mark.parametrize(("style", "says", "not_says"), [
    ("direct", "Candidates per ordinary round", "lineage"),
    ("loop", "Parallel lineages per round after the first", "Candidates per ordinary round"),
])  # fmt: skip
def test_the_meta_reasoner_reads_of_a_setting_what_it_does_in_the_style_that_it_tunes(style, says, not_says):
    site, meta = Site(solver=SolverConfig(agent_style=style)), Meta(said("solver.repairs", 1))
    meta_reasoner.suggest(moment(site=site, knobs=live(site)), meta)
    (samples,) = [line for line in meta.asked[0].messages[0].content.splitlines() if "solver.samples " in line]
    assert says in samples and not_says not in samples


@pytest.mark.parametrize(("answer", "note"), [
    (None, "no model answered"), ("I would raise it.", "no JSON object"),
    ('{"knob": ["x"], "value": 1, "reason": "It is good to do."}', "no JSON object"),
    (said("solver.samples", 6, "More."), "no reason"), (said("solver.tournament", True), "style loop"),
    (said("budget.tokens", 10**9), "no knob of a climb"), (said("solver.samples", 4), "change nothing"),
    (said("solver.hint", "{" * 5000), ""), (said("solver.repairs", 9), "repeats solver.repairs = 3"),
    ('{"knob":' + "[" * 9000 + "}", "no JSON object"),
])  # fmt: skip
def test_rules_take_the_turn_of_a_meta_reasoner_whose_answer_cannot_run(answer, note):
    found = meta_reasoner.suggest(moment(history=[decided("solver.repairs", 3, -0.1)]), Meta(answer))
    assert found.proposer == ("rules" if note else "meta-reasoner") and note in found.reason and not found.fault
    assert found.answer == (answer or "") and found.tokens == (960 if answer else 0)


def test_tpe_turns_what_has_helped_and_is_a_function_of_seed_and_of_what_ran():
    good = [decided("solver.feedback", "full", 0.3) for _ in range(3)]
    bad = [decided(key, value, -0.2) for key, value in (("solver.samples", 6), ("solver.repairs", 1),
           ("solver.selector", "mbr"), ("solver.decompose", "model"), ("solver.testgen.gate", "off"))] * 3  # fmt: skip
    drawn = [tpe.suggest(moment(history=[*good, *bad], seed=seed)).knob for seed in range(12)]
    assert drawn.count("solver.feedback") >= 4, drawn
    history = [decided("solver.repairs", 3 + i % 2, 0.01 * i) for i in range(5)]
    first = tpe.suggest(moment(history=history))
    assert first == tpe.suggest(moment(history=history)) and not first.fault
    clipped = [one.model_copy(update={"proposal": one.proposal.model_copy(update={"asked": 99})}) for one in history]
    assert tpe.suggest(moment(history=clipped)) == first
    assert tpe.suggest(moment(history=history, taken=frozenset({first.solver.hash}))).solver != first.solver
