import json
from pathlib import Path
from typing import Any

import pytest

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.config import SelectorName
from hc_ray.domain.errors import OutputError
from hc_ray.reports import report
from hc_ray.reports.audit_section import AUDIT_FILE
from hc_ray.reports.replay.figures import replay
from hc_ray.reports.replay.pools import SELECTORS, Pool, choose, cut, read_pools
from hc_ray.reports.replay.text import replay_sections
from hc_ray.reports.terminal import tell
from hc_ray.stores.sweep_directory import parquet
from hc_ray_actors.jobs.audit import DEFINITIONS
from hc_ray_actors.verifiers import audit
from tests.fakes import sweepdir
from tests.fakes.screen import said
from tests.fakes.suites import call_test, matrix_of
from tests.fakes.sweepdir import MemoryStore

APART = ("++---", "-++++", "-++++", "+++++", "+-+--", "+-+--", "+-+--", "+-+--")
"""c0.0 is the first, c0.1 and c0.2 agree on four tests, c0.3 alone passes all, and the largest crowd passes two."""


def candidate(number: int, *, files: dict[str, str] | None = None, tokens: int = 0) -> Candidate:
    return Candidate(id=f"c0.{number}", round=1 + number // 4, slot=number, seed=number,
                     temperature=0.3 + 0.2 * (number % 2), form="chat", plan="plain", files=files or {},
                     digest=f"d{number}" if files else "", prompt_tokens=tokens)  # fmt: skip


def add_pool(store, task, agent, rows, right, chosen, *, tests=None, tokens=100, used=None, passed=None):
    """A committed trial whose candidates c0.0 … passed (+), failed (-) or crashed (!) under the tests; ``right`` are
    the verdicts that an audit found, None where nobody looked."""
    names = [f"c0.{i}" for i in range(len(rows))]
    verdict = passed if passed is not None else bool(right and right[chosen])
    total = used if used is not None else tokens * len(rows)
    trial = sweepdir.add_trial(store, task, agent, verdict, tokens=(total, 0),
                               metadata={"selection": {"selector": "posterior", "chosen": names[chosen]}})  # fmt: skip
    candidates = [candidate(i, files={"m.py": f"# {i}"}, tokens=tokens) for i in range(len(rows))]
    columns = list(tests or [call_test(f"t{j}", f"f({j})") for j in range(len(rows[0]))])
    cells = [{"candidate": name, "test": test.id, **cell.model_dump()}
             for name, row in zip(names, matrix_of(rows).cells, strict=True)
             for test, cell in zip(columns, row, strict=True)]  # fmt: skip
    folder = f"trials/{trial}/agent"
    store.write(f"{folder}/candidates.json", json.dumps([one.model_dump(mode="json") for one in candidates]).encode())
    if rows[0]:
        store.write(f"{folder}/matrix.parquet", parquet(cells))
    store.write(f"{folder}/tests.json", json.dumps([test.model_dump(mode="json") for test in columns]).encode())
    if right is not None:
        audited = json.loads(store.files.get("audit.json", b'{"pools": []}'))
        graded = [{"id": name, "passed": bit, "tokens": tokens} for name, bit in zip(names, right, strict=True)]
        audited["pools"].append({"trial": trial, "candidates": graded})
        store.write("audit.json", json.dumps(audited).encode())
    return trial


def row_of(found: dict[str, Any], agent: str, selector: str) -> dict[str, Any]:
    (row,) = [one for one in found["agents"] if (one["agent"], one["selector"]) == (agent, selector)]
    return dict(row)


def apart() -> MemoryStore:
    store = sweepdir.sweep()
    add_pool(store, "t", "hc", APART, [i == 3 for i in range(8)], 1)
    return store


def test_the_selectors_choose_differently_on_a_stored_matrix_and_each_gets_its_candidates_bit() -> None:
    store = apart()
    (pool,) = read_pools(store)
    chosen: dict[SelectorName, str | None] = {name: choose(pool, name) for name in SELECTORS}
    assert chosen == {"max_pass": "c0.3", "codet": "c0.1", "mbr": "c0.4", "posterior": "c0.3"}
    assert {name: pool.verdict(choose(pool, name)) for name in SELECTORS} == {
        "max_pass": True, "codet": False, "mbr": False, "posterior": True,
    }  # fmt: skip
    found = replay(store, "max_pass")
    assert row_of(found, "hc", "max_pass")["blind_pass"]["value"] == 1.0
    assert row_of(found, "hc", "mbr")["blind_pass"]["value"] == 0.0
    assert row_of(found, "hc", "as run")["blind_pass"]["value"] == 0.0
    assert row_of(found, "hc", "max_pass")["differs"] == 1
    assert [(one["agent"], one["value"], one["n"]) for one in found["auroc"]] == [("hc", 1.0, 1)]


def test_what_nobody_graded_is_not_measured_but_what_was_handed_in_is_known() -> None:
    store = sweepdir.sweep()
    add_pool(store, "t", "hc", APART, None, 1, passed=False)
    found = replay(store, None)
    (pool,) = read_pools(store)
    assert choose(pool, "codet") == "c0.1" and pool.verdict("c0.1") is False
    assert choose(pool, "max_pass") == "c0.3" and pool.verdict("c0.3") is None
    for name in ("codet", "max_pass"):  # no rate over the choices that happen to be known
        assert row_of(found, "hc", name)["blind_pass"]["value"] is None
    assert found["graded"] == 0 and row_of(found, "hc", "as run")["measured"] == 1
    text = said(tell, *replay_sections(found))
    assert "not measured" in text and "hc-ray audit" in text


def test_a_pool_is_cut_before_its_tokens_pass_what_hc_used_and_without_a_file_nothing_is_chosen():
    pool = Pool(trial="x", task="t", agent="raw", config_hash="c", candidates=(candidate(0),), untouched=False)
    assert choose(pool, "posterior") is None and pool.verdict(None) is False
    pool = Pool(trial="x", task="t", agent="best_of_n", config_hash="c",
                candidates=tuple(candidate(i, tokens=100) for i in range(5)))  # fmt: skip
    assert [len(cut(pool, tokens).candidates) for tokens in (None, 0, 99, 199, 200, 1000)] == [5, 1, 1, 1, 2, 5]


def test_best_of_n_is_compared_at_the_tokens_of_hc():
    store = sweepdir.sweep()
    add_pool(store, "t", "hc", ["+", "-"], [True, False], 0, used=250)
    inputs = [call_test("input-1", "f(1)", None)]
    add_pool(store, "t", "best_of_n", ["-", "+", "+", "+"], [True, False, False, False], 1, tests=inputs)
    add_pool(store, "t", "raw", [""], [False], 0, tests=[], tokens=900)
    found = replay(store, None)
    # All four: the crowd of three is wrong. The two that 250 tokens buy: no crowd, so the earlier one, which is right.
    assert row_of(found, "best_of_n", "as run")["blind_pass"]["value"] == 0.0
    level = row_of(found, "best_of_n", "mbr")
    assert (level["blind_pass"]["value"], level["candidates"], level["tokens"]) == (1.0, 2, 200)
    assert row_of(found, "raw", "as run")["candidates"] == 1
    pairs = {(one["a"], one["b"]): one for one in found["comparisons"]}
    assert pairs["hc as run", "best_of_n by mbr"]["delta"] == 0.0
    assert pairs["hc as run", "raw as run"]["delta"] == 1.0 and ("hc by max_pass", "hc as run") in pairs


def test_the_ceiling_the_mean_and_the_efficiency_come_from_the_same_graded_pools() -> None:
    store = sweepdir.sweep()
    for number in range(6):
        add_pool(store, f"t{number}", "hc", ["++", "+-", "--", "--"], [number < 3, number < 5, False, False], 0)
    row = row_of(replay(store, None), "hc", "max_pass")
    assert row["blind_pass"]["value"] == pytest.approx(3 / 6)
    assert row["mean"]["value"] == pytest.approx(8 / 24) and row["oracle"]["value"] == pytest.approx(5 / 6)
    assert row["oracle_at_k"]["4"] == pytest.approx(5 / 6)
    assert row["selection_efficiency"]["value"] == pytest.approx((3 / 6 - 8 / 24) / (5 / 6 - 8 / 24))
    assert row["selection_efficiency"]["low"] < row["selection_efficiency"]["value"]


def test_a_sweep_of_another_version_is_replayed_unless_it_lacks_what_is_needed_and_half_a_line_of_its_journal_is_left():
    store = apart()
    store.write("events/000000.jsonl", b'{"type":"trial_start","trial":"x","at":1}\n{"type":"act')
    whole = replay(store, None)
    (path,) = (path for path in store.files if path.endswith("candidates.json"))
    (tests,) = (path for path in store.files if path.endswith("tests.json"))
    older = [{**one, "function": "f"} for one in json.loads(store.read(path))]
    store.write(path, json.dumps(older).encode())
    own = [
        {**one, "alone": True, "subject": {**one["subject"], "whole": True}} for one in json.loads(store.read(tests))
    ]
    store.write(tests, json.dumps(own).encode())
    assert replay(store, None) == whole
    store.write(path, json.dumps([{"id": "c0.0"}]).encode())
    with pytest.raises(OutputError, match=rf"{path} cannot be read: another version of hc-ray wrote it \(round: Field"):
        replay(store, None)


def test_the_command_prints_a_replay_also_of_a_selector_of_ones_own_and_writes_nothing(
    home, tmp_path, monkeypatch, hc_ray
):
    folder = apart().save(tmp_path / "sweep")
    before, replayed = sorted(folder.rglob("*")), ["report", folder, "--replay"]
    assert row_of(hc_ray(*replayed, "max_pass", "--json"), "hc", "max_pass")["differs"] == 1
    assert "Agents under each selector" in hc_ray(*replayed, "all")
    assert "allowed: max_pass, codet, mbr, posterior, all" in hc_ray(*replayed, "maxpass", code=2)
    monkeypatch.chdir(Path(__file__).parents[1] / "fakes")
    *_, own = hc_ray(*replayed, "own_agents:last", "--json")["agents"]
    assert own["selector"].startswith("own_agents:last@") and own["differs"] == 1
    assert "own_agents has no none" in hc_ray(*replayed, "own_agents:none", code=2)
    assert sorted(folder.rglob("*")) == before


def test_the_report_tells_how_candidates_were_chosen_once_an_audit_has_graded_them(tmp_path, hc_ray):
    store = apart()
    nothing = dict.fromkeys(("audited", "measured", "with_overlap"), 0)
    faults = dict.fromkeys(("candidates_failing", "candidates_passing"), 0)
    rest = {"whole": audit.stages([]).model_dump(mode="json"), "categories": {}, "testers": {},
            "tasks": nothing, "faults": faults, "definitions": DEFINITIONS}  # fmt: skip
    store.write(AUDIT_FILE, json.dumps(json.loads(store.read(AUDIT_FILE)) | rest).encode())
    summary = report.summarise(store)
    report.leave(store, summary)
    assert summary["replay"] is None and b"<h2>Selection</h2>" not in store.read("report.html")
    found = replay(store, None)
    report.leave(store, summary | {"replay": found})
    page = store.read("report.html").decode()
    assert json.loads(store.read("report.json"))["replay"]["agents"] == found["agents"]
    told = page.partition("<h2>Selection</h2>")[2]
    assert all(name in told for name in SELECTORS) and "oracle selector" in told
    assert "In 1 of 1 trials every candidate has been graded" in told
    folder = store.save(tmp_path / "sweep")
    assert hc_ray("report", folder, "--json")["replay"] is not None
    (folder / AUDIT_FILE).unlink()
    assert hc_ray("report", folder, "--json")["replay"] is None
