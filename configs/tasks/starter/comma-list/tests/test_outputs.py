"""Hidden tests of comma-list."""

import pytest
from child import call

CASES = [
    ((["tea", "milk"],), "tea, milk"),
    (([],), ""),
    ((["one"],), "one"),
    ((["a", "b", "c"],), "a, b, c"),
    ((["", "x"],), ", x"),
    ((["two words", "b"],), "two words, b"),
    ((["a,b", "c"],), "a,b, c"),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_join_words(args, expected):
    assert call("commas.py", "join_words", *args) == expected
