"""Hidden tests of dashed."""

import pytest
from child import call

CASES = [
    (("a big dog",), "a-big-dog"),
    (("",), ""),
    ((" ",), "-"),
    (("two  spaces",), "two--spaces"),
    ((" x ",), "-x-"),
    (("one",), "one"),
    (("Up-Down left",), "Up-Down-left"),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_dashed(args, expected):
    assert call("dashed.py", "dashed", *args) == expected
