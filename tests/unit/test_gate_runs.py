"""The gate's steps that look at runs, and what becomes of the tester's answers in them."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.domain.task import Environment, Task
from hc_ray.selftests import gate
from hc_ray.selftests.baseline_programs import trivial_candidates
from tests.fakes.folder_place import FolderPlace
from tests.fakes.specs import read
from tests.fakes.testers import GUESSES, INSTRUCTION, a_tester, suite_of


async def test_trivial_candidates_and_scripts_run_and_a_hard_coded_one_knows_the_example_only():
    made = trivial_candidates(*read(INSTRUCTION))
    names = {}
    exec(made["hard-coded"]["m.py"], names)
    assert callable(names["f"]) and names["f"](4) == 8 and names["f"](5) is None
    exec(made["constant"]["m.py"], names)
    assert names["f"](5) == 8 and made["empty"] == {"m.py": ""}
    place = FolderPlace()
    box = await place.create(Task(name="t", digest="0" * 64, instruction="x", environment=Environment()), "s")
    made = trivial_candidates(*read("Write a shell script `t.sh`. `bash t.sh \"it's\"` prints `Hi 'it'`."))
    await box.put({name: files["t.sh"].encode() for name, files in made.items()})
    assert (await box.exec(["sh", "hard-coded", "it's"], timeout=20)).stdout == b"Hi 'it'\n"
    assert (await box.exec(["sh", "hard-coded", "you"], timeout=20)).stdout == b""
    assert (await box.exec(["sh", "constant", "you"], timeout=20)).stdout == b"Hi 'it'\n"
    await place.close()


async def test_what_the_tester_expects_judges_nobody_and_its_inputs_stay():
    suite = await suite_of(a_tester(lambda prompt: GUESSES))
    assert {test.input for test in suite.tests if test.expectation.kind == "value"} == {"f(4)"}
    written = [test for test in suite.tests if test.tester]
    assert "f(3)" in {test.input for test in written} and {test.expectation.kind for test in written} == {"unknown"}


@settings(max_examples=8)
@given(st.text(alphabet="f(1, 'a\"[]{}=>-)#\n:assert raises```python def return", max_size=80))
def test_any_model_gives_a_suite_of_tests_that_assert(text):
    suite = asyncio.run(suite_of(a_tester(lambda prompt: text)))
    assert len(suite.tests) >= 10 and all(gate.fault_of(test) is None for test in suite.tests)
    assert {verdict.id for verdict in suite.gate} == {test.id for test in (*suite.tests, *suite.dropped)}


async def test_nobody_is_asked_to_draft_a_data_file_and_where_no_file_is_known_no_tests_are_written():
    asked = []

    def answer(prompt):
        asked.append(prompt)
        return "1\n"

    files = {"in.csv": "a,b\n1,2\n"}
    data = await suite_of(a_tester(answer), instruction="Write `/app/out.csv`: `/app/in.csv` sorted.", files=files)
    assert {test.expectation.kind for test in data.tests} == {"property", "unknown"} and not asked
    unknown = await suite_of(a_tester(answer), instruction="Make the tests pass.", files=files)
    assert not unknown.tests and not asked
    assert "The instruction does not name exactly one missing file: the answer names its files." in unknown.assumptions
