"""Hidden tests of last-word."""

import pytest
from child import call

CASES = [
    (("we saw the sea",), "sea"),
    (("one",), "one"),
    (("a b",), "b"),
    (("trailing space ",), "space"),
    (("two  spaces",), "spaces"),
    (("Ends with dot.",), "dot."),
    (("X Y Z",), "Z"),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_last_word(args, expected):
    assert call("lastword.py", "last_word", *args) == expected
