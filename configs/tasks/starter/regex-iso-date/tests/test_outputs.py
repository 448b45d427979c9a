"""Hidden tests of regex-iso-date."""

import pytest
from child import matches

MATCHING = ["2024-02-29", "1999-12-31", "2000-01-01", "2023-10-10", "2023-02-01", "2023-04-30"]
OTHERS = [
    "2024-02-30",
    "2024-02-31",
    "2024-13-01",
    "2024-00-10",
    "2024-01-00",
    "2024-01-32",
    "24-01-01",
    "2024-1-1",
    "2024/01/01",
]


@pytest.mark.parametrize("text", MATCHING)
def test_matches(text):
    assert matches("date.txt", [text], "fullmatch") == [True]


@pytest.mark.parametrize("text", OTHERS)
def test_does_not_match(text):
    assert matches("date.txt", [text], "fullmatch") == [False]
