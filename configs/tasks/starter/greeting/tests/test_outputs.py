"""Hidden tests of greeting."""

import pytest
from child import call

CASES = [
    (("Ada",), "Hello, Ada!"),
    (("Bo",), "Hello, Bo!"),
    (("",), "Hello, !"),
    (("Ana Maria",), "Hello, Ana Maria!"),
    (
        ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",),
        "Hello, xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx!",
    ),
    (("Zoë",), "Hello, Zoë!"),
    (("{name}",), "Hello, {name}!"),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_greet(args, expected):
    assert call("greeting.py", "greet", *args) == expected
