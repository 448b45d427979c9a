import os
from pathlib import Path

import pytest

from hc_ray.cli.config_loader import exported_config, load_config
from hc_ray.domain.config import SolverConfig, SweepConfig
from hc_ray.domain.errors import ConfigError, OutputError
from hc_ray.domain.value import flattened
from hc_ray.domain.variants import AXES
from hc_ray.reports.best import best, exported, stats
from hc_ray.reports.report import html, summarise, summarise_several
from hc_ray.reports.sweep_page import report_sections, result_sections
from hc_ray.reports.terminal import tell
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.driver.plan import prepare
from hc_ray_actors.driver.results import write_sweep
from tests.fakes import sweepdir
from tests.fakes.sandbox_home import data_home
from tests.fakes.screen import said
from tests.fakes.tasks import make_tasks

NARROW, WIDE = "a" * 64, "b" * 64


def swept(name, **more):
    """A sweep of two configs of ``hc`` without trials."""
    configs = []
    for called, config_hash, samples in (("narrow", NARROW, 2), ("wide", WIDE, 8)):
        config = SweepConfig(solver=SolverConfig(samples=samples))
        settings = flattened(config.model_dump(mode="json", include=set(AXES)))
        configs.append({"name": called, "hash": config_hash, "changes": {}, "stands": {}, "settings": settings})
    return sweepdir.sweep(sweep_id=name, configs=configs, **more)


@pytest.fixture
def two(tmp_path):
    """``wide`` passes 3 of 4 trials over both sweeps; ``narrow`` as many, at more tokens."""
    first, second = swept("one"), swept("two")
    sweepdir.add_trials(first, "hc", [True, True], config_hash=WIDE)
    sweepdir.add_trials(first, "hc", [True, False], config_hash=NARROW, tokens=(900, 900))
    sweepdir.add_trials(second, "hc", [True, False, None], config_hash=WIDE, seed=1)
    sweepdir.add_trials(second, "hc", [True, True], config_hash=NARROW, seed=1)
    sweepdir.add_trials(second, "hc", [True] * 9, config_hash=NARROW, split="holdout")
    sweepdir.add_trials(second, "oracle", [True] * 9)
    for name, store in (("one", first), ("two", second)):
        store.save(tmp_path / name)
    return {"one": first, "two": second, "again": first}


def test_equal_configs_of_several_sweeps_are_one_and_rank_by_pass_rate_on_dev_then_tokens(two):
    found = best(two)
    rows = [(one["config_hash"], one["passes"], one["trials"], one["unscored"]) for one in found["configs"]]
    assert rows == [(WIDE, 3, 5, 1), (NARROW, 3, 4, 0)]
    assert found["best"] == found["configs"][0] and found["same_tasks"]
    chosen = [(one["task"], one["config_hash"], one["passes"], one["trials"]) for one in found["per_task"]]
    assert chosen == [("t00", WIDE, 2, 2), ("t01", WIDE, 1, 2)]
    sweepdir.add_trial(two["one"], "t05", "hc", True, config_hash=NARROW)
    found = best(two)
    assert found["best"]["config_hash"] == NARROW and not found["same_tasks"]


@pytest.mark.parametrize(("verdicts", "wins"), [([True] * 3 + [False] * 3, True), ([True] * 2, False),
                                                ([True] * 3 + [False] * 4, False)])  # fmt: skip
def test_a_best_config_needs_three_passes_and_half_of_its_trials(verdicts, wins):
    store = swept("one")
    sweepdir.add_trials(store, "hc", verdicts, config_hash=WIDE)
    assert (best({"one": store})["best"] is not None) is wins
    if not wins:
        with pytest.raises(
            OutputError, match=r"no config reached 3 passes and a pass rate of 50% on dev; the best, hc"
        ):
            exported({"one": store})


def test_a_sweep_starts_at_the_exported_config_unless_its_file_was_changed(two, home, tmp_path, monkeypatch, hc_ray):
    monkeypatch.chdir(tmp_path)
    assert "hc-ray sweep --from best.yaml" in hc_ray("export", "best", "one", "two", "-o", "best.yaml")
    config = load_config(base=exported_config("best.yaml")["settings"])
    assert (config.agents, config.dataset, config.split) == (("hc",), "starter", "dev")
    assert config.solver == SolverConfig(samples=8)
    read, write = os.pipe()  # it can be read once, as a shell's <(...)
    os.write(write, Path("best.yaml").read_bytes())
    os.close(write)
    told = hc_ray("sweep", "--from", f"/dev/fd/{read}", "--dry-run", "--json", "--engine", "scripted", "-l", "1",
                  "--script", "tests.fakes.scripts:echo", "--set", "solver.samples=5")  # fmt: skip
    os.close(read)
    planned = told["config"]
    assert any("tuned on 0 of these 1 task" in note for note in told["notes"]), told["notes"]
    assert (planned["agents"], planned["solver"]["samples"]) == (["hc"], 5)
    hc_ray("sweep", "demo", "--from", "best.yaml", code=2)
    assert "File exists" in hc_ray("export", "best", "one", "two", code=2)
    text = Path("best.yaml").read_text()
    for wrong, says in {
        text.replace("solver.samples: 8", "solver.samples: 9"): "modified since its export",
        "dataset: starter\n": "not a file written by `hc-ray export best`",
    }.items():
        Path("best.yaml").write_text(wrong)
        with pytest.raises(ConfigError, match=says):
            exported_config("best.yaml")


def test_the_report_of_a_sweep_that_starts_at_an_exported_config_says_which_tasks_that_was_tuned_on(tmp_path):
    make_tasks(tmp_path / "set", 2)
    config = SweepConfig(dataset=str(tmp_path / "set"), agents=("nop",), sandbox="bwrap", out=str(tmp_path / "out"))
    with data_home():
        first, second = (task.name for task in prepare(config).taken)
        plan = prepare(config, tuned_on=[first, "another"])
    store = SweepStore(plan.out)
    write_sweep(store, plan, 0)
    for place, task in enumerate((first, second)):
        sweepdir.add_trial(store, task, "hc", bool(place))
    summary, told = summarise(store), "tuned on 1 of these 2 tasks, whose pass rates overstate it"
    assert any(told in note for note in plan.notes) and summary["sweep"]["tuned_on"] == [first, "another"]
    both = summarise_several({"x": store, "y": store})
    for sections in (report_sections(summary), result_sections(summary, out="OUT")):
        assert told in said(tell, *sections)
    assert told in html(summary)
    assert both["sweep"]["tuned_on"] == [first, "another"]
    assert "tuned on" not in said(tell, *report_sections(summarise(sweepdir.demo_like())))


def test_what_cannot_be_ranked_is_told_in_one_line():
    empty, half = swept("three"), swept("four")
    half.write("sweep.json", b'{"conf')
    with pytest.raises(OutputError, match="no finished trial of hc, best_of_n, raw on dev"):
        best({"x": empty})
    with pytest.raises(OutputError, match=r"x: sweep\.json cannot be read"):
        best({"x": half})


def test_stats_count_every_split_and_the_trials_that_are_missing(two, tmp_path, hc_ray):
    other = sweepdir.sweep(SweepConfig(dataset="terminal"), sweep_id="five", planned_trials=4)
    found = stats({"two": two["two"], "five": other})
    rows = sorted((one["label"].split()[0], one["split"], one["trials"], one["passes"]) for one in found["configs"])
    assert rows == [("hc", "dev", 2, 2), ("hc", "dev", 3, 1), ("hc", "holdout", 9, 9), ("oracle", "dev", 9, 9)]
    assert found["sweeps"]["five"] == {"dataset": "terminal", "trials": 0, "planned_trials": 4}
    other.save(tmp_path / "five")
    assert "five: 0 of 4 trials" in hc_ray("stats", tmp_path / "two", tmp_path / "five")
    told = hc_ray("best", tmp_path / "one", tmp_path / "two")
    assert all(part in told for part in ("Best overall: hc (wide", "not a result", "biased upwards"))
