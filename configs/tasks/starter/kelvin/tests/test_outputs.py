"""Hidden tests of kelvin."""

import pytest
from child import call

CASES = [
    ((10,), 283.15),
    ((0,), 273.15),
    ((-273.15,), 0),
    ((100,), 373.15),
    ((-40,), 233.15),
    ((20.5,), 293.65),
    ((1000,), 1273.15),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_to_kelvin(args, expected):
    assert call("kelvin.py", "to_kelvin", *args) == pytest.approx(expected)
