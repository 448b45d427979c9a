"""Hidden tests of word-lengths."""

import pytest
from child import call

CASES = [
    ((["tea", "cup"],), [3, 3]),
    (([],), []),
    (([""],), [0]),
    ((["a", "", "abc"],), [1, 0, 3]),
    ((["two words"],), [9]),
    ((["x", "x"],), [1, 1]),
    ((["é"],), [1]),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_lengths(args, expected):
    assert call("lengths.py", "lengths", *args) == expected
