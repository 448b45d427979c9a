"""Hidden tests of duration-parser."""

import pytest
from child import Raised, call

CASES = [
    (("1h30m",), 5400),
    (("45s",), 45),
    (("2h5s",), 7205),
    (("0m",), 0),
    (("100m",), 6000),
    (("1h1m1s",), 3661),
    (("007s",), 7),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_seconds(args, expected):
    assert call("duration.py", "seconds", *args) == expected


@pytest.mark.parametrize("text", ["", "12", "h", "1d", "1h 30m", "-5s", "1.5h"])
def test_another_form_raises_value_error(text):
    answer = call("duration.py", "seconds", text)
    assert isinstance(answer, Raised)
    assert "ValueError" in answer.kinds
