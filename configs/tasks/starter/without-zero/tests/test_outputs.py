"""Hidden tests of without-zero."""

import pytest
from child import call

CASES = [
    (([1, 0, 2],), [1, 2]),
    (([],), []),
    (([0, 0],), []),
    (([-1, 0],), [-1]),
    (([5],), [5]),
    (([0, 3, 0, 3],), [3, 3]),
    (([10, 20],), [10, 20]),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_without_zero(args, expected):
    assert call("nonzero.py", "without_zero", *args) == expected
