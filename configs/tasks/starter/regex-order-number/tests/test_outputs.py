"""Hidden tests of regex-order-number."""

import pytest
from child import matches

MATCHING = ["204418", "000000", "999999", "123456"]
OTHERS = ["20441", "2044188", "", "20441a", "204 18", "-20441", "12.456"]


@pytest.mark.parametrize("text", MATCHING)
def test_matches(text):
    assert matches("order.txt", [text], "fullmatch") == [True]


@pytest.mark.parametrize("text", OTHERS)
def test_does_not_match(text):
    assert matches("order.txt", [text], "fullmatch") == [False]
