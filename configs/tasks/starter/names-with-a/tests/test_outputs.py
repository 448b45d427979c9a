"""Hidden tests of names-with-a."""

import pytest
from child import call

CASES = [
    ((["Ann", "Bob"],), ["Ann"]),
    (([],), []),
    ((["ann"],), []),
    ((["A", "AA", "BA"],), ["A", "AA"]),
    (([""],), []),
    ((["Zoe", "Al", "Ada"],), ["Al", "Ada"]),
    ((["Bob"],), []),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_starting_with_a(args, expected):
    assert call("anames.py", "starting_with_a", *args) == expected
