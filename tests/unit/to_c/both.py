"""Python functions run as their frame runs them, and as the C programs that they are translated into."""

import ast
import contextlib
import io
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hc_ray.solve.frames import IMPORTS, LISTS, NUMBERS, PRINTS, TYPED
from hc_ray.solve.to_c import program

STRICT = ("-Wall", "-Wextra", "-Werror", "-std=c99", "-pedantic", "-O2")
TABLE = Path(__file__).with_name("functions.txt")


class Case(NamedTuple):
    """A function ``f`` of "arguments", "text", both or nothing, and what it is run with."""

    source: str
    runs: tuple[tuple[tuple[str, ...], str], ...]
    """Arguments and standard input."""

    @property
    def taken(self) -> list[str]:
        return _taken(self.source)


def _taken(source: str) -> list[str]:
    (main,) = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == "f"]
    return [one.arg for one in main.args.args]


def table() -> list[Case]:
    """The functions of functions.txt: runs in JSON, a line each, then Python."""
    return [_case(block) for block in TABLE.read_text(encoding="utf-8").split("---\n")]


def _case(block: str) -> Case:
    lines = block.split("\n")
    count = next(i for i, line in enumerate(lines) if not line.startswith(('"', "[")))
    source, given = "\n".join(lines[count:]), [json.loads(line) for line in lines[:count]]
    if _taken(source) == ["arguments"]:
        return Case(source, tuple((tuple(one), "") for one in given))
    if _taken(source) == ["arguments", "text"]:
        return Case(source, tuple((tuple(one[0]), one[1]) for one in given))
    return Case(source, tuple(((), one) for one in given))


def together(cases: Sequence[Case]) -> str:
    """One program of several functions with the same parameters: the first argument says which one."""
    taken = cases[0].taken
    parts, chosen = [], []
    for i, case in enumerate(cases):
        tree = ast.parse(case.source)
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name in names:
                node.name = f"{node.name}_{i}"
            elif isinstance(node, ast.Name) and node.id in names:
                node.id = f"{node.id}_{i}"
        given = ", ".join("arguments[1:]" if one == "arguments" else one for one in taken)
        parts.append(ast.unparse(tree))
        chosen.append(f"    if arguments[0] == '{i}':\n        return f_{i}({given})\n")
    head = ", ".join(["arguments", *(one for one in taken if one != "arguments")])
    return "\n\n".join([*parts, f"def f({head}):\n{''.join(chosen)}"])


def compiled(source: str, folder: Path, *, flags: Sequence[str] = STRICT, numbers: bool = False) -> Path:
    """The program of a function ``f``, of arguments that may be ``numbers``; compiled without a warning."""
    name, taken = "f", _taken(source)
    if numbers:
        given = ", ".join("_typed(arguments)" if one == "arguments" else one for one in taken)
        name, source = "given", f"{source}\n\ndef given({', '.join(taken)}):\n    return f({given})\n"
    text = program(source, name=name, parameters=taken)
    file = folder / "f.c"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run(["gcc", *flags, "f.c", "-o", "f"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return folder / "f"


def c_run(path: Path, arguments: Sequence[str], stdin: str) -> tuple[int, str]:
    """Exit code and standard output."""
    done = subprocess.run([path, *arguments], input=stdin.encode(), capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode()


def gives_up(path: Path, arguments: Sequence[str], stdin: str) -> bool:
    """Whether a program says that it cannot do what Python does."""
    done = subprocess.run([path, *arguments], input=stdin.encode(), capture_output=True, timeout=60)
    return done.returncode == 1 and done.stderr.startswith(b"cannot go on: ")


class Framed:
    """A function ``f`` in its frame."""

    def __init__(self, source: str, *, numbers: bool = False) -> None:
        typed = "_typed(sys.argv[1:])" if numbers else "sys.argv[1:]"
        given = {"arguments": typed, "text": "_text(sys.stdin.read())"}
        text = "def _text(text):\n    return text[:-1] if text.endswith('\\n') else text\n"
        call = f"def _run():\n    _print(f({', '.join(given[one] for one in _taken(source))}))\n"
        self.known: dict[str, object] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what looks odd in Python is tested too
            exec("\n\n".join([IMPORTS, source, NUMBERS, TYPED, LISTS, PRINTS, text, call]), self.known)

    def run(self, arguments: Sequence[str], stdin: str) -> tuple[int, str]:
        """Exit code and standard output."""
        with _streams(["f", *arguments], stdin) as out:
            code = 0
            try:
                self.known["_run"]()  # type: ignore[operator]
            except SystemExit as end:
                code = (end.code & 0xFF) if isinstance(end.code, int) else int(end.code is not None)
            except Exception:
                code = 1
        return code, out.getvalue()


@contextlib.contextmanager
def _streams(argv: list[str], stdin: str) -> Iterator[io.StringIO]:
    kept = sys.argv, sys.stdin
    sys.argv, sys.stdin = argv, io.StringIO(stdin, newline="\n")
    out = io.StringIO(newline="\n")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            yield out
    finally:
        sys.argv, sys.stdin = kept
