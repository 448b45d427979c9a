"""Hidden tests of c-histogram."""

import pytest
from child import program

CASES = [
    ([], "Abba\n", "a: **\nb: **"),
    ([], "", ""),
    ([], "123 !?\n", ""),
    ([], "z\ny\nz\n", "y: *\nz: **"),
    ([], "Zz", "z: **"),
    (
        [],
        "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
        "e: ************************************************************************************************************************************************************************************************************************************************************************************************************",
    ),
    ([], "Hi, Bo_b\n", "b: **\nh: *\ni: *\no: *"),
]


@pytest.mark.parametrize("args, stdin, printed", CASES)
def test_prints(args, stdin, printed):
    done = program("histogram.c", *args, stdin=stdin)
    assert done.out.rstrip("\n") == printed
    assert done.code == 0
