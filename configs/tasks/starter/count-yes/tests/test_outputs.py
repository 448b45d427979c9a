"""Hidden tests of count-yes."""

import pytest
from child import call

CASES = [
    ((["yes", "no", "yes"],), 2),
    (([],), 0),
    ((["no"],), 0),
    ((["yes"],), 1),
    ((["Yes", "YES"],), 0),
    ((["yes!", "yes"],), 1),
    (
        (
            [
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
                "yes",
            ],
        ),
        40,
    ),
    (([" yes", ""],), 0),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_count_yes(args, expected):
    assert call("votes.py", "count_yes", *args) == expected
