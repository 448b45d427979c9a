"""Hidden tests of range-summary."""

import pytest
from child import call

CASES = [
    (([3, 1, 2, 7],), "1-3,7"),
    (([],), ""),
    (([5],), "5"),
    (([5, 5, 5],), "5"),
    (([1, 2],), "1-2"),
    (([10, 9, 1],), "1,9-10"),
    (([1, 3, 5],), "1,3,5"),
    (([4, 2, 3, 8, 7, 20],), "2-4,7-8,20"),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_summary(args, expected):
    assert call("ranges.py", "summary", *args) == expected
