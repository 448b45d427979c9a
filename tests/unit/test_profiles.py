import json

import pytest

from hc_ray.cli.config_loader import load_config
from hc_ray.domain.config import EngineConfig, SweepConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.ports import Capabilities
from hc_ray.domain.profile import Profile, lineage_tokens
from hc_ray.engines.profiles import for_context, settled, shipped
from hc_ray_actors.role_models import role_model

CAPABLE = shipped("capable")


def test_a_small_context_gets_the_tiny_profile_of_defaults_and_a_large_one_the_whole():
    profile, why = for_context(4095)
    assert (profile.name, profile.context_tokens, profile.settings) == ("tiny", 4095, {}) and "4,095" in why
    assert settled(SweepConfig(), profile) == SweepConfig()
    for tokens in (16_384, 131_072):
        assert for_context(tokens)[0] == CAPABLE.model_copy(update={"context_tokens": tokens})


@pytest.mark.parametrize("tokens", [4096, 8192, 16_383])
def test_a_middle_context_gets_shorter_answers_and_outputs_and_the_smallest_the_latter_unless_they_are_set(tokens):
    profile, why = for_context(tokens)
    assert (profile.name, profile.context_tokens) == ("capable", tokens) and "shortened" in why
    solver = settled(SweepConfig(), profile).solver
    assert solver.max_answer_tokens == solver.testgen.answer_tokens == min(4000, tokens // 4)
    assert solver.observation_chars == 4000 < CAPABLE.settings["solver.observation_chars"]
    rest = {key for key in CAPABLE.settings if profile.settings[key] != CAPABLE.settings[key]}
    assert rest <= {"solver.max_answer_tokens", "solver.testgen.answer_tokens", "solver.observation_chars"}
    given = {"solver": {"agent_style": "loop", "max_answer_tokens": 400}}
    assert settled(SweepConfig.model_validate(given), for_context(2048)[0]).solver.observation_chars == 4000
    given["solver"]["observation_chars"] = 9000
    for one in (profile, for_context(2048)[0]):
        assert settled(SweepConfig.model_validate(given), one).solver.observation_chars == 9000


def test_what_is_set_wins_also_where_it_is_the_default_and_a_suite_costs_a_fifth_of_a_set_budget():
    given = {"solver": {"max_turns": 30, "testgen": {"style": "lines", "budget_tokens": 900}},
             "budget": {"tokens": 5000}}  # fmt: skip
    config = settled(SweepConfig.model_validate(given), CAPABLE)
    assert (config.solver.max_turns, config.solver.testgen.style, config.budget.tokens) == (30, "lines", 5000)
    assert config.solver.testgen.budget_tokens == 900 and config.solver.agent_style == "loop"
    small = settled(SweepConfig.model_validate({"budget": {"tokens": 20_000}}), CAPABLE)
    assert small.solver.testgen.budget_tokens == 4000
    assert settled(SweepConfig(), CAPABLE).solver.testgen.budget_tokens == 40_000


def test_the_bundled_model_s_short_terms_come_from_its_profile_and_bind_no_other_model():
    demo = load_config("demo")
    bundled = settled(demo, role_model(EngineConfig())[1])
    assert (bundled.budget.tokens, bundled.solver.testgen.budget_tokens, bundled.solver.max_rounds) == (2200, 700, 2)
    for name in ("demo", "climb", "compare", "starter"):
        assert settled(load_config(name), for_context(32_768)[0]).budget.tokens == 200_000
    mixed = settled(demo, role_model(EngineConfig())[1], CAPABLE)
    assert mixed.solver.testgen.budget_tokens == 2200 // 5


@pytest.mark.parametrize("budget", [{"tokens": 2200}, {"lineage_tokens": 900}])
def test_a_budget_of_which_no_agent_could_ask_anything_is_refused(budget):
    with pytest.raises(ConfigError, match=r"`capable` one agent would get (550|900) tokens .* 16,000 or more"):
        settled(SweepConfig.model_validate({"budget": budget}), for_context(32_768)[0])
    direct = settled(SweepConfig.model_validate({"budget": budget}), shipped("tiny"))
    assert lineage_tokens(direct.budget) in (550, 900)


def test_to_settle_twice_or_after_a_resume_changes_nothing():
    once = settled(SweepConfig.model_validate({"budget": {"tokens": 20_000}}), for_context(8192)[0])
    again = SweepConfig.model_validate(json.loads(json.dumps(once.model_dump(mode="json"))))
    for profile in (for_context(8192)[0], CAPABLE, shipped("tiny")):
        assert settled(once, profile) == settled(again, profile) == once
    assert once.solver.hash == again.solver.hash


def test_values_that_do_not_fit_together_are_refused_with_the_profile_s_name():
    odd = Profile(name="odd", settings={"solver.testgen.total_max": 3})
    with pytest.raises(ConfigError, match=r"`odd`.*total_min"):
        settled(SweepConfig(), odd)


@pytest.mark.parametrize(("given", "seen", "context", "name"), [
    (None, 8192, 8192, "capable"), (None, 2048, 2048, "tiny"), (None, None, 16_384, "capable"),
    (6000, 32_768, 6000, "capable"),
])  # fmt: skip
def test_a_model_is_prompted_by_the_context_that_is_configured_or_seen(given, seen, context, name):
    engine = EngineConfig(kind="openai", base_url="http://127.0.0.1:9/v1", model="nobody-s", context_tokens=given)
    found, profile, digest = role_model(engine, Capabilities(context=seen))
    assert (profile.name, profile.context_tokens, found.context_tokens) == (name, context, given)
    assert digest == role_model(engine, Capabilities(context=seen))[2]
