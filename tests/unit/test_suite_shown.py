"""A suite for a reader: the terminal view, and the pytest file that a person can run."""

import io
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.domain.environment import EnvironmentView, FileView
from hc_ray.domain.suite import ExpectedValue, GateVerdict, Property, SelfTest, Subject, Suite
from hc_ray.reports.trial_text import tell_reading
from hc_ray.reports.trial_view import told_suite
from hc_ray.selftests.pytest_export import pytest_source
from tests.fakes.suites import call_test

F = Subject(kind="call", path="m.py", function="f")


def call(identity: str, source: str, value: str) -> SelfTest:
    return call_test(identity, source, value, sentence="It doubles.\nAlways.")


COMMAND = SelfTest(id="shell", category="edge_case", subject=Subject(kind="command", path="t.sh"), input="a.txt",
                   expectation=ExpectedValue(value="2"))  # fmt: skip
SUITE = Suite(
    tests=(call("good", "f(2)", "4"), call("bad", "f(3)", "7"), COMMAND),
    dropped=(call("good!", "f(1)", "9"),),
    gate=(GateVerdict(id="good", admitted=True, reason="admitted"),
          GateVerdict(id="good!", admitted=False, reason="contradicts\n'good'")),
    matrix={"r1": ("good",), "r2": ()},
    environment=EnvironmentView(tools={"cc": "cc 12"},
                                files=(FileView(path="a.csv", size=9, lines=2, columns=("x", "y")),)),
    assumptions=("boundary has only 1 tests.",), uncertainties=("Is 0 doubled?",), notes=("Mutants: not measured.",),
    reflections=("Round 1: 3 tests.",),
)  # fmt: skip


def test_a_reader_sees_what_was_understood() -> None:
    stream = io.StringIO()
    tell_reading(told_suite(SUITE.model_dump(mode="json")) or {}, stream)
    text = stream.getvalue()
    for part in ("cc (cc 12)", "columns x, y", "boundary has only 1 tests.", "Is 0 doubled?", "Mutants: not measured.",
                 "Round 1: 3 tests.", "happy_path 2/3"):  # fmt: skip
        assert part in text
    assert SUITE.covered == 0.5


def test_an_older_suite_is_shown_without_what_it_lacks() -> None:
    stream = io.StringIO()
    tell_reading(told_suite({"tests": [], "gate": []}) or {}, stream)
    assert stream.getvalue() == ""


def test_the_pytest_file_runs_admitted_tests_and_skips_dropped_ones_with_their_reason(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def f(n):\n    return n * 2\n")
    (tmp_path / "t.sh").write_text('wc -l < "$1"\n')
    (tmp_path / "a.txt").write_text('1\n"two"\n')
    file = tmp_path / "test_suite.py"
    file.write_text(pytest_source(SUITE))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", file.name],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "2 passed, 1 skipped" in done.stdout.replace("1 failed, ", ""), done.stdout
    assert "FAILED test_suite.py::test_bad - AssertionError: observed 6 where 7" in done.stdout
    assert "dropped: contradicts" in done.stdout and "PASSED test_suite.py::test_shell" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] not in "._") == [
        "a.txt",
        "m.py",
        "t.sh",
        file.name,
    ]


@settings(max_examples=60)
@given(st.text(max_size=40), st.text(max_size=40), st.text(min_size=1, max_size=20))
def test_any_text_in_a_test_gives_a_file_that_compiles(text: str, sentence: str, identity: str) -> None:
    test = SelfTest(id=identity, category="boundary", subject=F, input=text, stdin=sentence, reasoning=text,
                    sentence=sentence, expectation=Property(name="defines", argument=text))  # fmt: skip
    verdict = GateVerdict(id=identity, admitted=False, reason=sentence)
    suite = Suite(tests=(test, test.model_copy(update={"input": ""})), dropped=(test,), gate=(verdict,))
    source = pytest_source(suite, title=": x")
    compile(source.encode("utf-8", "surrogatepass").decode("utf-8", "replace"), "test_suite.py", "exec")
    named = [line for line in source.split("\n") if line.startswith("def test_")]
    assert len(named) == len(set(named)) == 3
