"""A program, a script or a file to write is told as a function; what no rule knows stays as it was said."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.solve.retold import parameters, retold
from hc_ray.solve.retold_file import retold_file
from hc_ray.solve.retold_function import retold_function


def told(instruction: str, path: str) -> str:
    """The first line of an instruction that is retold."""
    return retold(instruction, path, "f", parameters(instruction, path)).splitlines()[0]


@pytest.mark.parametrize(
    ("instruction", "names", "loads"),
    [
        ("reads one number from standard input and prints it", "number", "_typed(text.split())[0]"),
        ("reads whole numbers from stdin and prints the largest", "numbers", "_typed(text.split())"),
        (
            "reads the sides, two integers, from standard input",
            "a b",
            "_typed(text.split())[0] _typed(text.split())[1]",
        ),
        ("reads two lines from standard input and compares them", "a b", "text.splitlines()[0] text.splitlines()[1]"),
        ("reads lines from standard input and sorts them", "lines", "text.splitlines()"),
        ("reads one line from standard input and prints it backwards", "line", "text.partition('\\n')[0]"),
        ("reads lines of comma-separated values from standard input", "lines", "text.splitlines()"),
        ("reads words on stdin and prints the first", "words", "text.split()"),
        ("reads text from standard input and prints it", "text", "text"),
        ("prints the lines of standard input", "text", "text"),
        ("prints each of its arguments", "arguments", "arguments"),
        ("prints the sum of its arguments, whole numbers", "arguments", "_typed(arguments)"),
        ("takes two whole numbers as arguments and adds them", "a b", "_typed(arguments)[0] _typed(arguments)[1]"),
        ("takes a folder as its first argument and lists it", "folder", "arguments[0]"),
        ("takes a file name as its only argument", "file_name", "arguments[0]"),
        ("takes a file name as its argument and copies that file, with its lines", "file_name", "arguments[0]"),
        ("takes a word and a file name as arguments and prints the lines with it", "arguments", "arguments"),
        ("prints `Hi WHO`, where WHO is the first argument", "who", "arguments[0]"),
        ("prints its argument; without an argument it prints usage", "arguments", "arguments"),
        ("takes a string as its argument and reads text from stdin", "string text", "arguments[0] text"),
        ("takes a class as its argument", "argument", "arguments[0]"),
        ("takes a list as its argument", "argument", "arguments[0]"),
        ("takes two numbers as arguments and reads two numbers from stdin", "a b a_2 b_2", ""),
        ("prints `hello`", "", ""),
    ],
)
def test_what_a_program_is_given_becomes_parameters(instruction: str, names: str, loads: str) -> None:
    found = parameters(f"Write a C program `p.c` that {instruction}.", "p.c")
    assert [one.name for one in found] == names.split()
    assert not loads or [one.load for one in found] == loads.split(" ")


@pytest.mark.parametrize(
    ("example", "name"),
    [("For the input `7` it prints `49`.", "number"), ("For the input `7 8` it prints `1`.", "numbers")],
)
def test_an_example_tells_one_number_from_several(example: str, name: str) -> None:
    text = f"Write a C program `p.c` that reads the value to square from standard input. {example}"
    assert [one.name for one in parameters(text, "p.c")] == [name]


@pytest.mark.parametrize(
    ("instruction", "path", "expected"),
    [
        (
            "Write a C program `p.c` that reads whole numbers from standard input and prints their sum and a newline. "
            "It will be compiled with gcc.",
            "p.c",
            "Write a Python function `f(numbers)` that takes whole numbers and returns their sum.",
        ),
        (
            "Create a shell script called `/app/p.sh`. It takes a word as its first argument and outputs it to stdout.",
            "p.sh",
            "Create a Python function `f(word)`. It takes a word and returns it.",
        ),
        (
            "Write a Bash script `p.sh` that prints `Dear NAME,` where NAME is its first command-line argument.",
            "p.sh",
            "Write a Python function `f(name)` that returns `Dear {name},`.",
        ),
        ("Write a script `p.sh` that prints `print 1`.", "p.sh", "Write a Python function `f()`."),
        (
            "In `p.c`, write a C program that reads a line from stdin and prints its length.",
            "p.c",
            "Write a Python function `f(line)` that takes a line and returns its length.",
        ),
        (
            "Make a program in C, in the file `p.c`. It prints `a` for every argument. The exit status is 0.",
            "p.c",
            "Make a Python function `f(arguments)`. It returns `a` for every argument.",
        ),
        (
            "Write `p.sh`, a bash script that prints its arguments.",
            "p.sh",
            "Write a Python function `f(arguments)` that returns its arguments.",
        ),
        (
            "The shell script `p.sh` should print its arguments.",
            "p.sh",
            "A Python function `f(arguments)` should return its arguments.",
        ),
    ],
)
def test_a_program_is_told_as_a_function(instruction: str, path: str, expected: str) -> None:
    assert told(instruction, path) == expected


@pytest.mark.parametrize(
    ("said", "expected", "load"),
    [
        ("takes a file name as its first argument and prints the number of its lines",
         "takes the lines of a file and returns the number of its lines", "{}.splitlines()"),
        ("takes the path of a text file and prints the longest word in it",
         "takes the text of a file and returns the longest word in it", "{}"),
        ("gets a file with one number per line as its argument and prints their sum",
         "gets the numbers of a file with one number per line and returns their sum", "_typed({}.split())"),
    ],
)  # fmt: skip
def test_a_script_that_is_given_a_file_becomes_a_function_of_what_is_in_it(said: str, expected: str, load: str) -> None:
    text = f"Write a shell script `p.sh` that {said}."
    assert told(text, "p.sh").endswith(f" that {expected}.")
    assert parameters(text, "p.sh")[0].load == load.format('re.sub(r"\\n\\Z", "", open(arguments[0]).read())')
    assert all(one.source != "file" for one in parameters(text, "p.c"))


def test_what_stands_in_code_is_left_as_it_is() -> None:
    text = "Write a C program `p.c` that prints `print it from standard input`. It prints one line."
    assert "returns `print it from standard input`. It returns one line." in told(text, "p.c")


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("Write the longest line of `in.txt` to `out.txt`, in capitals.",
         "told\nWrite a Python function `f(rows)` that returns the longest line of `rows`, in capitals."),
        ("The file `/app/in.txt` has words. Create a text file `/app/out.txt` that holds the first. Keep its case.",
         "The `rows` has words.\ntold\nWrite a Python function `f(rows)` that returns the first. Keep its case."),
        ("Count the lines of `in.txt` and save the number as `out.txt`.",
         "told\nWrite a Python function `f(rows)`: Count the lines of `rows` and return the number."),
        ("Make `out.txt`: the lines of `in.txt`, sorted.",
         "told\nWrite a Python function `f(rows)` that returns the lines of `rows`, sorted."),
        ("Some words for `out.txt`.",
         "Some words for `out.txt`.\ntold\nWrite a Python function `f(rows)` that returns the content of `out.txt`."),
        ("Write to `out.txt`:\n```\na\n  b\n```",
         "Write to `out.txt`:\n```\na\n  b\n```\ntold\nWrite a Python function `f(rows)` that returns the content of "
         "`out.txt`."),
    ],
)  # fmt: skip
def test_a_file_to_write_is_told_as_what_a_function_returns(instruction: str, expected: str) -> None:
    assert retold_file(instruction, "out.txt", "f", {"rows": "in.txt"}, "told") == expected


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("Write `m.py` that defines `f(a)`. It returns twice `a`. Say, `f(2)` returns `4`.",
         "returns twice `a`. Say, `f(2)` returns `4`."),
        ("`m.py` should contain the function `f(a)`, which doubles `a`. No text is given.",
         "doubles `a`. No text is given."),
        ("Please define `f(a)` in `m.py`. `a` is a word. The function should return its length.",
         "returns its length. `a` is a word."),
        ("In `m.py` define `f(a)`. For a list of words it counts the long ones.",
         ", for a list of words, counts the long ones."),
        ("Create a function `f(a)` in the file `m.py` that must check `a`.", "checks `a`."),
        ("Write `f(a)` in `m.py`. `f(1)` returns `2`.", None),
        ("Write `m.py` with `f(a)`. It is short.", None),
        ("Write `m.py` with `f(a)`. It returns this:\n```\n a\n```", None),
        ("Write something.", None),
    ],
)  # fmt: skip
def test_a_function_is_told_by_what_it_does_or_not_at_all(instruction: str, expected: str | None) -> None:
    said = retold_function(instruction, "f")
    start = "Write a Python function that" + ("" if (expected or "").startswith(",") else " ")
    assert said == (expected if expected is None else f"{start}{expected}")


def test_a_function_to_do_something_is_told_so() -> None:
    said = retold_function("Write a function `f(a)` to reverse `a`.", "f")
    assert said == "Write a Python function to reverse `a`."


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            ["Write a C program `p.c`", "reads two numbers", "from standard input", "as its argument", "`", "\0",
             "where NAME is", "its first argument", "prints `NAME`", ".", "\n", "```", "to `out.txt`", "that holds",
             "\\1", "{name}", "`f(a)`", "It returns", "The function should", "which", "For a list it"]
        ) | st.text(max_size=8),
        max_size=14,
    )
)  # fmt: skip
def test_any_text_is_retold_and_every_parameter_has_a_name_of_its_own(parts: list[str]) -> None:
    text = " ".join(parts)
    found = parameters(text, "p.c")
    assert len({one.name for one in found}) == len(found) and all(one.name.isidentifier() for one in found)
    assert f"`f({', '.join(one.name for one in found)})`" in retold(text, "p.c", "f", found)
    assert "`f(rows)`" in retold_file(text, "out.txt", "f", {"rows": "in.txt"}, "told")
    assert (retold_function(text, "f") or "Write a Python function").startswith("Write a Python function")
