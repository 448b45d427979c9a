"""Hidden tests of longer-text."""

import pytest
from child import call

CASES = [
    (("car", "truck"), "truck"),
    (("truck", "car"), "truck"),
    (("abc", "xyz"), "abc"),
    (("xyz", "abc"), "xyz"),
    (("", ""), ""),
    (("", "z"), "z"),
    (("zzz", "aaaa"), "aaaa"),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_longer(args, expected):
    assert call("longer.py", "longer", *args) == expected
