import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.cli.config_keys import known_keys
from hc_ray.climb.guardrails import neighbours, turn
from hc_ray.climb.knobs import KNOBS, Site, with_value
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Malformed
from hc_ray.tasks.vocabulary import Vocabulary

TINY = Site(solver=SolverConfig())
CAPABLE = Site(profile=Profile(name="capable", context_tokens=32_768), tools=True, solver=SolverConfig.model_validate(
    {"agent_style": "loop", "plans": ["plain"], "testgen": {"style": "files"}}))  # fmt: skip
CLIMBED = [knob for knob in KNOBS.values() if knob.turner == "climb"]


def test_the_table_has_a_line_for_every_setting_and_every_trait_that_a_knob_needs_can_hold():
    keys = {key for key in known_keys() if key.startswith(("solver.", "budget."))}
    assert set(KNOBS) == keys - {"solver.testgen"} and all(len(knob.meaning) > 10 for knob in KNOBS.values())
    assert not {knob.key for knob in CLIMBED} & {"solver.refinement", "solver.testgen.budget_tokens", "budget.tokens"}
    more = {"use_skills": True, "testgen": {"style": "files", "rounds": 2}}
    sites = [TINY, CAPABLE, CAPABLE.model_copy(update={"solver": SolverConfig.model_validate(more)})]
    assert {trait for knob in KNOBS.values() for trait in knob.needs} <= set().union(*(one.traits for one in sites))


def test_the_box_of_a_climb_lies_within_the_limits_of_the_field():
    wide = SolverConfig.model_validate({"samples_max": 16, "testgen": {"tests_per_category_max": 20}})
    for knob in CLIMBED:
        for end in knob.box[:2] if knob.box else ():
            value = [end] * 3 if knob.kind == "ladder" else end
            assert knob.at(with_value(wide, knob.key, value)) == value


@pytest.mark.parametrize(("key", "asked", "after"), [
    ("solver.temperatures", [0.9, 0.9, 0.9], [0.4, 0.6, 0.8]), ("solver.temperatures", 0.45, [0.25, 0.45, 0.65]),
    ("solver.testgen.tests_per_category_max", 17, 6), ("solver.testgen.tests_per_category_min", 1, None),
    ("solver.testgen.rounds", "1", 1), ("solver.testgen.rounds", "+1", None),
    ("solver.testgen.rounds", "[" * 10_000, None), ("solver.testgen.temperature", 5, 0.8),
    ("solver.samples", True, None), ("solver.samples", float("nan"), None),
    ("solver.selector", "best", None), ("solver.decompose", "model", "model"),
    ("solver.plans", "steps", ["steps", "plain", "simple", "literal", "edge_first", "examples"]),
    ("solver.plans", "nowhere", None), ("solver.hint", "  check\nthe edges ", "check the edges"),
    ("solver.hint", "word " * 60, ("word " * 30).strip()), ("solver.hint", 7, None),
])  # fmt: skip
def test_what_is_asked_for_is_clipped_to_the_nearest_legal_value(key, asked, after):
    turned = turn(KNOBS[key], asked, TINY)
    assert (None if isinstance(turned, Malformed) else KNOBS[key].at(turned)) == after


def test_a_hint_that_speaks_of_one_task_is_refused_and_a_change_that_comes_to_the_same_too():
    speaks = Vocabulary({"marmalade-sorting": ["Sort the marmalade."], "b": ["Count words."]}).found
    assert isinstance(turn(KNOBS["solver.hint"], "think of marmalade", TINY, speaks=speaks), Malformed)
    assert isinstance(turn(KNOBS["solver.hint"], "think of the edges", TINY, speaks=speaks), SolverConfig)
    level = Site(solver=SolverConfig(samples=8, samples_max=8))
    assert isinstance(turn(KNOBS["solver.samples_max"], 6, level), Malformed)


values = st.one_of(
    st.floats(-5, 60), st.integers(-100, 40_000), st.booleans(), st.text(max_size=200), st.none(),
    st.sampled_from(["full", "mbr", "steps", "model", "off", "loop", "calls"]),
    st.lists(st.floats(-1, 3), max_size=4), st.dictionaries(st.text(max_size=3), st.integers(), max_size=1),
)  # fmt: skip


@given(st.sampled_from([TINY, CAPABLE]), st.lists(st.tuples(st.sampled_from(CLIMBED), values), max_size=8),
       st.integers(1, 3))  # fmt: skip
def test_a_turned_knob_is_a_legal_config_within_the_guardrail_of_its_incumbent(site, path, reach):
    for knob, asked in path:
        turned = turn(knob, asked, site, reach=reach)
        if isinstance(turned, Malformed):
            continue
        solver = SolverConfig.model_validate(turned.model_dump())
        assert [one.key for one in CLIMBED if one.at(solver) != one.at(site.solver)] == [knob.key]
        assert solver.testgen.tests_per_category_min >= 2 and len(solver.hint) <= 150
        if knob.box:
            low, high, step = knob.box
            values = (knob.at(one) for one in (solver, site.solver))
            for now, before in zip(*(one if isinstance(one, list) else [one] for one in values), strict=True):
                assert abs(now - before) <= step * reach + 1e-9 and low - 1e-9 <= now
                assert now <= max(high, before) + 1e-9
        site = site.model_copy(update={"solver": solver})
        assert all(one != solver for one in neighbours(knob, site, reach))
