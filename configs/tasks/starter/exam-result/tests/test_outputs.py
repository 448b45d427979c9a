"""Hidden tests of exam-result."""

import pytest
from child import call

CASES = [
    ((72,), "pass"),
    ((50,), "pass"),
    ((49,), "fail"),
    ((0,), "fail"),
    ((100,), "pass"),
    ((49.9,), "fail"),
    ((-5,), "fail"),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_result(args, expected):
    assert call("exam.py", "result", *args) == expected
