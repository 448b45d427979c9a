"""The text of a translated program."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hc_ray.solve.to_c import program
from hc_ray.solve.to_c.library import INCLUDES, RUNTIME, pieces, runtime
from hc_ray.solve.to_c.tables import BUILTINS, METHODS, MODULES
from tests.unit.to_c.both import STRICT, c_run, compiled

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc on this machine")

HOSTILE = '''def f(text):
    """A comment ends with */ and /* begins one; ??/ is a trigraph, \\u202e turns the direction: é."""
    # ends in a backslash \\
    x = "*/ ??/ %d \\\\ \\" \\u00e9"
    return x
'''


def _text(source: str) -> str:
    return program(source, name="f", parameters=["text"])


def test_it_begins_with_the_python_and_ends_with_the_function_and_main() -> None:
    text = _text("def f(text):\n    return len(text)\n")
    assert text.startswith("/*\n * A translation of this Python function into C:\n *\n *     def f(text):\n")
    assert text.endswith(
        """static Value def_f(Value text)
{
    return py_int((long long)py_length(text));
}

int main(int argc, char **argv)
{
    py_stack = (uintptr_t)&argc;
    (void)argv;
    py_print_result(def_f(py_input_whole()));
    return 0;
}
"""
    )


def test_the_same_function_gives_the_same_text() -> None:
    source = "def f(text):\n    return [x for x in text if x in {'a', 'b'}]\n"
    assert _text(source) == _text(source)


def test_only_what_is_used_is_in_it() -> None:
    text = _text("def f(text):\n    return text\n")
    defined = set(re.findall(r"^static [^\n(]*?\b(py_\w+)\(.*\)$", text, re.M))
    assert {"py_input_whole", "py_print_result"} <= defined and not {"py_typed", "py_percent", "py_sqrt"} & defined
    assert all(len(re.findall(rf"\b{name}\b", text)) > 2 for name in defined)


def test_whatever_the_tables_name_is_in_the_runtime() -> None:
    routines = [*BUILTINS.values(), *METHODS.values(), *MODULES.values()]
    assert {one.function for one in routines} <= set(pieces())
    for piece in pieces().values():
        assert piece.uses <= set(pieces()), piece.text
    assert "py_sqrt_real" in runtime("py_sqrt(x)")


KINDS = sorted({kind for piece in pieces().values() for kind in piece.makes})


@needs_gcc
@pytest.mark.parametrize("kind", KINDS)
def test_without_the_branches_of_a_kind_there_is_nothing_left_of_it_that_is_unused(kind: str, tmp_path: Path) -> None:
    known = [piece.without(set(KINDS) - {kind}) for piece in pieces().values()]
    assert not any(re.search(rf"case {kind}:", piece.text) for piece in known)
    types = (RUNTIME / "types.h").read_text()
    variables = [piece.text for piece in known if not piece.signature]
    functions = [piece for piece in known if piece.signature]
    declared = "\n".join(piece.signature for piece in functions)
    parts = [INCLUDES, types, *variables, declared, *(piece.text for piece in functions)]
    (tmp_path / "f.c").write_text("\n\n".join(parts))
    flags = [*STRICT, "-Wno-unused-function", "-fsyntax-only"]
    done = subprocess.run(["gcc", *flags, "f.c"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@needs_gcc
def test_the_python_in_its_comment_means_nothing_to_the_compiler(tmp_path: Path) -> None:
    path = compiled(HOSTILE, tmp_path)
    assert c_run(path, (), "") == (0, '*/ ??/ %d \\ " é\n')


@needs_gcc
def test_names_that_mean_something_in_c_are_other_names_there(tmp_path: Path) -> None:
    names = "int double main printf NULL EOF linux unix stdin errno Value Str t1 tmp_1 it_1 py_add def_f int_ x __x _ "
    names += "given cells"
    source = "def f(text):\n"
    source += "".join(f"    {name} = text + '{i}'\n" for i, name in enumerate(names.split()))
    joined = ", ".join(names.split()[:-2])
    source += f"    tmp_1 = [_ for _ in text]\n    return '-'.join([{joined}][:-1]), tmp_1, given, cells\n"
    source = source.replace("tmp_1 = text", "tmp_1: str = text").replace(", tmp_1, it_1", ", it_1")
    path = compiled(source, tmp_path)
    expected = "-".join(f"a{i}" for i, name in enumerate(names.split()[:-3]) if name != "tmp_1")
    assert c_run(path, (), "a") == (0, f"{expected}\n['a']\na{len(names.split()) - 2}\na{len(names.split()) - 1}\n")


@needs_gcc
def test_the_mathematical_library_is_not_needed(tmp_path: Path) -> None:
    source = """
def f(text):
    x = float(text)
    print(math.sqrt(x), math.floor(x), math.ceil(x), math.trunc(x), x ** 2, x ** -3, x ** 0.5, x % 0.7, round(x, 2))
    return abs(-x), divmod(x, 2), math.fabs(x), int(x), math.isqrt(10), math.inf, math.isnan(x), math.pow(x, 2)
"""
    for flags in ((), ("-O0", "-std=c99"), ("-O3",)):
        path = compiled(source, tmp_path, flags=flags)
        assert c_run(path, (), "2.25")[1].startswith(
            "1.5 2 3 2 5.0625 0.0877914951989026 1.5 0.15000000000000013 2.25\n"
        )


@needs_gcc
def test_errors_go_to_standard_error_with_exit_code_1(tmp_path: Path) -> None:
    path = compiled("def f(text):\n    print('begun')\n    raise ValueError(f'no {text}')\n", tmp_path, flags=STRICT)
    done = subprocess.run([path], input="x\n", capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "begun\n", "ValueError: no x\n")
