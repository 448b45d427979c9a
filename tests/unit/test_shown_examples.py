import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.domain.suite import SelfTest
from hc_ray.selftests.gate import fault_of
from hc_ray.selftests.inputs import fits
from hc_ray.selftests.shown_examples import generic_inputs, shown_tests
from tests.fakes.specs import read

ONE = "Write `/app/m.py` with `f(a)`. It adds one. `f(1)` returns `2`."


def shown(text: str, *files: str) -> tuple[SelfTest, ...]:
    return shown_tests(*read(text, *files))


def expected(tests: tuple[SelfTest, ...]) -> list[tuple[str, str, str]]:
    return [(test.input, test.stdin, str(getattr(test.expectation, "value", test.expectation.kind))) for test in tests
            if test.expectation.kind in ("value", "rejected")]  # fmt: skip


def properties(tests: tuple[SelfTest, ...]) -> list[tuple[str, str, str]]:
    """(property, argument, input) of each test that asks for one."""
    return [(test.expectation.name, test.expectation.argument, test.input) for test in tests
            if test.expectation.kind == "property"]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), [
    (ONE, [("f(1)", "", "2")]),
    (ONE + " `f(-1)` raises ValueError.", [("f(1)", "", "2"), ("f(-1)", "", "rejected")]),
    ("Write `/app/m.py`:\n\n```python\n>>> f([1,2])\n[2, 4]\n```\n", [("f([1, 2])", "", "[2, 4]")]),
    (ONE.replace(" `f(1)` returns `2`.", ""), []),
    ("Write `t.sh`. `bash t.sh \"it's\"` prints `Hi`.", [("'it'\"'\"'s'", "", "Hi\n")]),
    ("Write `t.py`.\n\n```console\n$ echo 'a b' | python3 t.py\nA B\n$ ./t.py --all x\n1\n```\n",
     [("", "a b\n", "A B\n"), ("--all x", "", "1\n")]),
    ("Write a program `/app/p.c`.\n\nInput:\n```\n3 4\n```\nOutput:\n```\n7\n```\n", [("", "3 4\n", "7\n")]),
    ("Write `t.sh`.\n\n```console\n$ sh t.sh a > out\nno\n$ sh other.sh a\n1\n```\n", []),
    ("Write `a.py` and `b.py`. `f(1)` returns `2`.", []),
    ("Write `/app/o.json`. The mean of 1 and 3 is 2.", []),
])  # fmt: skip
def test_only_shown_calls_runs_and_blocks_have_answers(text, told):
    assert expected(shown(text)) == told


def test_a_program_is_tried_with_shown_inputs_a_data_file_by_what_it_holds_and_no_file_not_at_all():
    spec, deliverable = read("Make the tests in this repository pass. `f(1)` returns `2`.")
    assert shown_tests(spec, deliverable) == generic_inputs(spec, deliverable, count=3) == ()
    runs = generic_inputs(*read("Write `t.sh`. `sh t.sh a b` prints `1`."), count=3)
    assert [(test.subject.kind, test.input) for test in runs] == [("command", "a b")]
    (file,) = generic_inputs(*read("Write `/app/o.csv`."), count=3)
    assert file.subject.kind == "file"


@pytest.mark.parametrize(("path", "names"), [
    ("o.json", ["exists", "nonempty", "valid_json", "utf8"]),
    ("o.csv", ["exists", "nonempty", "valid_csv", "utf8"]),
    ("o.txt", ["exists", "nonempty", "utf8"]),
    ("t.sh", ["exists", "nonempty", "compiles"]),
])  # fmt: skip
def test_a_file_must_have_the_form_of_its_kind(path, names):
    tests = shown(f"Write `/app/{path}` with the totals.")
    assert [name for name, *_ in properties(tests)] == names and not any(test.guard for test in tests)


def test_a_shown_answer_outweighs_a_guess_and_has_its_sentence():
    text = "Write `m.py` that defines `f(n)`.\nIt doubles. For example, `f([1,2])` returns `[2,4]`. Be quick."
    (example,) = [test for test in shown(text) if test.expectation.kind == "value"]
    assert example.weight > 1 and example.sentence == "For example, `f([1,2])` returns `[2,4]`."


@pytest.mark.parametrize(("text", "calls"), [
    ("Write `m.py` with `f(text, n)`.", []),
    ("Write `m.py`:\n\n```python\ndef f(a: list[str]):\n```\n",
     ["f(['b', 'a', 'c'])", "f([])", "f(['', 'a', 'A'])"]),
    ("Write `m.py` with `f(x)`. `f({'k': 1})` returns `1`.", ["f({'k': 1})", "f({'a': 1, 'b': 2})", "f({})"]),
    ("Write `m.py` with `f(x)`. `f('a-b')` returns `1`.", ["f('a-b')"]),
    ("Write `m.py` with `f(x)`. `f((1, 2))` returns `1`.", ["f((1, 2))"]),
])  # fmt: skip
def test_inputs_are_of_shown_or_annotated_types_and_there_are_none_where_a_type_is_unknown(text, calls):
    tests = generic_inputs(*read(text), count=1)
    assert {test.expectation.kind for test in tests} <= {"unknown"}
    assert [test.input for test in tests][: len(calls)] == calls and bool(tests) is bool(calls)


def test_a_signature_tells_which_calls_it_takes():
    calls = ("f(1)", "f(1, 2, 3)", "f(1, b=2)", "f(1, 2, b=2)", "f(1, c=2)", "f(b=2)", "f(*[1])")
    assert [fits(call, ("a", "b = 2"), None) for call in calls] == [True, False, True, False, False, False, True]
    assert fits("f(1, 2, 3)", (), None), "nothing is known of its signature"
    assert fits("f('x')", ("a: int",), None) and not fits("f('x')", ("a: int",), ())


PIECES = """write `m.py` `t.sh` `f(a, b)` `f(1,` returns `[2]` raises def f(a: int) -> str: >>> f('x') `sh t.sh a`
prints `o.csv` Input: Output: ``` $ echo 3 | ./t.sh ' " ( | . ,"""
WORDS = st.lists(st.sampled_from([*PIECES.split(), "\n", "\n\n"]), max_size=40).map(" ".join)


@given(st.one_of(st.text(max_size=300), WORDS))
def test_any_instruction_gives_only_tests_that_can_run(text):
    spec, deliverable = read(text)
    made = (*shown_tests(spec, deliverable), *generic_inputs(spec, deliverable, count=3))
    assert all(fault_of(test) is None for test in made)
