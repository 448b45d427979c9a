"""Hidden tests of warmest."""

import pytest
from child import call

CASES = [
    (([12, 19, 15],), 19),
    (([5],), 5),
    (([-3, -8],), -3),
    (([0, 0],), 0),
    (([1.5, 1.4],), 1.5),
    (([-1, 0],), 0),
    (([30, 10, 20],), 30),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_warmest(args, expected):
    assert call("warmest.py", "warmest", *args) == expected
