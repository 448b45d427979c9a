import pytest

from hc_ray.domain.task import Environment
from hc_ray.spec.reading import read_spec

F = "```"


def shown(text: str) -> list[tuple[str, str, str | None]]:
    return [(run.command, run.stdin, run.output) for run in read_spec(text, Environment()).runs]


@pytest.mark.parametrize(("block", "expected"), [
    ("$ sh x.sh a b\nb\na", [("sh x.sh a b", "b\na\n")]),
    ("% ./x.sh 1\n2\n% ./x.sh 5\n6", [("./x.sh 1", "2\n"), ("./x.sh 5", "6\n")]),
    ("me@host:~$ bash x.sh 'two words'\n2", [("bash x.sh 'two words'", "2\n")]),
    ("> sh x.sh <<< 'a b'\n2", [("sh x.sh <<< 'a b'", "2\n")]),
    ("# ./x.sh 4\n8", [("./x.sh 4", "8\n")]),
    ("$ printf 'p\\nq\\n' | sh x.sh 1\np", [("printf 'p\\nq\\n' | sh x.sh 1", "p\n")]),
    ("$ sh x.sh <<END\n> one\n> END\nONE\n$ sh x.sh 3\n9", [("sh x.sh 3", None)]),
    ("$ sh x.sh 0\n$ sh x.sh 1\nyes\n$ echo $?\n0",
     [("sh x.sh 0", None), ("sh x.sh 1", "yes\n"), ("echo $?", "0\n")]),
    ("$ chmod +x x.sh\n$ ./x.sh 3\n9", [("./x.sh 3", "9\n")]),
    ("$ python3 x.py \\\n>   --all\n9", []),
    ("$ sh x.sh\n  a\n\n  b", [("sh x.sh", "  a\n\n  b\n")]),
])  # fmt: skip
def test_a_session_tells_what_each_command_prints(block: str, expected: list[tuple[str, str | None]]) -> None:
    assert shown(f"Write `x.sh`.\n\n{F}\n{block}\n{F}\n\nThat is all.") == [(one, "", out) for one, out in expected]


def test_an_output_that_is_cut_remarked_upon_or_depends_on_an_earlier_command_is_left_open():
    assert shown(f"{F}\n$ sh x.sh 90\n1\n2\n...\n90\n{F}") == [("sh x.sh 90", "", None)]
    assert shown(f"{F}\n$ sh x.sh 90\n1  # the first\n{F}") == [("sh x.sh 90", "", None)]
    text = f"{F}console\n$ cd /srv\n$ sh x.sh 3\n9\n{F}"
    assert shown(text) == [("sh x.sh 3", "", None)]
    (run,) = read_spec("Write x. Then `sh x.sh a` prints `b`. Good.", Environment()).runs
    assert run.sentence == "Then `sh x.sh a` prints `b`."


@pytest.mark.parametrize("text", [
    f"Input:\n{F}\n7 8\n{F}\nOutput:\n{F}\n56\n{F}",
    f"### Sample Input 1\n\n{F}\n7 8\n{F}\n\n### Sample Output 1\n\n{F}\n56\n{F}",
    f"Example:\n\n{F}\nInput: 7 8\nOutput: 56\nExplanation: 7 times 8\n{F}",
    "Example input: `7 8`\nExample output: `56`",
    "- **Input:** `7 8`\n- **Expected output:** `56`",
    "Input:\n\n    7 8\n\nOutput:\n\n    56\n",
    "| Input | Output |\n|---|---|\n| `7 8` | `56` |",
    "| Input | Expected output |\n|---|---|\n| 7 8 | 56 |",
])  # fmt: skip
def test_inputs_and_outputs_are_paired(text: str) -> None:
    assert shown(f"Write a program that multiplies.\n\n{text}") == [("", "7 8\n", "56\n")]


@pytest.mark.parametrize("text", [
    "Input: two whole numbers\nOutput: their sum",
    "- Input: `/app/in.csv`\n- Output: `/app/out.json`",
    f"Output:\n{F}\n56\n{F}",
    f"Input:\n{F}\n56\n{F}",
    f"{F}\nrule a:\n    input:\n        a\n    output:\n        b\n{F}",
    f"{F}python\nInput: 1\nOutput: 2\n{F}",
    "Input format: `a b`\nOutput format: `c`",
    "| Input | Meaning |\n|---|---|\n| `7 8` | `56` |",
    *(f"{F}\n{block}\n{F}" for block in ("#!/bin/sh\necho 1", "# a comment\nx = 1", "ls\n3", "> quoted text\nmore",
                                       "price: $ 5\n6", "$ x <name>\n3")),
    "`sh x.sh a` prints `b` followed by a dot.", "`sh x.sh a` prints the `b`.", "`sh x.sh FILE...` prints `b`.",
    "`sh x.sh <name>` prints `b`.", "`other` prints `b`.", "`python3 x.py` → `out/a.json`.",
])  # fmt: skip
def test_what_is_no_session_and_only_describes_input_output_or_a_command_is_no_run(text: str) -> None:
    assert shown(f"Write a program.\n\n{text}") == []


@pytest.mark.parametrize(("text", "run"), [
    ("`sh x.sh a` prints `b`.", ("sh x.sh a", "", "b\n")),
    ("For example `./x 3 4` → `12`, and so on.", ("./x 3 4", "", "12\n")),
    ("`python3 /app/x.py -n 3` should print `a  b`", ("python3 /app/x.py -n 3", "", "a  b\n")),
    ("Build `/app/tool.pl`. Then `tool.pl 3` prints `9`.", ("tool.pl 3", "", "9\n")),
    ("`echo 3 | sh x.sh` prints `9`.", ("echo 3 | sh x.sh", "", "9\n")),
    ("| Command | Output |\n|---|---|\n| `sh x.sh 3` | `9` |", ("sh x.sh 3", "", "9\n")),
])  # fmt: skip
def test_a_span_that_prints_another_is_a_run(text: str, run: tuple[str, str, str]) -> None:
    assert shown(text) == [run]
