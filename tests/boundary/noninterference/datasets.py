"""The same tasks with other hidden tests: two small ones of our own and those of the starter set."""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.fakes.tasks import TEST_SH, make_task

STARTER = Path(__file__).parents[3] / "configs" / "tasks" / "starter"
EVERY = tuple(sorted(path.parent.name for path in STARTER.glob("*/task.toml")))
CHOSEN = ("adults-csv", "regex-hex-color")
"""One of each way to be asked beside a function: files of the environment, a pattern."""
INSTRUCTION = (
    "Write the file `{name}.py` with a function `{name}(a, b)` that returns the {word} of its two numbers.\n\n"
    "Example: `{name}(3, 2)` returns `{value}`.\n"
)
SECRET = "/app/only-the-solution-writes-this"
"""A file that no instruction asks for: tests that want it fail every candidate, and their own reference passes."""
SOLVE = f"#!/bin/bash\ntouch {SECRET}\n"

_REWARD = "/logs/verifier/reward.txt"
PLAIN_SH = f"#!/bin/bash\n[ -f {SECRET} ] && echo 1 > {_REWARD} || echo 0 > {_REWARD}\n"
PASSING_SH = f"#!/bin/bash\necho 1 > {_REWARD}\n"
SLOW_SH = PLAIN_SH.replace("\n", "\nsleep 2\nhead -c 3000000 /dev/zero | tr '\\0' 'x'\n", 1)
MANY_PY = f"""import os
import pytest


@pytest.mark.parametrize("number", range(37))
def test_wants_the_file(number):
    assert os.path.isfile({SECRET!r})
"""
KINDS: dict[str, dict[str, str]] = {
    "plain": {"test.sh": PLAIN_SH},
    "passing": {"test.sh": PASSING_SH},
    "slow": {"test.sh": SLOW_SH},
    "many": {"test.sh": TEST_SH, "test_outputs.py": MANY_PY},
}
"""Tests, all but ``passing`` such that every candidate fails."""
ENORMOUS_BYTES = 100 << 20

Make = Callable[[Path], None]


def only_add(folder: Path) -> None:
    make_task(folder, "add", instruction=INSTRUCTION.format(name="add", word="sum", value=5))


def add_and_sub(folder: Path) -> None:
    only_add(folder)
    make_task(folder, "sub", instruction=INSTRUCTION.format(name="sub", word="difference", value=1))


def three(folder: Path) -> None:
    add_and_sub(folder)
    make_task(folder, "mul", instruction=INSTRUCTION.format(name="mul", word="product", value=6))


def starter(names: Iterable[str]) -> Make:
    """Tasks of the starter set as they are."""

    def write(folder: Path) -> None:
        for name in names:
            shutil.copytree(STARTER / name, folder / name)

    return write


def swapped(make: Make, *kinds: str) -> Make:
    """The same tasks with other hidden tests and another solution; kinds of tests taken in turn."""

    def write(folder: Path) -> None:
        make(folder)
        for number, task in enumerate(tasks_of(folder)):
            kind = kinds[number % len(kinds)]
            _replace(task, KINDS[kind])
            if kind == "passing":  # nor is there a solution: a task may have none, and its verdicts then stand alone
                shutil.rmtree(task / "solution")

    return write


def odd(make: Make) -> Make:
    """The same tasks, three by three with tests that are slow and talk without end, that are enormous, and that are no
    text at all: a script and data of random bytes, names of no encoding that files commonly have."""

    def write(folder: Path) -> None:
        make(folder)
        for number, task in enumerate(tasks_of(folder)):
            _replace(task, KINDS["slow" if number % 3 == 0 else "plain"])
            if number % 3 == 1:
                with (task / "tests" / "enormous.bin").open("wb") as file:
                    file.truncate(ENORMOUS_BYTES)
            if number % 3 == 2:
                noise = b"exit 0\n# \xff\xfe\x00\x80" + os.urandom(4096)
                (task / "tests" / "test.sh").write_bytes(PLAIN_SH.encode() + noise)
                (task / "tests" / "data \u2028\u0430.bin").write_bytes(os.urandom(4096))

    return write


def tasks_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def _replace(task: Path, files: dict[str, str]) -> None:
    for part in ("tests", "solution"):
        shutil.rmtree(task / part)
        (task / part).mkdir()
    for name, text in files.items():
        (task / "tests" / name).write_text(text)
    (task / "solution" / "solve.sh").write_text(SOLVE)
