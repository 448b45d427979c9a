"""How a tester's whole test files are read, and what knows nothing of a task."""

import sqlite3
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.agent.code_blocks import read_blocks
from hc_ray.domain.prompt import Completion, Malformed
from hc_ray.domain.task import Environment, EnvironmentView, FileView
from hc_ray.selftests import file_tester, gate
from hc_ray.selftests.coverage import quoted_in, sentence_of
from hc_ray.selftests.file_suite import first_files, heads, states
from hc_ray.selftests.file_tester import Written, fault_of, read, read_readings, sources
from hc_ray.selftests.trivial_states import CONSTANT, EMPTY, PARROT, named_paths, trivial_states
from hc_ray.spec.reading import read_spec
from hc_ray.spec.spec import NamedFile, Spec

INSTRUCTION = "Write the sum to `/app/sum.txt`.\n\nAn empty file gives 0.\n"
SPEC = Spec(
    instruction=INSTRUCTION, workdir="/app", sentences=("Write the sum to `/app/sum.txt`.", "An empty file gives 0."),
    files=(NamedFile(path="sum.txt", exists=False, located=True),),
)  # fmt: skip
ANSWER = '''**Requirements**
1. The sum is written.
2. Empty is 0.

Assumptions:
- Integers only.

Uncertain:
- Negative numbers.

```python
import pathlib

LIMIT = 3


def helper():
    return pathlib.Path("/app/sum.txt").read_text()


def test_sum():
    """happy_path | "Write the sum to /app/sum.txt." """
    assert helper() == "6"


def test_empty(tmp_path):
    """edge_case | "An empty file gives 0." """
    assert LIMIT


def test_unnamed():
    helper()
```
'''


def written(text: str) -> Written:
    found = read(Completion(text=text), SPEC)
    assert isinstance(found, Written), found
    return found


def test_each_function_becomes_a_test_with_what_it_needs_and_a_cut_file_gives_those_before_the_cut():
    found = written(ANSWER)
    assert [test.subject.function for test in found.tests] == ["test_sum", "test_empty", "test_unnamed"]
    assert [test.category for test in found.tests] == ["happy_path", "edge_case", "happy_path"]
    assert found.tests[1].sentence == "An empty file gives 0."
    for test in found.tests:
        assert "LIMIT = 3" in test.input and "def helper" in test.input and test.input.count("def test_") == 1
    assert found.requirements == ("The sum is written.", "Empty is 0.")
    assert found.assumptions == ("Integers only.",) and found.uncertainties == ("Negative numbers.",)
    cut = read(Completion(text=ANSWER[: ANSWER.index("assert LIMIT") + 4], finish_reason="length"), SPEC)
    assert isinstance(cut, Written) and [test.subject.function for test in cut.tests] == ["test_sum"]


def test_a_whole_answer_whose_last_fence_stays_open_keeps_its_last_test():
    assert written(ANSWER.removesuffix("```\n")) == written(ANSWER)
    script = '```sh\n# test_one: format | "An empty file gives 0."\ntest -s one.txt\n'
    assert [test.subject.function for test in written(script).tests] == ["test_one"]
    assert isinstance(read(Completion(text=script, finish_reason="length"), SPEC), Malformed)


@pytest.mark.parametrize("text", ["", "no code", "```python\nprint(1)\n```", "```python\ndef test_(:\n```"])
def test_an_answer_without_tests_is_malformed(text):
    assert isinstance(read(Completion(text=text), SPEC), Malformed)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*ANSWER.splitlines(True), "Requirements\n", "```\n", "\0", "é(", "def test_x():\n"])))
def test_no_answer_raises(lines):
    read(Completion(text="".join(lines)), SPEC)


def test_what_cannot_fail_asserts_nothing():
    faults = [fault_of(test) for test in written(ANSWER).tests]
    assert faults == [None, None, "asserts nothing"]
    screened, _ = gate.screen([test.model_copy(update={"id": str(i)}) for i, test in enumerate(written(ANSWER).tests)])
    assert [test.subject.function for test in screened] == ["test_sum", "test_empty"]


def test_the_tests_and_their_comments_reach_the_suite_and_stand_in_one_file_for_the_second_reading():
    text = sources(written(ANSWER).tests)
    assert text.count("def helper") == 1 and text.count("LIMIT = 3") == 1 and text.count("def test_") == 3
    commented = ANSWER.replace("    assert LIMIT", "    # Nothing to add up.\n    assert LIMIT; x = 1")
    commented = commented.replace("LIMIT = 3", "# As the task says.\nLIMIT = 3; OTHER = 4")
    tests = written(commented).tests
    assert "# Nothing to add up." in tests[1].input and "# Nothing to add up." not in tests[0].input
    assert "LIMIT = 3" in tests[0].input and "OTHER = 4" in tests[0].input
    text = sources(tests)
    assert text.count("# Nothing to add up.") == 1 and text.count("LIMIT = 3") == 1


def test_readings_are_read_line_by_line_and_quote_the_task_even_with_a_bar():
    said = (
        'test_sum: right | "Write the sum" | fine\n- `test_empty`: WRONG | "An empty file  gives `0`." | says 1\n'
        "noise\ntest_x: unsupported\ntest_y: broken | | it calls what is not there"
    )
    found = read_readings(Completion(text=said))
    assert {name: one.verdict for name, one in found.items()} == {
        "test_sum": "right", "test_empty": "wrong", "test_x": "unsupported", "test_y": "broken"
    }  # fmt: skip
    assert quoted_in(found["test_empty"].quote, INSTRUCTION)
    assert found["test_y"].reason == "it calls what is not there"
    assert not quoted_in("A full file gives 1.", INSTRUCTION) and not quoted_in("sum", INSTRUCTION)
    said = 'test_a: wrong | "a | b" | no reason\ntest_b: wrong | "a | b"\ntest_c: right | no marks | so'
    found = read_readings(Completion(text=said))
    assert [(one.quote, one.reason) for one in found.values()] == [
        ("a | b", "no reason"), ("a | b", ""), ("no marks", "so")
    ]  # fmt: skip


def test_what_stands_beside_a_heading_counts_as_one_of_its_items():
    prose = "Requirements:\n- sums lines\n**Assumptions:** integers only\nUncertain: negative numbers\n"
    found = written(prose + ANSWER[ANSWER.index("```") :])
    assert (found.requirements, found.assumptions) == (("sums lines",), ("integers only",))
    assert found.uncertainties == ("negative numbers",)


def test_readings_may_be_numbered_and_marked_and_a_quotation_keeps_the_marks_of_code_in_it():
    said = "1. test_a: right | x\n2) **test_b:** wrong | y\nname: test_c(): **unsupported**\n- `test_d`: right | z"
    found = read_readings(Completion(text=said))
    assert [found[f"test_{name}"].verdict for name in "abcd"] == ["right", "wrong", "unsupported", "right"]
    for said, quote in {"`Write the sum.`": "Write the sum.", '"`make -j8` works"': "`make -j8` works"}.items():
        assert read_readings(Completion(text=f"test_a: right | {said} | so"))["test_a"].quote == quote
    for said in ("`sum` is written to `a`", "the file `sum.txt`", 'absent ones show "NONE"'):
        assert read_readings(Completion(text=f"test_a: right | {said} | so"))["test_a"].quote == said


def test_tests_that_mean_different_things_by_one_name_are_shown_in_files_of_their_own():
    first, second = written(ANSWER).tests[:2]
    other = second.model_copy(update={"input": second.input.replace("LIMIT = 3", "LIMIT = 4")})
    text = sources([first, other])
    assert text.index("LIMIT = 3") < text.index("# A file of its own:") < text.index("LIMIT = 4")
    script = '```sh\n# test_{0}: format | "An empty file gives 0."\ntest "$(cat {0}.txt)" = 0\n```\n'
    text = sources(written("".join(map(script.format, ("one", "two")))).tests)
    assert text.count("import subprocess") == 1 and "one.txt" in text and "two.txt" in text


def test_a_shell_script_is_a_test_with_category_and_sentence():
    script = '```bash\n#!/bin/bash\n# test_run: edge_case | "An empty file gives 0."\ntest "$(cat sum.txt)" = 0\n```\n'
    found = written(ANSWER + script).tests[-1]
    assert (found.subject.function, found.category, found.sentence) == (
        "test_run", "edge_case", "An empty file gives 0."
    )  # fmt: skip
    assert fault_of(found) is None and 'test "$(cat sum.txt)" = 0' in found.input and written(script).tests == (found,)


def test_trivial_states_make_every_named_path_that_is_missing():
    seen = 'open("/app/out/report.json").read() or "http://localhost:8000/a.json"'
    paths = named_paths(SPEC, written(ANSWER.replace('"6"', seen)).tests)
    assert paths == ("/app/sum.txt", "/app/out/report.json")
    states = trivial_states(SPEC, [*paths, "/app/run.sh", "/app/out"])
    assert list(states) == [EMPTY, CONSTANT, PARROT]
    assert set(states[EMPTY]) == {"sum.txt", "out/report.json", "run.sh"}, "files make their folder"
    assert states[CONSTANT]["out/report.json"] == "{}\n" and "exit 0" in states[CONSTANT]["run.sh"]
    assert "An empty file" not in states[PARROT]["sum.txt"], "code spans come before prose"
    assert "sum.txt" in states[PARROT]["sum.txt"] and trivial_states(SPEC, []) == {}
    tests = written(ANSWER.replace('"6"', 'open("/tmp/r.txt").read() or open("/tmp/mine.txt").read()')).tests
    told = SPEC.model_copy(update={"instruction": "Write the result to `/tmp/r.txt`."})
    assert named_paths(told, tests) == ("/app/sum.txt", "/tmp/r.txt")


def test_the_tester_is_shown_task_environment_and_heads_of_files_and_is_asked_for_what_is_missing():
    spec = SPEC.with_snapshot(EnvironmentView(files=(FileView(path="given.txt", size=3),)))
    known = written(ANSWER).tests[:1]
    seen = file_tester.Seen(spec=spec, environment="ENVIRONMENT", files="HEADS", max_tokens=9, temperature=0.7)
    prompt = file_tester.ask(seen, 1, known=known, reflection="Too few tests of: boundary.")
    said = prompt.messages[-1].content
    assert all(part in said for part in (INSTRUCTION.strip(), "ENVIRONMENT", "HEADS", "test_sum", "Too few tests of"))
    assert prompt.role == "tester" and "$" not in said
    part = known[0].model_copy(update={"sentence": "Long, long, long. " * 20 + "The end.", "reasoning": "The end."})
    more = file_tester.ask(seen, 1, known=[part]).messages[-1].content
    assert "The end." in more, "of a long sentence what the test quotes is shown"
    quoting = known[0].model_copy(update={"input": known[0].input + 'SHOWN = """\n```\n````\n"""\n'})
    (block,) = read_blocks(file_tester.ask_reading(seen, 1, [quoting]).messages[-1].content)
    assert block.language == "python" and block.text.strip() == sources([quoting]).strip()


def test_all_files_of_the_environment_are_shown_however_long_the_first_are_and_what_can_be_read_in_a_database():
    made = sqlite3.connect(":memory:")
    made.execute("CREATE TABLE orders (number INTEGER, placed TEXT)")
    logs = {f"{name}.log": f"GET /{name} OK\n".encode() * 1600 for name in "abcdefgh"}
    odd = {"empty": b"", "odd": b"\0", "cut.so": "\x02\ufffdELF".encode(), "page": b"a\f\x1b[1mb\n",
           "old": b"R\xfcckgabe"}  # fmt: skip
    told = heads({**logs, "shop.db": made.serialize(), "notes.md": b"the last of all", **odd})
    assert "old (no UTF-8; shown as ISO 8859-1):\nRückgabe" in told
    assert all(f"{name}:\nGET /{name[0]} OK\n" in told for name in logs) and told.index("a.log:") < told.index("h.log:")
    assert "shop.db (no text; what can be read in it):" in told and "CREATE TABLE orders (number" in told
    assert "cut.so" not in told and "page:\na\f" in told and "notes.md:\nthe last of all" in told
    assert len(told) < 17_000 and told.count("… cut after") == 8
    assert "cut after" not in heads({"a": b"x" * 4700}), "a file that is little longer is shown whole"
    assert "[… cut after 4000 characters]" in heads({"a": b"x" * 9000}) and heads({"empty": b""}) == heads({}) == ""


def test_rows_of_data_that_differ_only_in_numbers_leave_their_room_to_programs():
    rows = [f"{i},{i * 37 % 1000},{'AB'[i % 2]}\n" for i in range(400)]
    rows[300] = "300,n/a,A\n"
    table, program = ("id,value,kind\n" + "".join(rows)).encode(), "import sys\nprint(sys.argv[1])\nx()\n" * 120
    key = b"-----BEGIN KEY-----\n" + b"".join(b64encode(bytes([i] * 48)) + b"\n" for i in range(50))
    files = {"tool.py": program.encode(), "a.csv": table, "b.csv": table + b"400,0,A\n", "c.csv": table, "key.pem": key}
    told = heads(files)
    assert "c.csv:\n(the same as a.csv)" in told and "[… 45 lines like others]" in told
    assert f"tool.py:\n{program}" in told
    assert "a.csv:\nid,value,kind\n0,0,A\n1,37,B\n" in told and "[… 290 lines like others]\n300,n/a,A\n" in told
    assert "b.csv:\nid,value,kind\n0,0,A\n[… 299 lines like others]\n300,n/a,A\n[…" in told and "cut after" not in told


def test_a_tester_is_told_the_state_of_repositories():
    assert states(EnvironmentView()) == ""
    told = states(EnvironmentView(repositories={"/app/shop": "## main\n1a2b3c4 (HEAD -> main) first"}))
    assert told.endswith("all refs:\n\n/app/shop:\n## main\n1a2b3c4 (HEAD -> main) first")


async def test_heads_begin_with_the_files_that_the_instruction_names_also_where_a_step_of_the_image_made_them():
    class Untouched:
        async def get(self, path, *, limit):
            return None if path == "sum.txt" else f"text of {path}".encode()

    view = EnvironmentView(files=tuple(FileView(path=f"a{i:02}.txt", size=3, lines=1) for i in range(20)))
    spec = read_spec("Sum up `/app/z/given.csv` in `/app/sum.txt`.\n", Environment()).with_snapshot(view)
    assert [*await first_files(spec, Untouched())] == ["z/given.csv", *(f"a{i:02}.txt" for i in range(11))]


@pytest.mark.parametrize(("quote", "sentence"), [
    ("file gives 0.", "An empty file gives 0."), ("Its lines end with \n", "Its lines end with `\\n`, a *line feed*."),
    ("An empty file gives 0. Its lines end with", "An empty file gives 0."), ("a full file gives 1", ""), ("gives", ""),
])  # fmt: skip
def test_a_quotation_is_told_as_the_sentence_of_the_task_that_it_lies_in_and_else_not_at_all(quote, sentence):
    spec = read_spec("Sum up.\n\nAn empty file gives 0. Its lines end with `\\n`, a *line feed*.\n", Environment())
    assert sentence_of(quote, spec) == sentence
