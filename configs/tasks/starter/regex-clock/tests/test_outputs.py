"""Hidden tests of regex-clock."""

import pytest
from child import matches

MATCHING = ["07:45", "00:00", "23:59", "19:00", "20:30"]
OTHERS = ["7:45", "24:00", "12:60", "29:10", "0745", "07:4", "07:45:00", ""]


@pytest.mark.parametrize("text", MATCHING)
def test_matches(text):
    assert matches("clock.txt", [text], "fullmatch") == [True]


@pytest.mark.parametrize("text", OTHERS)
def test_does_not_match(text):
    assert matches("clock.txt", [text], "fullmatch") == [False]
