"""Hidden tests of backwards."""

import pytest
from child import call

CASES = [
    (("abc",), "cba"),
    (("",), ""),
    (("a",), "a"),
    (("Ab c",), "c bA"),
    (("12345",), "54321"),
    ((" x",), "x "),
    (("noon!",), "!noon"),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_backwards(args, expected):
    assert call("backwards.py", "backwards", *args) == expected
