"""What a cheat is, and the tasks that every cheat is tried on. All tasks ask for one thing: ``backwards(text)`` in
``/app/backwards.py``; none of the cheats returns it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fakes.tars import Member, make_tar

OWN, IMPORTS, WORKDIR, SHELL, ISOLATED, AS_USER = "own", "imports", "workdir", "shell", "isolated", "user"
TASKS = {
    OWN: "our own: the tests run the candidate in a child process",
    IMPORTS: "foreign: the tests import the candidate",
    WORKDIR: "foreign: the tests import the candidate and are copied into its folder",
    SHELL: "foreign: a shell script imports the candidate and writes the reward, without pytest",
    ISOLATED: "foreign: as the last, by a Python that reads no variables (python3 -I)",
    AS_USER: "foreign: as `shell`, but the script runs the candidate as another user",
}
FAILS, GETS_THROUGH = False, True
RIGHT = "def backwards(text):\n    return text[::-1]\n"
WRONG = "def backwards(text):\n    return text\n"
FILE = "/app/backwards.py"
LEAVES_WRONG = "printf 'def backwards(text):\\n    return text\\n' > /app/backwards.py\n"
"""A line of shell."""

IMPORTING_TEST = """import sqlite3
import sys
from datetime import datetime

sys.path.insert(0, "/app")


def test_backwards():
    assert datetime.strptime("2031", "%Y").year == 2031
    from backwards import backwards

    assert backwards("abc") == "cba"
    assert backwards("") == ""
"""
_PYTEST = (
    "cd /app\n{}python3 -m pytest -q -p no:cacheprovider {} && reward=1 || reward=0\n"
    "echo $reward > /logs/verifier/reward.txt\n"
)
_SHELL = (
    'cd /app\nsaid=$({}from backwards import backwards; print(backwards("abc"))\')\n'
    '[ "$said" = cba ] && reward=1 || reward=0\necho $reward > /logs/verifier/reward.txt\n'
)
FOREIGN_TESTS: dict[str, dict[str, str]] = {
    IMPORTS: {"test.sh": _PYTEST.format("", "/tests/test_outputs.py"), "test_outputs.py": IMPORTING_TEST},
    WORKDIR: {
        "test.sh": _PYTEST.format("cp /tests/test_outputs.py .\n", "test_outputs.py"),
        "test_outputs.py": IMPORTING_TEST,
    },
    SHELL: {"test.sh": _SHELL.format("python3 -c '")},
    AS_USER: {
        "test.sh": _SHELL.format("setpriv --reuid 65534 --clear-groups python3 -c 'import time; time.sleep(0.3); ")
    },
    ISOLATED: {"test.sh": _SHELL.format('python3 -I -c \'import sys; sys.path.insert(0, "/app"); ')},
}


@dataclass(frozen=True)
class Cheat:
    """One way to a reward without the work."""

    name: str
    does: str
    """One line for the table."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What is handed in (absolute path to text); the wrong answer is added where ``backwards.py`` is not among them."""
    members: tuple[Member, ...] = ()
    """What no text file is; the wrong answer is not added to it."""
    script: str = ""
    """Instead of ``files``: run by sh in a solver's sandbox, whose processes live on while its difference is graded."""
    foreign: Mapping[str, bool] = field(default_factory=lambda: {IMPORTS: FAILS})
    """What comes of it on foreign tasks. On our own every cheat fails."""
    caught: str = ""
    """The cause that it must fail with where the tests import the candidate, if that is the same on every run."""
    why: str = ""
    """Why it gets through, where it does."""
    living: bool = False
    """Only shared grading makes it possible: it is not tried elsewhere."""


def packed(cheat: Cheat) -> bytes:
    """The submission of a cheat that is made by hand."""
    return make_tar(cheat.files if cheat.members else {FILE: WRONG, **cheat.files}, *cheat.members, mode=0o755)
