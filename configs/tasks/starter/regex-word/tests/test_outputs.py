"""Hidden tests of regex-word."""

import pytest
from child import matches

MATCHING = ["river", "a", "zz", "abcdefghijklmnopqrstuvwxyz"]
OTHERS = ["River2", "", "River", "two words", "a-b", "r1ver", "a_b"]


@pytest.mark.parametrize("text", MATCHING)
def test_matches(text):
    assert matches("word.txt", [text], "fullmatch") == [True]


@pytest.mark.parametrize("text", OTHERS)
def test_does_not_match(text):
    assert matches("word.txt", [text], "fullmatch") == [False]
