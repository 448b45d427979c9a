"""Hidden tests of regex-hex-color."""

import pytest
from child import matches

MATCHING = ["#ff8800", "#FFF", "#0aB", "#000000", "#AbCdEf"]
OTHERS = ["ff8800", "#ff88", "#ff880", "#ff88000", "#ggg", "#", "##fff", "#ff 880"]


@pytest.mark.parametrize("text", MATCHING)
def test_matches(text):
    assert matches("color.txt", [text], "fullmatch") == [True]


@pytest.mark.parametrize("text", OTHERS)
def test_does_not_match(text):
    assert matches("color.txt", [text], "fullmatch") == [False]
