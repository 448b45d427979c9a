"""Hidden tests of same-length."""

import pytest
from child import call

CASES = [
    (("cat", "dog"), True),
    (("", ""), True),
    (("a", ""), False),
    (("abc", "ab"), False),
    (("a b", "abc"), True),
    (("x", "y"), True),
    (("long word", "short"), False),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_same_length(args, expected):
    assert call("same.py", "same_length", *args) == expected
