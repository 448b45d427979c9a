import re
import time
from itertools import product
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.reports import report
from hc_ray.reports.html_figures import TASKS, Plot, Point, Series, Strip, heat_map, timeline
from hc_ray.reports.page import draw
from hc_ray.reports.self_to_blind import auroc
from hc_ray.reports.sweep_page import TRIALS
from hc_ray.statistics import estimators
from tests.fakes import sweepdir


def inside(drawn: str) -> None:
    """Every drawn coordinate lies within its SVG."""
    for root in ElementTree.fromstring(f"<p>{drawn.replace('&nbsp;', ' ')}</p>").iter("svg"):
        width, height = map(float, root.attrib.get("viewBox", "0 0 332 232").split()[2:])
        for part in root.iter():
            for name, limit in {"x": width, "cx": width, "x1": width, "x2": width, "y": height, "cy": height}.items():
                place = part.attrib.get(name, "0")
                share = float(place.rstrip("%")) / (100 if place.endswith("%") else limit)
                assert 0 <= share <= 1, ElementTree.tostring(part)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=9), st.booleans())
def test_a_plot_keeps_its_points_within_its_frame(places: list[tuple[float, float]], joined: bool) -> None:
    points = [Point(x, y, y / 2, y, "<&>") for x, y in places]
    inside(draw("xy", Plot([Series("a <b>", points, joined=joined)], "x", "y & z", diagonal=True)))
    bars = [Strip(y, y / 2, y, f"{y}") for _, y in places]
    inside(draw("strips", [("a label <of> a config" * 4, bars), ("other", [Strip(1, 0, 1, "1.00")])], {}))
    drawn = draw("spans", {"good": [(i, x * y, x) for i, (x, y) in enumerate(places)]}, len(places), 1.0)
    ends = [(float(at), float(at) + float(width)) for at, width in re.findall(r"M([\d.]+) \d+h([\d.]+)v", drawn)]
    assert len(ends) == len(places) and all(0 <= start < end <= 1000.7 for start, end in ends)


def test_what_has_no_point_is_not_measured_and_a_single_generation_has_a_plot() -> None:
    assert draw("xy", Plot([Series("a", [])], "x", "y")) == "" == draw("strips", [], {})
    inside(draw("xy", Plot([Series("a", [Point(1, 0.5)])], "generation", "y", ticks=[1.0])))
    assert report.html(report.summarise(sweepdir.sweep())).count("<p>not measured</p>") == 3


def test_auroc_counts_pairs_of_one_task_and_a_tie_as_half():
    apart = [[(0.9, True), (0.1, False)], [(0.9, True), (0.1, False), (0.9, False)]]
    assert auroc(apart).value == pytest.approx(2.5 / 3) and auroc(apart).n == 2
    # Across tasks the scores are upside down; within each they are right.
    levels = [[(0.2, True), (0.1, False)], [(0.9, False), (1.0, True)]]
    assert auroc(levels).value == 1.0 and auroc(levels).low is None
    assert auroc([[(0.5, True)], [(0.5, False)]]).value is None


def test_the_work_of_a_report_grows_with_its_trials_and_not_with_their_square() -> None:
    row = {"started_at": "2026-11-21T10:00:00+00:00", "finished_at": "2026-11-21T11:00:00+00:00", "seconds": 1.0}
    many = 40_000
    began = time.process_time()
    assert f"at most {many} at a time" in timeline([{**row, "passed": bool(place % 2)} for place in range(many)])
    judged = auroc([[(place, place % 2 == 0) for place in range(many)]])
    assert judged.value == pytest.approx(0.5, abs=0.01)
    assert estimators.best_at_k([True] * many, [float(place) for place in range(many)], 1) == 1.0
    assert time.process_time() - began < 10, "minutes where each is compared with every other"


def test_self_tests_are_calibrated_by_split_and_testgen_configs_are_told_apart() -> None:
    hashes = {"a" * 64: 1, "b" * 64: 2, "c" * 64: 2}
    configs = [{"name": name[0], "hash": name, "changes": {}, "stands": {},
                "settings": {"solver.testgen.rounds": rounds, "solver.samples": name[0]}}
               for name, rounds in hashes.items()]  # fmt: skip
    store = sweepdir.sweep(configs=configs)
    for name, split in product(hashes, ("dev", "holdout")):
        sweepdir.add_trials(store, "hc", [True, False, name[0] == "a"], config_hash=name, split=split)
    summary = report.summarise(store)
    assert [(part["split"], part["trials"], part["auroc"]["value"]) for part in summary["self_to_blind"]] == [
        ("dev", 9, 1.0), ("holdout", 9, 1.0),
    ]  # fmt: skip
    assert [one["trials"] for one in summary["self_to_blind"][0]["bins"]] == [5, 4]
    assert "holdout (not measured)" not in report.html(summary)
    dev = {one["testgen"]: one["blind_pass"]["value"] for one in summary["by_testgen"] if one["split"] == "dev"}
    assert dev == {"rounds=1": pytest.approx(2 / 3), "rounds=2": pytest.approx(1 / 3)}


def test_a_large_sweep_is_summarised_and_its_unscored_trials_stand_first() -> None:
    store = sweepdir.sweep()
    for seed in range(3):
        sweepdir.add_trials(store, "hc", [i % 2 == 0 for i in range(200)], seed=seed)
    sweepdir.add_trial(store, "zz", "hc", None)
    summary = report.summarise(store)
    page = report.html(summary)
    assert f"{TRIALS} of 601 trials" in page and len(page) < 400_000
    listed = page.partition(f"{TRIALS} of 601")[2]
    assert listed.index("the server died") < listed.index(">pass<")
    assert f"{TASKS} of 201 tasks" in page and "EngineError: the server died" in page
    assert heat_map(summary).count("<tr>") == TASKS + 1
