import html.parser
import json
import re
from itertools import product
from typing import Any

import pytest

from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import OutputError
from hc_ray.reports import report
from hc_ray.reports.sweep_page import report_sections, result_sections
from hc_ray.reports.terminal import tell
from hc_ray.statistics import estimators
from hc_ray_actors.driver.sweep import SweepSummary
from tests.fakes import sweepdir
from tests.fakes.screen import said


def config_of(summary: dict[str, Any], agent: str, split: str = "dev") -> dict[str, Any]:
    (found,) = [c for c in summary["configs"] if c["agent"] == agent and c["split"] == split]
    return dict(found)


def test_tasks_that_fail_their_own_check_are_named_with_the_command_that_shows_why(capsys):
    from hc_ray.cli.sweep import _finish

    store = sweepdir.sweep()
    for agent, solution in (("oracle", "exit status 3"), ("nop", "exit status 0")):
        sweepdir.add_trials(store, agent, [True, False, None], metadata={"solution": solution})
    sweepdir.add_trial(store, "t03", "oracle", False, metadata={"solution": "exit status 0"})
    summary = report.summarise(store)
    ended = SweepSummary(out="runs/x", done=6, unscored=2, report=summary)
    assert _finish(ended, planned=6, begun=0, as_json=False) == 3
    lines = [line for line in capsys.readouterr().out.splitlines() if "unseal" in line]
    assert [line.split()[:2] for line in lines] == [["t00", "nop"], ["t01", "oracle"], ["t03", "oracle"]]
    assert ["solution/solve.sh" in line for line in lines] == [False, True, False] and ": exit status 3" in lines[1]
    assert lines[1].rstrip().endswith("hc-ray unseal runs/x/t01__oracled0cc") and "reference solution" in lines[1]
    assert "hc-ray unseal OUT/t00__nopd0cc" in report.html(summary)


def test_a_sweep_that_ended_early_says_what_is_unfinished_what_starts_again_and_how_to_go_on(capsys):
    from hc_ray.cli.sweep import _finish

    summary = report.summarise(sweepdir.sweep())
    ended = SweepSummary(out="runs/x", done=2, unscored=0, interrupted=True, report=summary)
    assert _finish(ended, planned=6, begun=1, as_json=False) == 130
    told = "interrupted: 4 of 6 trials unfinished (1 of them had started and will start over)"
    assert f"{told}; to continue: hc-ray sweep --resume -o runs/x" in capsys.readouterr().out
    ended = SweepSummary(out="my runs/x", done=2, unscored=0, stopped=True, report=summary)
    assert _finish(ended, planned=6, begun=0, as_json=False) == 3
    told = "stopped: 4 of 6 trials unfinished; to continue: hc-ray sweep --resume -o 'my runs/x'"
    assert told in capsys.readouterr().out


def test_a_trial_s_seconds_are_those_in_which_it_stood_in_no_queue():
    store = sweepdir.sweep()
    name = sweepdir.add_trial(store, "t", "hc", True)
    (whole,) = report.rows_of(store)
    queues = {"queue for an engine or a sandbox": 0.25, "queue for a verdict": 0.5, "grading": 0.125}
    sweepdir.add_trial(store, "t", "hc", True, metadata={"phases": queues})
    (row,) = report.rows_of(store)
    assert row["trial"] == name and row["seconds"] == whole["seconds"] - 0.75


def comparison_of(summary: dict[str, Any], a: str, b: str) -> dict[str, Any]:
    (found,) = [c for c in summary["comparisons"] if (c["a"], c["b"]) == (a, b)]
    return dict(found)


def test_unscored_trials_are_in_no_rate_but_told_beside_and_those_tried_again_are_counted_once_scored():
    best_of_n = config_of(report.summarise(sweepdir.demo_like()), "best_of_n")
    assert (best_of_n["trials"], best_of_n["unscored"], best_of_n["passes"]) == (8, 1, 3)
    assert best_of_n["blind_pass"]["value"] == pytest.approx(3 / 7)
    assert best_of_n["blind_pass_unscored_as_fail"]["value"] == pytest.approx(3 / 8)
    assert best_of_n["unscored_causes"] == {"EngineError: the server died": 1}
    store = sweepdir.sweep()
    sweepdir.add_trial(store, "a", "raw", True, metadata={"failed_attempts": [{}, {}]})
    sweepdir.add_trial(store, "b", "raw", None, metadata={"failed_attempts": [{}]})
    sweepdir.add_trial(store, "c", "raw", False)
    (config,) = report.summarise(store)["configs"]
    assert (config["retried"], config["unscored"], config["trials"]) == (1, 1, 3)
    sweepdir.add_trial(store, "b", "raw", True)
    summary = report.summarise(store)
    assert all(
        "if unscored trials count as fails: raw 0.67" in told
        for told in (report.html(summary), said(tell, *report_sections(summary)))
    ), "also where there are none"


def test_what_was_not_measured_is_null_and_never_zero_and_so_is_a_total_with_a_gap():
    store = sweepdir.sweep()
    sweepdir.add_trials(store, "raw", [True, False], tokens=(None, None))
    sweepdir.add_trials(store, "best_of_n", [None, None])
    summary = report.summarise(store)
    raw = config_of(summary, "raw")
    assert raw["self_pass"]["value"] is None and raw["tokens"] is None and raw["tokens_per_pass"] is None
    assert raw["best_at_k"] == {"1": None} and raw["selection_efficiency"] is None
    nothing = config_of(summary, "best_of_n")
    assert nothing["blind_pass"]["value"] is None and nothing["blind_pass"]["low"] is None
    assert comparison_of(summary, "best_of_n", "raw")["says"].startswith("not measured")
    assert all(c["says"] == "not measured" and c["met"] is None for c in summary["criteria"])
    assert "not measured" in report.html(summary)
    store = sweepdir.sweep()
    sweepdir.add_trial(store, "a", "raw", True)
    sweepdir.add_trial(store, "b", "raw", True, tokens=(None, None))
    assert config_of(report.summarise(store), "raw")["tokens"] is None


def test_a_small_gain_is_no_difference_and_improved_is_said_only_above_the_threshold():
    comparison = comparison_of(report.summarise(sweepdir.demo_like()), "hc", "raw")
    assert comparison["delta"] == pytest.approx(0.25)
    effect = estimators.minimal_detectable_effect(8)
    assert comparison["says"] == f"no difference detected (8 tasks; minimum detectable effect {effect:.2f})"
    for wins, says in ((5, "no difference detected"), (9, "improved")):
        store = sweepdir.sweep()
        sweepdir.add_trials(store, "raw", [False] * 20)
        sweepdir.add_trials(store, "hc", [True] * wins + [False] * (20 - wins))
        comparison = comparison_of(report.summarise(store), "hc", "raw")
        assert comparison["says"].startswith(says) and (comparison["p"] < 0.05) == (says == "improved")


def test_a_comparison_pairs_by_task_and_seed_and_two_configs_of_one_agent_are_told_apart():
    assert comparison_of(report.summarise(sweepdir.demo_like()), "hc", "best_of_n")["tasks"] == 7
    store = sweepdir.sweep()
    sweepdir.add_trial(store, "a", "raw", True, seed=0)
    sweepdir.add_trial(store, "a", "hc", True, seed=1)
    assert report.summarise(store)["comparisons"][0]["delta"] is None
    store = sweepdir.sweep()
    for config_hash in ("a" * 64, "b" * 64):
        sweepdir.add_trials(store, "hc", [True, False], config_hash=config_hash)
    summary = report.summarise(store)
    assert (summary["comparisons"][0]["a"], summary["comparisons"][0]["b"]) == ("hc (bbbbbbbb)", "hc (aaaaaaaa)")
    assert len(summary["criteria"]) == 8


def test_harness_checks_of_both_sides_of_a_split_are_reported_without_a_model_never_compared_and_meet_no_criteria():
    store = sweepdir.sweep(SweepConfig(agents=("oracle", "nop")), split="all")
    assert report.summarise(store)["sweep"]["model"] is None, "MLflow is told before the first trial, too"
    for agent in ("oracle", "nop"):
        sweepdir.add_trials(store, agent, [agent == "oracle"] * 8, split="all")
    summary = report.summarise(store)
    assert [c["agent"] for c in summary["configs"]] == ["oracle", "nop"] and summary["comparisons"] == []
    assert summary["sweep"]["model"] is None and summary["criteria"] == []
    page = report.html(summary)
    assert "no model" in page and "Generalisation criteria" not in page and "Nothing to compare" in page
    assert "Blind pass rate" in page and "holdout (not measured)" not in page


def test_a_sweep_has_its_model_also_while_only_checks_of_the_harness_have_ended():
    store = sweepdir.sweep(SweepConfig(agents=("nop", "hc")))
    sweepdir.add_trials(store, "nop", [False])
    assert report.summarise(store)["sweep"]["model"] == SweepConfig().engine.model


@pytest.mark.parametrize(("passes", "tasks", "met", "says"), [
    (58, 60, True, "met"), (5, 60, False, "not met"), (5, 8, None, "too few tasks (8)"),
])  # fmt: skip
def test_a_criterion_is_decided_only_when_its_interval_lies_on_one_side(passes, tasks, met, says):
    store = sweepdir.sweep()
    sweepdir.add_trials(store, "hc", [True] * passes + [False] * (tasks - passes))
    blind = next(c for c in report.summarise(store)["criteria"] if c["name"] == "hc: blind pass rate on dev")
    assert (blind["met"], blind["says"], blind["needs"]) == (met, says, 0.6)


def test_the_gap_is_measured_once_both_splits_ran_each_in_a_sweep_of_its_own() -> None:
    dev, holdout = sweepdir.sweep(), sweepdir.sweep()
    sweepdir.add_trials(dev, "hc", [True] * 5 + [False] * 5)
    sweepdir.add_trials(holdout, "hc", [True] * 2 + [False] * 8, split="holdout")
    gap = report.summarise_several({"dev": dev, "holdout": holdout})["criteria"][-1]
    assert gap["value"] == pytest.approx(0.3) and gap["low"] < 0.3 < gap["high"]
    assert gap["met"] is None and gap["says"] == "reported"


def test_repeated_seeds_give_pass_at_k_and_selection_efficiency_from_one_pool() -> None:
    store = sweepdir.sweep()
    for task in ("a", "b", "c"):
        for seed in range(4):
            sweepdir.add_trial(store, task, "hc", seed == 2 and task != "c", seed=seed)
    hc = config_of(report.summarise(store), "hc")
    assert set(hc["pass_at_k"]) == {"1", "2", "3", "4"} and hc["pass_at_k"]["1"] == pytest.approx(1 / 6)
    assert hc["oracle_at_k"]["4"] == pytest.approx(2 / 3)
    # The passing seed is the one with the best self-tests, so selection reaches the ceiling.
    assert hc["best_at_k"]["4"] == pytest.approx(2 / 3) and hc["selection_efficiency"] == pytest.approx(1.0)


def told_in_full() -> sweepdir.MemoryStore:
    """A sweep of which a report has something to tell in every section."""
    store = sweepdir.sweep(planned_trials=99, speeds={})
    for seed, config_hash in product(range(2), ("a" * 64, "b" * 64)):
        for agent in ("raw", "hc"):
            sweepdir.add_trials(store, agent, [True, False, None], seed=seed, config_hash=config_hash,
                                metadata={"timeout_multiplier": 2.0, "self_tests": {"weak": True}})  # fmt: skip
    sweepdir.add_trial(store, "t00", "oracle", False)
    use = {"type": "engine_use", "trial": "", "at": 1.0, "engine": "m", "slots": 2, "seconds": 10.0, "busy": 15.0,
           "queued": 0.0, "waited": {}, "requests": 9, "prompt_tokens": 6, "completion_tokens": 5}  # fmt: skip
    store.write("events/000000.jsonl", json.dumps(use, separators=(",", ":")).encode())
    stage = {"judging": 4, "validity": {"value": 0.5, "low": 0.1, "high": 0.9, "hits": 2, "of": 4}}
    tasks = dict.fromkeys(("measured", "audited", "with_overlap"), 3)
    faults = dict.fromkeys(("candidates_failing", "candidates_passing"), 7)
    audit = {"whole": {"admitted": stage}, "tasks": tasks, "faults": faults, "definitions": {"validity": "is right"}}
    store.write("audit.json", json.dumps(audit).encode())
    return store


def test_each_section_stands_in_terminal_and_page_and_each_figure_and_list_on_the_page():
    summary = report.summarise(told_in_full())
    page, told = html.unescape(report.html(summary)), said(tell, *report_sections(summary))
    for words in (
        "25 of 99 trials, 3 tasks", "In 4 comparisons no difference was detected.", "A/A check of raw (aaaaaaaa) (dev)",
        "time limits multiplied by 2.0", "24 trials had a weak suite", "Pass@k over repeated seeds",
        "0.50 [0.10, 0.90] 2/4",
        "with 7 failing and 7 passing candidates", "Generalisation criteria", "within-task AUROC", "In 10 s: 9 answers",
        "Verdict bits given to trials: 17", "EngineError: the server died", "hc-ray unseal OUT/t00__oracled0cc",
    ):  # fmt: skip
        assert words in page and words in told, words
    for words in (
        "Wilson's", "difference [95 % interval]", "Blind pass rate by test generation", "Internal against blind",
        "Pass share by task and config", "25 trials in 30 s, at most 25 at a time.", "From 0 to all slots, over 10 s",
        "Definitions of self-test quality", "is right", "All 25 trials", "solver.samples", "versions.git_sha",
    ):  # fmt: skip
        assert words in page and words not in told, words
    coloured = {tone: page.count(f'<path fill="var(--{tone})" d="M') for tone in ("good", "bad", "soft")}
    assert coloured == {"good": 1, "bad": 1, "soft": 1} and "<span class=good>pass</span>" in page
    several = report.summarise_several({name: told_in_full() for name in ("one", "two")})
    assert "sweep one, two; 25 trials in more than one of them" in said(tell, *report_sections(several))


def test_the_head_says_how_the_tests_ran_and_which_passes_no_second_witness_bears_out():
    store = sweepdir.sweep()
    sweepdir.add_trials(store, "raw", [True, False])
    told = said(tell, *report_sections(report.summarise(store)))
    assert "tests ran in a fresh sandbox (isolated) · bwrap · network where task.toml declares one" in told
    assert "second witness" not in told
    own = {"grading": "shared", "sandbox": "docker", "network": "task", "witness": "none"}
    sweepdir.add_trials(store, "hc", [True, False, None], metadata=own)
    told = said(tell, *report_sections(report.summarise(store)))
    assert "in the candidate's own sandbox (shared) 3 / in a fresh sandbox (isolated) 2 · docker 3 / bwrap 2" in told
    assert "1 passed trial without a second witness" in told


def test_a_sweeps_tasks_are_told_alike_while_it_runs_and_when_it_has_ended():
    store = sweepdir.sweep(tasks=[{"name": name, "digest": f"digest-of-{name}"} for name in ("a", "b")])
    seen = [report.summarise(store)["sweep"]["task_digests"]]
    for name in ("a", "b"):
        sweepdir.add_trial(store, name, "raw", True)
        seen.append(report.summarise(store)["sweep"]["task_digests"])
    assert seen == [["digest-of-a", "digest-of-b"]] * 3


def test_writing_twice_gives_the_same_bytes_and_a_folder_without_result_is_no_trial():
    store = sweepdir.demo_like()
    report.leave(store, report.summarise(store))
    first = dict(store.files)
    report.leave(store, report.summarise(store))
    assert store.files == first and json.loads(store.read("report.json"))["configs"]
    store = sweepdir.demo_like()
    before = report.summarise(store)
    store.write("trials/half__12345678/config.json", b"{}")
    store.write("trials/half__12345678/artifacts/submission.tar", b"x")
    assert report.summarise(store) == before


def test_a_store_without_a_sweep_is_the_users_mistake_or_went_meanwhile():
    with pytest.raises(OutputError, match=r"no sweep\.json: .*not a sweep directory, or it was removed while"):
        report.summarise(sweepdir.MemoryStore())
    broken = sweepdir.sweep()
    broken.write("trials/a__1/result.json", b"{}")
    with pytest.raises(OutputError, match=r"trials/a__1/result\.json"):
        report.summarise(broken)


def test_the_page_is_self_contained_escapes_what_it_shows_and_closes_every_tag(tmp_path):
    store = sweepdir.demo_like()
    sweepdir.add_trial(store, "<script>alert(1)</script>", "hc", False)
    page = report.html(report.summarise(store))
    assert "<script" not in page and not re.search(r"""(src|href)\s*=|url\(|@import""", page)
    assert "prefers-color-scheme: dark" in page and "no difference detected" in page
    opened, balance = [], html.parser.HTMLParser()
    balance.handle_starttag = lambda tag, attrs: None if tag == "meta" else opened.append(tag)
    balance.handle_endtag = lambda tag: opened[-1] == tag and opened.pop()
    balance.feed(report.html(report.summarise(sweepdir.demo_like())))
    assert opened == []


def test_trials_that_cost_no_tokens_are_counted_but_not_those_of_controls(capsys):
    store = sweepdir.sweep()
    for agent, tokens in (("raw", (0, 0)), ("hc", (600, 400)), ("oracle", (0, 0))):
        sweepdir.add_trial(store, "t", agent, agent == "oracle", tokens=tokens)
    summary = report.summarise(store)
    assert {one["agent"]: one["unasked"] for one in summary["configs"]} == {"raw": 1, "hc": 0, "oracle": 0}
    tell(*result_sections(summary, out="OUT"))
    assert "1 trial cost no tokens" in capsys.readouterr().out


def test_trials_in_which_no_answer_changed_anything_are_counted(capsys):
    store = sweepdir.sweep()
    for agent, malformed in (("raw", ["it was cut"]), ("hc", ["it was cut", None]), ("oracle", [])):
        told = [{"malformed": one} for one in malformed]
        sweepdir.add_trial(store, "t", agent, agent == "oracle", metadata={"candidates": told})
    summary = report.summarise(store)
    assert {one["agent"]: one["empty"] for one in summary["configs"]} == {"raw": 1, "hc": 0, "oracle": 0}
    tell(*result_sections(summary, out="OUT"))
    assert "1 trial submitted nothing: no answer" in " ".join(capsys.readouterr().out.split())
