"""Hidden tests of regex-password."""

import pytest
from child import matches

MATCHING = ["Summer2024", "A1b2c3d4", "UPPER99x", "12345678Z", "aA1!aA1!aA1!aA1!aA1!"]
OTHERS = [
    "Summmer2024",
    "summer2024",
    "Summertime",
    "Ab1",
    "Summer 2024",
    "Aa1Aa1Aa1Aa1Aa1Aa1Aa1",
    "AAA12345",
    "Abcdefg111",
]


@pytest.mark.parametrize("text", MATCHING)
def test_matches(text):
    assert matches("password.txt", [text], "fullmatch") == [True]


@pytest.mark.parametrize("text", OTHERS)
def test_does_not_match(text):
    assert matches("password.txt", [text], "fullmatch") == [False]
