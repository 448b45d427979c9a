"""Hidden tests of clock-minutes."""

import pytest
from child import call

CASES = [
    ((2, 15), 135),
    ((0, 0), 0),
    ((0, 59), 59),
    ((1, 0), 60),
    ((24, 0), 1440),
    ((10, 75), 675),
    ((100, 1), 6001),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_to_minutes(args, expected):
    assert call("clock.py", "to_minutes", *args) == expected
