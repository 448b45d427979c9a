"""Hidden tests of average-of-two."""

import pytest
from child import call

CASES = [
    ((4, 6), 5),
    ((0, 0), 0),
    ((1, 2), 1.5),
    ((-1, 1), 0),
    ((-3, -5), -4),
    ((0.5, 1), 0.75),
    ((100, 0), 50),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_average_of_two(args, expected):
    assert call("average.py", "average_of_two", *args) == pytest.approx(expected)
