"""Data by a program: the model writes one function, and what surrounds it reads and writes the files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.config import SolverConfig
from hc_ray.profile import Profile
from hc_ray.prompt import Completion, Malformed, Prompt
from hc_ray.solve import by_program, forms
from hc_ray.solve.deliverable import Deliverable, read_deliverable
from hc_ray.solve.propose import Ladder, ladder, round_slots, wanted_forms
from hc_ray.task import Environment

TOTAL = "The file `/app/prices.txt` holds one price a line. Write a file `total.txt` that holds their sum."


def asked(instruction: str, **inputs: str) -> tuple[Prompt, Deliverable]:
    deliverable = read_deliverable(instruction, Environment(workdir="/app"))
    shown = {path: next(iter(inputs.values())) for path in deliverable.inputs} if inputs else {}
    profile = Profile(stop={"completion": ("\ndef ",)})
    prompt = forms.ask(instruction, deliverable, form="by_program", plan="plain", hint="", seed=0, temperature=0.0,
                       max_tokens=50, profile=profile, inputs=shown)  # fmt: skip
    return prompt, deliverable


def written(folder: Path, instruction: str, answer: str, files: dict[str, str]) -> str:
    """What the program of an answer writes in a folder with these files; how it failed where it does."""
    prompt, deliverable = asked(instruction)
    program = by_program.read(Completion(text=answer), prompt, deliverable)
    if isinstance(program, Malformed):
        return program.reason
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "program.py").write_text(program)
    done = subprocess.run([sys.executable, "-I", "program.py"], cwd=folder, capture_output=True, text=True, timeout=20)
    made = folder / deliverable.main.path
    return made.read_text() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def test_the_prompt_ends_in_the_head_of_a_function_from_the_inputs_to_the_file() -> None:
    prompt, _ = asked(TOTAL, held="3\n4.5\n")
    assert prompt.text is not None and prompt.text.endswith("\ndef total_txt(prices):")
    assert all(line.startswith("#") for line in prompt.text.splitlines()[:-1])
    assert "list of numbers" in prompt.text and "`total.txt`" in prompt.text
    assert prompt.stop == ("\n```", "\ndef ")


def test_only_one_data_file_is_asked_for_by_program() -> None:
    others = ("Write a function `f(a)` in `m.py`.", "Write `a.json` and `b.json`.", "Write a shell script `run.sh`.")
    for text, suits in ((TOTAL, True), *((text, False) for text in others)):
        deliverable = read_deliverable(text, Environment())
        assert by_program.suits(deliverable) is suits, text
        differing = forms.differing(wanted_forms(SolverConfig(), Profile()), text, deliverable, Profile())
        assert ("by_program" in differing) is suits, text


def test_numbers_are_numbers_and_are_written_as_they_were_read(tmp_path: Path) -> None:
    prices = {"prices.txt": "1.50\n2\n\n"}
    assert written(tmp_path, TOTAL, "\n    return sum(prices)", prices) == "3.5\n"
    assert written(tmp_path, TOTAL, "\n    return prices", prices) == "1.50\n2\n"
    words = {"prices.txt": "b\n007\n"}
    assert written(tmp_path, TOTAL, "\n    return sorted(prices)", words) == "007\nb\n"


def test_rows_become_a_table_and_an_object_becomes_json(tmp_path: Path) -> None:
    table = "Read `/app/people.csv` and write a file `old.csv` with the people over 30."
    people = {"people.csv": 'name,age\n"Lind, Bo",41\nAda,9\n'}
    rows = "\n    return [row for row in people if row['age'] > 30]"
    assert written(tmp_path, table, rows, people) == 'name,age\n"Lind, Bo",41\n'
    lists = "\n    return [['n'], [1.0]]"
    assert written(tmp_path, table, lists, people) == "n\n1.0\n"
    counts = "Read `/app/people.csv` and write a file `count.json` that says how many people there are."
    assert json.loads(written(tmp_path, counts, "\n    return {'people': len(people)}", people)) == {"people": 2}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("\n    return sum(prices)\n\ntotal_txt = total_txt([])", "3.0\n"),
        ("\n    prices.sort()", "the function returned nothing"),
        ("\n    return unknown", "NameError: name 'unknown' is not defined"),
        ("", "the answer holds no function"),
        ("\n    return (", "the answer holds no function"),
    ],
)
def test_what_is_no_answer_fails_and_what_the_model_tries_itself_is_left_out(
    tmp_path: Path, answer: str, told: str
) -> None:
    assert written(tmp_path, TOTAL, answer, {"prices.txt": "1.0\n2.0\n"}) == told


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_answer_is_a_program_or_malformed(text: str) -> None:
    prompt, deliverable = asked(TOTAL)
    found = by_program.read(Completion(text=text), prompt, deliverable)
    assert isinstance(found, Malformed) or "def total_txt(prices):" in found


def test_a_program_is_repaired_as_a_program() -> None:
    from tests.unit.test_propose import PARENT, PLACE

    ways = ladder(SolverConfig(), Profile(), ("completion", "fenced", "by_program"))
    assert isinstance(ways, Ladder)
    parent = PARENT.model_copy(update={"program": "print()"})
    slot = round_slots(SolverConfig(), ways, number=2, count=1, begin=3, next_lineage=3, to_repair=[parent], **PLACE)[0]
    assert slot.form == "by_program"
