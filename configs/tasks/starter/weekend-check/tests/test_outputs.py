"""Hidden tests of weekend-check."""

import pytest
from child import call

CASES = [
    (("Monday",), False),
    (("Saturday",), True),
    (("Sunday",), True),
    (("Friday",), False),
    (("",), False),
    (("Wednesday",), False),
    (("Sunday ",), False),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_is_weekend(args, expected):
    assert call("weekend.py", "is_weekend", *args) == expected
