"""Uses that stand in blocks of an instruction: sessions, commands with their output, inputs and outputs, tables."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.solve.invocation import Use, read_use
from hc_ray.solve.passages import passages, table
from hc_ray.solve.sessions import shown_uses

F = "```"


def shown(text: str, path: str = "x.sh") -> list[tuple[str, str, str | None]]:
    return [(use.arguments, use.stdin, use.output) for use in shown_uses(text, path)[0]]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("$ sh x.sh a b\nb\na", [("a b", "", "b\na")]),
        ("% ./x.sh 1\n2\n% ./x.sh 5\n6", [("1", "", "2"), ("5", "", "6")]),
        ("me@host:~$ bash x.sh 'two words'\n2", [("'two words'", "", "2")]),
        ("> sh x.sh <<< 'a b'\n2", [("", "a b\n", "2")]),
        ("# x.sh 4\n8", [("4", "", "8")]),
        ("printf 'p\\nq\\n' | sh x.sh 1\np\nseq 2 3 | sh x.sh 1\n2", [("1", "p\nq\n", "p"), ("1", "2\n3\n", "2")]),
        ("$ sh x.sh <<END\n> one\n> END\nONE", [("", "one\n", "ONE")]),
        ("$ sh x.sh 0\n$ sh x.sh 1\nyes\n$ echo $?\n0", [("0", "", ""), ("1", "", "yes")]),
        ("$ chmod +x x.sh\n$ ./x.sh 3\n9", [("3", "", "9")]),
    ],
)
def test_a_session_tells_what_each_command_prints(block: str, expected: list[tuple[str, str, str | None]]) -> None:
    assert shown(f"Write `x.sh`. It may take an argument.\n\n{F}\n{block}\n{F}\n\nThat is all.") == expected


@pytest.mark.parametrize(
    "block",
    [
        "$ cat box.txt | sh x.sh\nred",
        "$ sh x.sh < box.txt\nred",
        "$ sh x.sh $HOME\n/root",
        "$ sh x.sh *.c\na.c",
        "$ sh x.sh a | wc -l\n7",
        "$ cd /srv\n$ sh x.sh 3\n9",
        "$ sh other.sh 3\n9",
        "#!/bin/sh\necho 1",
        "sh x.sh FILE...\n3",
    ],
)
def test_what_is_not_wholly_known_is_left_out(block: str) -> None:
    assert shown(f"Write `x.sh`, a script.\n\n{F}\n{block}\n{F}") == []


def test_an_output_that_is_cut_typed_or_a_fault_is_left_open() -> None:
    cut = f"Write `x.sh`.\n\n{F}\n$ sh x.sh 90\n1\n2\n...\n90\n{F}"
    assert shown(cut) == [("90", "", None)]
    typed = f"Write `x.sh`, which reads a name from standard input.\n\n{F}\n$ sh x.sh\nName? Bo\nHi Bo\n{F}"
    assert shown(typed) == []
    fault = f"Write `x.sh`. Errors go to standard error.\n\n{F}\n$ sh x.sh q\nerror: no number\n{F}"
    assert shown(fault) == [("q", "", None)]


def test_what_a_bug_prints_is_not_what_must_be_printed() -> None:
    assert shown(f"Fix `x.sh`. Currently it prints the wrong sum:\n\n{F}\n$ sh x.sh 1 2\n4\n{F}") == []


def test_a_c_program_is_run_under_the_name_that_it_is_compiled_to() -> None:
    text = f"Write `area.c`.\n\n{F}\n$ gcc -O2 -o box area.c\n$ ./box 3 4\n12\n{F}"
    assert shown(text, "area.c") == [("3 4", "", "12")]
    assert shown(text.replace("./box", "./tin"), "area.c") == []
    assert shown(text.replace("./box", "./a.out"), "area.c") == [("3 4", "", "12")]


def test_files_whose_contents_are_shown_come_with_the_use() -> None:
    text = f"Write `x.sh`.\n\n{F}\n$ cat in.txt\nred\nblue\n$ sh x.sh in.txt\n2\n{F}"
    (use,), held = shown_uses(text, "x.sh")
    assert use == Use(arguments="in.txt", files={"in.txt": "red\nblue\n"}, output="2") and held == use.files
    told = f"Write `x.sh`. If the file `k.txt` contains\n\n{F}\n1\n2\n{F}\n\nthen `sh x.sh k.txt` prints\n\n{F}\n3\n{F}"
    (use,), _ = shown_uses(told, "x.sh")
    assert use == Use(arguments="k.txt", files={"k.txt": "1\n2\n"}, output="3")


@pytest.mark.parametrize(
    "text",
    [
        f"Input:\n{F}\n7 8\n{F}\nOutput:\n{F}\n56\n{F}",
        f"### Sample Input 1\n\n{F}\n7 8\n{F}\n\n### Sample Output 1\n\n{F}\n56\n{F}",
        f"Example:\n\n{F}\nInput: 7 8\nOutput: 56\n{F}",
        "Example input: `7 8`\nExample output: `56`",
        "Input:\n\n    7 8\n\nOutput:\n\n    56\n",
        f"Given this input:\n\n{F}\n7 8\n{F}\n\nthe output is:\n\n{F}\n56\n{F}",
        "| Input | Output |\n|---|---|\n| `7 8` | `56` |",
    ],
)
def test_inputs_and_outputs_are_paired(text: str) -> None:
    said = f"Write `x.sh`, which reads two numbers from standard input and prints their product.\n\n{text}"
    assert shown(said) == [("", "7 8\n", "56")]


def test_a_description_of_the_input_is_no_input() -> None:
    assert shown("Write `x.sh`; it reads standard input.\n\nInput: two whole numbers\nOutput: their sum") == []


def test_a_command_and_its_output_may_stand_in_two_blocks() -> None:
    text = f"Write `x.sh`.\n\nCommand:\n{F}\nsh x.sh 2\n{F}\nOutput:\n{F}\n1\n2\n{F}"
    assert shown(text) == [("2", "", None), ("2", "", "1\n2")]
    assert shown(f"Write `x.sh`. The output of `sh x.sh 2` is:\n\n{F}\n1\n2\n{F}") == [("2", "", "1\n2")]


def test_a_command_line_is_read_as_a_shell_would() -> None:
    def use(line: str) -> Use | None:
        return read_use(line, "/app/x.py", "", {"a.txt": "A\n"})

    assert use("python3 /app/x.py a.txt") == Use(arguments="a.txt", files={"a.txt": "A\n"})
    assert use("cat a.txt | python3 x.py") == use("python3 x.py < a.txt") == Use(stdin="A\n")
    assert use("echo -n 'a  b' | ./x.py -n 3") == Use(arguments="-n 3", stdin="a  b")
    assert use("printf '%s\\n' p q | ./x.py") == Use(stdin="p\nq\n")
    assert use("printf '5%%' | ./x.py") == Use(stdin="5%")
    for unknown in ("printf '%5d' 3 | ./x.py", "echo 'a\\n' | ./x.py", "sort a.txt | ./x.py", "./x.py > o", "./x.py &",
                    "./x.py $1", "rm a.txt; ./x.py", "python3 y.py", "./x.py it's", ""):  # fmt: skip
        assert use(unknown) is None


def test_an_instruction_falls_into_prose_code_and_tables() -> None:
    text = f"One.\n\n{F}py\n    a\n  b\n{F}\nTwo:\n| h | i |\n|---|---|\n| `a|b` | c \\| d |\n\n    code\n\nThree."
    found = [(one.kind, one.text) for one in passages(text)]
    assert [kind for kind, _ in found] == ["prose", "code", "prose", "table", "code", "prose"]
    assert found[1][1] == "  a\nb" and found[4][1] == "code"
    assert table(found[3][1]) == (["h", "i"], [["`a|b`", "c | d"]])


PIECES = st.sampled_from(
    [
        *(
            "```",
            "\n",
            "\n\n",
            "$ sh x.sh a",
            "| ",
            "|---|---|",
            "| Input | Output |",
            "Input:",
            "Output: `3`",
            "`x.sh`",
        ),
        *("> ", "<<EOF", "EOF", "printf '%s' ", "echo 'a", "cat a.txt", "    ", "| sh x.sh", "\\", "'", '"'),
        "`sh x.sh 1` prints:",
    ]
)


@settings(max_examples=150)
@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=30).map("".join)))
def test_arbitrary_text_never_raises(text: str) -> None:
    for path in ("x.sh", "a.c", ""):
        uses, held = shown_uses(text, path)
        assert all(isinstance(use, Use) for use in uses) and isinstance(held, dict)
