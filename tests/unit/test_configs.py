"""The configs of a sweep: how they are written, what they may differ in, which agent runs under which, and what they
share."""

from itertools import product

import pytest

from hc_ray.agent import prompt_templates
from hc_ray.cli.options import config_from
from hc_ray.domain.config import BudgetConfig, EngineConfig, SolverConfig, SweepConfig
from hc_ray.domain.errors import ConfigError, OutputError
from hc_ray.domain.value import digest_of
from hc_ray.domain.variants import labels, variants
from hc_ray.reports import report
from hc_ray.reports.comparison import _correct
from hc_ray.reports.sweep_page import report_sections
from hc_ray.reports.terminal import tell
from hc_ray_actors.driver.configs import PlannedConfig, drafts, read_by, settle
from hc_ray_actors.driver.estimate import expected_tokens
from hc_ray_actors.driver.plan import _trials
from tests.fakes import sweepdir
from tests.fakes.screen import said
from tests.fakes.trial import BROKEN, TASK, WRONG, Bench, body_of

ENGINE = EngineConfig(kind="scripted", script="tests.fakes.answers:adds")


def settled(*, agents=("raw", "best_of_n", "hc"), **given):
    return settle(drafts(SweepConfig.model_validate({"agents": agents, "engine": ENGINE.model_dump(), **given})))


def test_a_grid_is_the_product_of_its_values_in_one_order_and_no_two_configs_are_equal():
    named = [{"name": name, "solver.hint": name} for name in ("wide", "base")]
    flat = {"solver.samples": [2, 4], "solver.testgen.rounds": [1, 3], "budget.tokens": [5000]}
    nested = {"solver": {"samples": [2, 4], "testgen": {"rounds": [1, 3]}}, "budget": {"tokens": [5000]}}
    one, other = (SweepConfig.model_validate({"seeds": 3, "configs": named, "grid": form}) for form in (flat, nested))
    found = [variant.validated(one) for variant in variants(one)]
    rows = [(c.solver.hint, c.solver.samples, c.solver.testgen.rounds, c.budget.tokens) for c in found]
    assert rows == list(product(("wide", "base"), (2, 4), (1, 3), (5000,)))
    assert len({variant.name for variant in variants(one)}) == len({digest_of(config) for config in found}) == 8
    assert variants(other) == variants(one) == variants(SweepConfig.model_validate(one.model_dump(exclude_unset=True)))
    assert all(config.seeds == 3 and "max_turns" not in config.solver.model_fields_set for config in found)


@pytest.mark.parametrize(("text", "says"), [
    ("grid: {solver.samplse: [2]}", ":3: config samplse=2: unknown key solver.samplse; did you mean solver.samples?"),
    ("grid: {samples: [2]}", ":3: config samples=2: unknown key samples; did you mean solver.samples?"),
    ("grid: {solver: {samples: []}}", ":3: grid: solver.samples needs a list of values"),
    ("grid: {solver.samples: 4}", ":3: grid: solver.samples needs a list of values"),
    ("grid: {seeds: [1, 2]}", ":3: grid: seeds cannot be varied: configs of one sweep may differ in solver"),
    ("grid: {solver.samples: [2, x]}", ":3: config samples=x: solver.samples: 'x' is not allowed"),
    ("grid: {budget.tokens: [9]}", ":3: config tokens=9: budget.tokens (9) must be greater than"),
    ("configs: [{name: a}, {name: a, solver.samples: 2}]", ":3: configs: two configs have the name a"),
    ("configs: [{solver.samples: 2}]", ":3: configs: each config needs a name"),
    ("configs: [a, b]", ":3: configs: must be a list of configs"),
    ("configs: [{name: a, dataset: x}]", ":3: configs: dataset cannot be varied"),
    ("configs: [{name: a, solver: {reparis: 1}}]", "config a: unknown key solver.reparis; did you mean solver.repairs"),
    ("split: holdout\ngrid: {solver.samples: [2]}", "split: holdout runs at most two configs"),
    ("split: holdout\nconfigs: [{name: a}, {name: b}, {name: c}]", "split: holdout runs at most two configs"),
])  # fmt: skip
def test_a_mistake_in_configs_is_one_line_that_names_its_place(text, says, tmp_path):
    (file := tmp_path / "mine.yaml").write_text(f"\nseeds: 2\n{text}\n")
    with pytest.raises(ConfigError) as told:
        config_from(str(file), {})
    assert says in str(told.value) and len(str(told.value).splitlines()) == 1


def test_set_varies_a_key_and_wins_over_the_file(tmp_path):
    (file := tmp_path / "mine.yaml").write_text("grid: {solver.samples: [1]}\n")
    config = config_from(str(file), {}, sets=["grid.solver.samples=[2, 4]", "configs=[{name: a, solver.repairs: 1}]"])
    assert [variant.name for variant in variants(config)] == ["a samples=2", "a samples=4"]
    with pytest.raises(ConfigError, match=r"--set: unknown key grid\.solver\.samplse; .* mean grid\.solver\.samples\?"):
        config_from(None, {}, sets=["grid.solver.samplse=[2]"])
    with pytest.raises(ConfigError, match=r"--set grid: solver\.samples needs a list"):
        config_from(str(file), {}, sets=["grid.solver.samples=2"])


@pytest.mark.parametrize(("given", "says"), [
    ({"grid": {"solver.observation_chars": [500, 900]}}, "has no effect with these settings; it needs: style loop"),
    ({"grid": {"budget.lineage_tokens": [500, 900]}}, "budget.lineage_tokens has no effect with these settings"),
    ({"solver": {"agent_style": "loop"}, "agents": ("raw", "hc"), "grid": {"solver.samples_max": [4, 9]}},
     "solver.samples_max has no effect"),
    ({"grid": {"solver.plans": [["plain"], ["plian"]]}}, "did you mean plain?"),
    ({"grid": {"solver.samples": [2, 2]}}, "configs 'samples=2' and 'samples=2' are the same"),
    ({"configs": [{"name": "a"}, {"name": "b", "solver.samples": 4}]}, "configs 'a' and 'b' are the same"),
])  # fmt: skip
def test_a_knob_without_effect_and_a_config_given_twice_are_refused_in_one_line(given, says):
    with pytest.raises(ConfigError) as told:
        settled(**given)
    assert says in str(told.value) and len(str(told.value).splitlines()) == 1


def test_what_only_one_agent_reads_varies_for_it_and_who_cannot_tell_configs_apart_runs_under_one_of_them():
    configs, _ = settled(solver={"agent_style": "loop"}, grid={"solver.samples_max": [4, 9]})
    rows = [[one.stands[agent] == one.hash for agent in ("raw", "best_of_n", "hc")] for one in configs]
    assert rows == [[True, True, True], [False, True, False]]
    configs, notes = settled(grid={"solver.selector": ["mbr", "posterior"], "solver.temperatures": [[0.1], [0.5]]},
                             seeds=2, agents=("raw", "best_of_n", "hc", "oracle"))  # fmt: skip
    trials = _trials(configs, [TASK, TASK.model_copy(update={"name": "u", "digest": "cd" * 32})], "bwrap")
    told = [(key.seed, key.task, key.agent) for key in trials]
    rows = {agent: told.count((0, "u", agent)) for _, _, agent in told}
    assert rows == {"raw": 1, "best_of_n": 2, "hc": 4, "oracle": 1}
    assert len({key.name for key in trials}) == len(trials) == 2 * 2 * 8
    assert told == sorted(told, key=lambda one: (one[0], one[1] == "u"))
    assert "raw runs under 1 of 4 configs: it does not use what the others change" in notes
    one, notes = settled(agents=("oracle", "nop"), grid={"solver.samples": [2, 4, 8]})
    assert len(one) == 1 and "config samples=8 is left out: for oracle, nop it equals another config" in notes


UNREAD = {"testgen": {"rounds": 4, "gate": "off"}, "selector": "codet", "feedback": "full", "repairs": 0, "patience": 1,
          "max_rounds": 1, "tournament": True, "decompose": "model", "refinement": 1}  # fmt: skip
NOT_RAW = {"samples": 1, "samples_max": 2, "greedy": 0, "temperatures": (1.5,)}


@pytest.mark.parametrize(
    ("agent", "style", "others", "tokens"),
    [("raw", "direct", UNREAD | NOT_RAW | {"max_turns": 3}, 4000), ("raw", "loop", UNREAD | NOT_RAW, 6000),
     ("best_of_n", "direct", UNREAD | {"samples": 1, "samples_max": 2}, 6000), ("best_of_n", "loop", UNREAD, 6000)],
)  # fmt: skip
async def test_what_an_agent_is_said_not_to_read_changes_none_of_its_prompts(agent, style, others, tokens):
    def answer(prompt):
        if style == "direct":
            return body_of(prompt, WRONG if prompt.seed % 2 else BROKEN)
        begun = any(message.role == "assistant" for message in prompt.messages)
        return "```submit\n```" if begun else f"```write double.py\ndef double(n):\n{WRONG}# {prompt.seed}\n```"

    seen = []
    for changes, spent in (({}, 6000), (others, tokens)):
        config = SolverConfig.model_validate({"agent_style": style, "max_answer_tokens": 60, **changes})
        bench = Bench(answer, verdicts=(False,))
        outcome = await bench.solve(agent, config, budget=BudgetConfig(tokens=spent))
        planned = PlannedConfig(name="", config=SweepConfig(solver=config, budget=BudgetConfig(tokens=spent)))
        asked = sorted(prompt.model_dump_json() for prompt in bench.prompts)  # those of a round come side by side
        seen.append((asked, outcome.chosen, bench.submissions[0].tar, read_by(agent, planned)))
    assert seen[0] == seen[1] and seen[0][0]


def test_each_template_belongs_to_one_role_and_changes_that_roles_prompts_alone(tmp_path, monkeypatch):
    roles = ("tester", "decomposer", "solver", "meta")
    texts = {path.name: path.read_text() for path in prompt_templates.PROMPTS.glob("*.txt")}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(prompt_templates, "PROMPTS", tmp_path)
    digest = prompt_templates.prompts_digest.__wrapped__
    before = {role: digest(role) for role in roles}
    owned = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text + "!")
        (owned[name],) = [role for role in roles if digest(role) != before[role]]
        (tmp_path / name).write_text(text)
    assert owned["tests_file.txt"] == owned["test_chat.txt"] == "tester" and owned["own_tests.txt"] == "solver"
    assert owned["decompose.txt"] == "decomposer" and owned["repair.txt"] == "solver" and owned["meta.txt"] == "meta"


def test_raw_is_estimated_at_one_answer_or_at_one_lineage():
    direct, _ = settled(agents=("raw",), solver={"max_answer_tokens": 500})
    assert expected_tokens(_trials(direct, [TASK], "bwrap")) == 300 + 500
    loop, _ = settled(agents=("raw",), solver={"agent_style": "loop"}, budget={"tokens": 40_000})
    assert expected_tokens(_trials(loop, [TASK], "bwrap")) == 10_000


def test_suites_that_configs_share_are_estimated_once_and_labels_say_briefly_what_differs():
    paid = {"testgen": {"budget_tokens": 1000}}
    configs, _ = settled(agents=("hc",), solver=paid, grid={"solver.samples": [2, 4, 8]})
    assert expected_tokens(_trials(configs, [TASK], "bwrap")) == 3 * 6000 - 2 * 1000
    own, _ = settled(agents=("hc",), grid={"solver.testgen.rounds": [1, 2, 3]})
    assert expected_tokens(_trials(own, [TASK], "bwrap")) == 3 * 6000
    assert labels([{"a.n": 2, "b.s": "x"}, {"a.n": 4, "b.s": "x"}]) == ["n=2", "n=4"]
    assert labels([{"a.n": 1, "b.n": 1}, {"a.n": 2, "b.n": 2}]) == ["a.n=1, b.n=1", "a.n=2, b.n=2"]
    assert labels([{"a": "", "b": 1}, {"a": None, "b": 2}], ["a"]) == ['a=""', "a=null"] and labels([{"a": 1}]) == [""]


def swept(*named):
    """A sweep with these configs, whose ``raw`` ran under the first only."""
    declared = [
        {"name": name, "hash": name * 8, "changes": {"solver.samples": samples}, "stands": {"raw": named[0][0] * 8},
         "settings": {"solver.samples": samples, "solver.repairs": 2}}
        for name, samples in named
    ]  # fmt: skip
    store = sweepdir.sweep(configs=declared)
    sweepdir.add_trials(store, "raw", [False] * 12, config_hash=named[0][0] * 8)
    for number, (name, _) in enumerate(named):
        sweepdir.add_trials(store, "hc", [True] * (2 + 5 * number) + [False] * (10 - 5 * number), config_hash=name * 8)
    return store


def test_a_report_names_configs_by_what_differs_and_compares_agents_of_each_and_configs_with_the_first():
    summary = report.summarise(swept(("base", 4), ("wide", 8), ("most", 9)))
    assert [one["label"] for one in summary["configs"]] == ["raw", "hc (base)", "hc (wide)", "hc (most)"]
    assert [(one["a_hash"], one["b_hash"]) for one in summary["comparisons"]] == [
        ("base" * 8, "base" * 8), ("wide" * 8, "base" * 8), ("most" * 8, "base" * 8), ("wide" * 8, "base" * 8),
        ("most" * 8, "base" * 8),
    ]  # fmt: skip
    assert "each agent's configs with its first" in summary["compared"]
    for told in (said(tell, *report_sections(summary)), report.html(summary)):
        assert "wide: samples=8" in told and "after Holm" in told and "each agent" in told
    assert summary["criteria"][0]["name"].startswith("hc (base): ")


def test_more_than_a_handful_of_comparisons_is_corrected_and_said_accordingly():
    made = [{"p": p, "says": "improved"} for p in (0.04, 0.001, 0.02, 0.03)]
    _correct([*made, {"p": None, "says": "not measured"}])
    assert [round(one["p_corrected"], 3) for one in made] == [0.06, 0.004, 0.06, 0.06]
    assert [one["says"] for one in made][1] == "improved" and "4 comparisons" in made[0]["says"]
    few = report.summarise(sweepdir.demo_like())
    assert few["compared"] == "" and all(one["p_corrected"] is None for one in few["comparisons"])


def test_several_sweeps_of_a_dataset_make_one_report_and_a_trial_in_two_of_them_counts_once():
    one, other = swept(("base", 4)), swept(("base", 4), ("wide", 8))
    summary = report.summarise_several({"first": one, "second": other})
    rows = [(c["label"], c["trials"]) for c in summary["configs"]]
    assert rows == [("raw", 12), ("hc (base)", 12), ("hc (wide)", 12)]
    assert summary["sweep"]["repeated"] == 24 and summary["sweep"]["directories"] == ["first", "second"]
    assert "first, second" in report.html(summary)
    failed, scored = sweepdir.sweep(), sweepdir.sweep()
    for store, passed in ((failed, None), (scored, True)):
        sweepdir.add_trial(store, "t00", "hc", passed)
    for order in ({"a": failed, "b": scored}, {"b": scored, "a": failed}):
        assert [row["passed"] for row in report.summarise_several(order)["trials"]] == [True]
    older = sweepdir.sweep()
    sweepdir.add_trials(older, "hc", [True] * 12)
    summary = report.summarise_several({"a": older, "b": swept(("base", 8))})
    rows = [(c["label"], c["config"]) for c in summary["configs"]]
    assert rows == [("raw", ""), ("hc (a)", "a: samples=4"), ("hc (base)", "base: samples=8")]


def test_sweeps_of_different_datasets_and_changed_tasks_make_no_report():
    one, other = swept(("base", 4)), sweepdir.sweep(SweepConfig(dataset="terminal"))
    with pytest.raises(OutputError, match="b ran on dataset terminal, a on starter"):
        report.summarise_several({"a": one, "b": other})
    changed = swept(("base", 4))
    for path, data in changed.files.items():
        changed.files[path] = data.replace(b"digest-of-t03", b"another")
    with pytest.raises(OutputError, match="task t03 differs between b and a"):
        report.summarise_several({"a": one, "b": changed})
