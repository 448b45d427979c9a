"""Hidden tests of c-add."""

import pytest
from child import program

CASES = [
    ([], "3 4\n", "7"),
    ([], "0 0\n", "0"),
    ([], "-5 5\n", "0"),
    ([], "-1 -1\n", "-2"),
    ([], "10\n20\n", "30"),
    ([], "100000 1", "100001"),
    ([], "  7   8  \n", "15"),
]


@pytest.mark.parametrize("args, stdin, printed", CASES)
def test_prints(args, stdin, printed):
    done = program("add.c", *args, stdin=stdin)
    assert done.out.rstrip("\n") == printed
    assert done.code == 0
