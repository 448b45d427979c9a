"""Hidden tests of text-wrap."""

import pytest
from child import call

CASES = [
    (("a bb ccc", 4), ["a bb", "ccc"]),
    (("", 5), []),
    (("   ", 5), []),
    (("one", 3), ["one"]),
    (("toolong a b", 3), ["toolong", "a b"]),
    (("a b c", 1), ["a", "b", "c"]),
    (("a  b\n c", 5), ["a b c"]),
    (("aa bb cc dd", 5), ["aa bb", "cc dd"]),
    (("aa bb cc dd", 4), ["aa", "bb", "cc", "dd"]),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_wrap(args, expected):
    assert call("wrap.py", "wrap", *args) == expected
