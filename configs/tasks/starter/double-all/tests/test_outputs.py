"""Hidden tests of double-all."""

import pytest
from child import call, call_and_arguments

CASES = [
    (([1, 4],), [2, 8]),
    (([],), []),
    (([0],), [0]),
    (([-3, 3],), [-6, 6]),
    (([0.5],), [1.0]),
    (([7, 7],), [14, 14]),
    (([1, 2, 3],), [2, 4, 6]),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_double_all(args, expected):
    assert call("double.py", "double_all", *args) == expected


def test_the_list_given_is_not_changed():
    answer, (given,) = call_and_arguments("double.py", "double_all", [1, 2])
    assert answer == [2, 4]
    assert given == [1, 2]
