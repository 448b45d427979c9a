"""Hidden tests of repeat-text."""

import pytest
from child import call

CASES = [
    (("ab", 3), "ababab"),
    (("x", 0), ""),
    (("x", 1), "x"),
    (("", 5), ""),
    (("a b", 2), "a ba b"),
    (("-", 10), "----------"),
    (("yo!", 2), "yo!yo!"),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_repeat(args, expected):
    assert call("repeat.py", "repeat", *args) == expected
