import io

from hc_ray.domain.suite import ExpectedValue, GateVerdict, SelfTest, Subject, Suite
from hc_ray.reports.trial_text import tell_suite
from hc_ray.reports.trial_view import told_suite
from tests.fakes.suites import call_test


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
    assumptions=("boundary has only 1 tests.",), uncertainties=("Is 0 doubled?",), notes=("Mutants: not measured.",),
    reflections=("Round 1: 3 tests.",),
)  # fmt: skip


def test_a_reader_sees_what_was_understood_and_of_an_older_suite_what_it_has():
    stream = io.StringIO()
    tell_suite(told_suite(SUITE.model_dump(mode="json")), stream)
    text = stream.getvalue()
    for part in ("boundary has only 1 tests.", "Is 0 doubled?", "Mutants: not measured.",
                 "Round 1: 3 tests.", "happy_path 2/3"):  # fmt: skip
        assert part in text
    assert SUITE.covered == 0.5
    stream = io.StringIO()
    tell_suite(told_suite({"tests": [], "gate": []}), stream)
    assert " ".join(stream.getvalue().split()) == "Self-tests: 0 admitted of 0 generated no test was written"
