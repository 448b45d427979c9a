"""The report of a climb's folder: a whole climb in a simulated world, whose evaluations lie as sweeps below it."""

import json
from collections.abc import Sequence

import pytest

from hc_ray.climb.climb import Climb
from hc_ray.climb.evaluation import Cell, Outcome
from hc_ray.climb.knobs import Site
from hc_ray.climb.race import ClimbConfig
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.errors import OutputError
from hc_ray.domain.value import flattened
from hc_ray.reports.climb_page import climb_html, climb_sections
from hc_ray.reports.climb_report import Data, is_climb, summarise_climb
from hc_ray.reports.terminal import tell
from tests.fakes import sweepdir
from tests.fakes.screen import said
from tests.fakes.simulated_climb import World
from tests.fakes.sweepdir import MemoryStore


class Below(MemoryStore):
    """A folder of a store."""

    def __init__(self, store: MemoryStore, folder: str) -> None:
        self.files = {path.removeprefix(f"{folder}/"): data for path, data in store.files.items()
                      if path.startswith(f"{folder}/")}  # fmt: skip


class Folder(World):
    """Leaves every evaluation as a sweep in a store."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(8, 8, 3.0)
        self.store, self.names = store, dict[str, str]()

    def evaluate(self, cells: Sequence[Cell], *, tokens: int) -> list[list[Outcome]]:
        found = super().evaluate(cells, tokens=tokens)
        name = f"{len(self.names) + 1:03d}-{cells[0].stage}"
        self.names[name] = name
        configs = [{"name": cell.arm, "hash": cell.solver.hash[:60] + "0000", "changes": {},
                    "stands": {}, "settings": flattened({"solver": cell.solver.model_dump(mode="json")})}
                   for cell in cells]  # fmt: skip
        sweep = sweepdir.sweep(configs=configs, planned_trials=sum(map(len, found)))
        for config, outcomes in zip(configs, found, strict=True):
            for one in outcomes:
                sweepdir.add_trial(sweep, one.task, "hc", one.passed, seed=one.seed, tokens=(0, one.tokens),
                                   config_hash=config["hash"], metadata={"bits": [one.passed, True]})  # fmt: skip
        self.store.files |= {f"sweeps/{name}/{path}": data for path, data in sweep.files.items()}
        self.store.write("sweeps.json", json.dumps(self.names).encode())
        return found


@pytest.fixture(scope="module")
def climbed() -> tuple[MemoryStore, Climb]:
    store = MemoryStore()
    store.write("settings.json", json.dumps({"identity": {"dataset": "made-up"}}).encode())
    world = Folder(store)
    terms = ClimbConfig(generations=3, looks=(1, 1), confirm=(1,), race_alpha=0.5, alpha=0.5, tokens=10**9)
    climb = Climb(Site(solver=SolverConfig()), world.tasks, terms, evaluator=world, store=store)
    climb.run()
    store.write("climb.json", json.dumps({"ended_by": "generations"}).encode())
    return store, climb


def summary_of(store: MemoryStore) -> Data:
    return summarise_climb(store, lambda folder: Below(store, folder))


def told(summary: Data) -> tuple[str, str]:
    return said(tell, *climb_sections(summary)), climb_html(summary)


def test_a_report_of_a_climb_tells_each_proposal_the_path_the_cost_and_who_won(climbed) -> None:
    store, climb = climbed
    summary = summary_of(store)
    assert json.loads(json.dumps(summary)) == summary and is_climb(store)
    assert [one["file"] for one in summary["proposals"]] == [one.path for one in climb.history]
    assert (summary["climb"]["tokens"], summary["climb"]["tasks"]) == (climb.tokens, 8)
    assert summary["climb"]["bits"] == 2 * sum(one["trials"] for one in summary["configs"]), "each trial was given two"
    path = [one.proposal for one in climb.history if one.accepted and one.proposal.knob]
    assert path, "this world has something to find"
    last = f"{path[-1].generation}-{path[-1].place} {path[-1].proposer}"
    assert summary["climb"]["champion"] == last
    assert any(one["label"].startswith(f"hc ({last}") for one in summary["configs"])
    wins = summary["proposers"]
    assert sum(one["accepted"] for one in wins.values()) == sum(one.accepted for one in climb.history)
    for one in wins.values():
        assert one["accepted"] <= one["confirmations"] <= one["decided"] <= one["proposed"]
        assert one["of_confirmations"]["n"] == one["confirmations"]
    for words in told(summary):
        assert "tuned on 8 dev tasks" in words and f"{climb.tokens:,} of 1,000,000,000 tokens" in words
        assert "one-sided alpha" in words and summary["climb"]["champion"] in words
    for one in climb.history:
        assert f">{(one.proposal.knob or 'none').removeprefix('solver.')}" in words
    assert summary["comparisons"] == [] and summary["criteria"] == []


def test_an_audit_of_a_sweep_of_a_climb_stands_in_the_curve_at_its_generation(climbed) -> None:
    whole, _ = climbed
    store = MemoryStore()
    store.files = dict(whole.files)
    nothing = {"value": None, "low": None, "high": None}
    figures = {"validity": {"value": 0.75, "low": 0.5, "high": 0.9}, "fault_detection": nothing}
    name = next(name for name in reversed(json.loads(store.read("sweeps.json"))) if name.endswith("race"))
    store.write(f"sweeps/{name}/audit.json", json.dumps({"whole": {"admitted": figures}}).encode())
    generations = summary_of(store)["generations"]
    assert [one["validity"] for one in generations] == [None, None, figures["validity"]]
    page = climb_html(summary_of(store))
    assert "fault detection (audit): not measured" in page and "validity (audit): not" not in page
    assert "validity (audit) against generation" in page, "alone, it names the axis"


def test_a_climb_of_another_version_is_told_by_what_is_known_of_its_records(climbed) -> None:
    whole, _ = climbed
    store = MemoryStore()
    store.files = dict(whole.files)
    record = json.loads(store.read("climb/1-0.json"))
    record["proposal"] |= {"older": 1, "solver": {**record["proposal"]["solver"], "attempts": 3}}
    store.write("climb/1-0.json", json.dumps(record).encode())
    declared = json.loads(store.read("climb/declared.json"))
    store.write("climb/declared.json", json.dumps({**declared, "config": {**declared["config"], "older": 1}}).encode())
    found, known = summary_of(store), summary_of(whole)
    assert (found["proposals"], found["climb"]["declared"]) == (known["proposals"], known["climb"]["declared"])


def test_a_climb_that_was_killed_is_told_as_far_as_it_came(climbed) -> None:
    whole, _ = climbed
    store = MemoryStore()
    for path, data in whole.files.items():
        if path.startswith("sweeps/001") or path in ("settings.json", "sweeps.json", "climb/declared.json"):
            store.write(path, data)
    assert "0 of 3 generations decided" in told(summary_of(store))[0]
    store.write("climb/1-0.json", json.dumps({**json.loads(whole.read("climb/1-0.json")), "decision": None}).encode())
    for words in told(summary_of(store)):
        assert "not finished" in words and "open" in words and "No change has been accepted so far" in words
    store.write("climb/1-1.json", b"{")
    with pytest.raises(OutputError, match=r"climb/1-1\.json is not a record"):
        summary_of(store)
    store.write("climb/1-1.json", whole.read("climb/1-1.json"))
    store.write("sweeps/001-race/trials/t/result.json", b"{")
    with pytest.raises(OutputError, match=r"is damaged .*; resume the sweep or climb"):
        summary_of(store)
    del store.files["climb/declared.json"]
    with pytest.raises(OutputError, match="before it declared"):
        summary_of(store)


def test_the_report_command_knows_a_climb_by_its_folder(climbed, tmp_path, hc_ray):
    folder = climbed[0].save(tmp_path / "climb")
    assert "Incumbent by generation" in hc_ray("report", folder)
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert json.loads((folder / "report.json").read_text())["climb"]["ended_by"] == "generations"
    assert "is a climb" in hc_ray("report", folder, folder / "sweeps/001-race", code=2)
    (tmp_path / "empty").mkdir()
    assert hc_ray("report", tmp_path / "empty", code=2).count("\n") == 1
