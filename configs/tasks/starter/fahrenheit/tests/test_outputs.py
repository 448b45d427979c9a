"""Hidden tests of fahrenheit."""

import pytest
from child import call

CASES = [
    ((100,), 212),
    ((0,), 32),
    ((-40,), -40),
    ((37,), 98.6),
    ((-273.15,), -459.67),
    ((20.5,), 68.9),
    ((10,), 50),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_to_fahrenheit(args, expected):
    assert call("temperature.py", "to_fahrenheit", *args) == pytest.approx(expected)
