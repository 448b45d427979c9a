"""The bench of self-tests: its sums, its table, and that it goes on where it was."""

import argparse
import json
from pathlib import Path

import pytest

from hc_ray.domain.suite import Cell, PassMatrix, SelfTest, Subject
from hc_ray.domain.suite import ExpectedValue as Value
from tests.bench import testgen as bench
from tests.bench.quality.judging import Count, Judged, Picked, replayed
from tests.bench.quality.sums import Record, line, summed, table


def record(task: str, *, generated: tuple[int, int], admitted: tuple[int, int], tests: int = 12, seconds: float = 5.0,
           tester: str = "t", picked: tuple[bool, bool] = (False, True)) -> Record:  # fmt: skip
    counts = {
        stage: {"validity": Count(hits=hits, of=of), "fault_detection": Count(hits=3, of=4)}
        for stage, (hits, of) in (("generated", generated), ("admitted", admitted))
    }
    both = Picked(generated=picked[0], admitted=picked[1])
    judged = Judged(counts={"all": counts}, bits=(False, True),
                    picked=dict.fromkeys(("max_pass", "codet", "mbr", "posterior"), both))  # fmt: skip
    return Record(
        tester=tester, task=task, suite_key="k", settings="s", questions=4, malformed=1, generated=20, parsed=18,
        admitted=tests, judging=tests, by_category={}, coverage=0.5, tokens=100, engine_seconds=seconds,
        wall_seconds=9.0, bench_seconds=30.0, candidates=2, judged=judged,
    )  # fmt: skip


def test_a_suite_is_usable_with_ten_tests_within_a_minute_of_engine() -> None:
    usable = [record("a", generated=(1, 2), admitted=(1, 1)), record("b", generated=(1, 2), admitted=(1, 1), tests=9),
              record("c", generated=(1, 2), admitted=(1, 1), seconds=61)]  # fmt: skip
    assert [one.usable for one in usable] == [True, False, False]
    assert summed(usable)["usable"]["value"] == pytest.approx(1 / 3)


def test_shares_are_means_over_tasks_and_the_gate_is_paired_by_task() -> None:
    figure = summed([record("a", generated=(1, 4), admitted=(1, 1)), record("b", generated=(3, 4), admitted=(4, 4))])
    shares = figure["quality"]["all"]
    assert shares["generated"]["validity"]["value"] == pytest.approx(0.5)
    assert shares["admitted"]["validity"]["value"] == 1 and shares["admitted"]["validity"]["of"] == 5
    assert figure["gate"]["all"]["validity"]["delta"] == pytest.approx(0.5)
    assert figure["gate"]["all"]["fault_detection"]["delta"] == 0
    assert figure["selection"]["posterior"]["gain"]["delta"] == 1 and figure["selection"]["mean"] == 0.5


def test_what_was_not_measured_is_told_as_such_and_enters_no_share() -> None:
    unmeasured = record("b", generated=(0, 4), admitted=(0, 4)).model_copy(update={"judged": Judged(unmeasured="why")})
    figure = summed([record("a", generated=(1, 2), admitted=(1, 1)), unmeasured])
    assert figure["tasks"] == 2 and figure["measured"] == 1
    assert figure["quality"]["all"]["generated"]["validity"]["of"] == 2
    assert "not measured: why" in line(unmeasured)
    assert "not measured" in table("t", figure) and "validity 1.00" in table("t", figure)


def test_the_table_so_far_is_printed_from_what_lies_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench.keep(tmp_path, record("set/one", generated=(1, 2), admitted=(1, 1), tester="embedded"))
    bench.report(tmp_path, ["embedded", "claude"], as_json=False)
    told = capsys.readouterr().out
    assert "embedded: 1 tasks" in told and "claude: not measured" in told
    assert json.loads((tmp_path / "report.json").read_text())["embedded"]["tasks"] == 1
    kept = bench.read(tmp_path, "embedded", "set/one")
    assert kept is not None and kept.task == "set/one" and bench.read(tmp_path, "embedded", "set/two") is None


def test_ctrl_c_prints_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def interrupted(tester: str, given: argparse.Namespace, out: Path) -> None:
        bench.keep(out, record("one", generated=(1, 2), admitted=(1, 1), tester=tester))
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measure", interrupted)
    monkeypatch.setattr("sys.argv", ["testgen", "--tester", "embedded", "--out", str(tmp_path)])
    assert bench.main() == 130
    assert "embedded: 1 tasks" in capsys.readouterr().out


def test_selection_is_replayed_on_the_tests_as_written_and_as_admitted() -> None:
    subject = Subject(kind="call", path="m.py", function="f")
    good = SelfTest(id="0.0", category="happy_path", subject=subject, input="f(1)", expectation=Value(value="1"))
    bad = good.model_copy(update={"id": "0.1", "input": "f(2)", "weight": 5.0})
    columns = {"generated": [0, 1], "admitted": [0]}
    rows = {"wrong": ("fail", "pass"), "right": ("pass", "fail")}
    cells = tuple(tuple(Cell(outcome=one, observed=f"{name}{one}") for one in row)
                  for name, row in rows.items())  # fmt: skip
    matrix = PassMatrix(candidates=tuple(rows), tests=("0.0", "0.1"), cells=cells)
    found = replayed(matrix, (good, bad), columns, (False, True))
    assert found["max_pass"] == Picked(generated=False, admitted=True)
