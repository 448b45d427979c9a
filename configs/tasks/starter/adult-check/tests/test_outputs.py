"""Hidden tests of adult-check."""

import pytest
from child import call

CASES = [
    ((20,), True),
    ((18,), True),
    ((17,), False),
    ((0,), False),
    ((99,), True),
    ((17.9,), False),
    ((18.5,), True),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_is_adult(args, expected):
    assert call("age.py", "is_adult", *args) == expected
