"""Hidden tests of full-name."""

import pytest
from child import call

CASES = [
    (("Ada", "Lovelace"), "Ada Lovelace"),
    (("a", "b"), "a b"),
    (("Ana Maria", "Lopez"), "Ana Maria Lopez"),
    (("Jean", "de la Tour"), "Jean de la Tour"),
    (("É", "Ü"), "É Ü"),
    (("O'Neil", "Smith-Jones"), "O'Neil Smith-Jones"),
    (("lower", "CASE"), "lower CASE"),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_full_name(args, expected):
    assert call("names.py", "full_name", *args) == expected
