"""Hidden tests of keep-positive."""

import pytest
from child import call

CASES = [
    (([3, -1, 0, 5],), [3, 5]),
    (([],), []),
    (([0, 0],), []),
    (([-5, -2],), []),
    (([1],), [1]),
    (([2, 2, -2, 1],), [2, 2, 1]),
    (([0.5, -0.5, 7],), [0.5, 7]),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_keep_positive(args, expected):
    assert call("positive.py", "keep_positive", *args) == expected
