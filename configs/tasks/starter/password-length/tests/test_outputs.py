"""Hidden tests of password-length."""

import pytest
from child import call

CASES = [
    (("secret",), False),
    (("12345678",), True),
    (("1234567",), False),
    (("",), False),
    (("aaaaaaaaaaaaaaaaaaaa",), True),
    (("        ",), True),
    (("abcdefghi",), True),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_long_enough(args, expected):
    assert call("password.py", "long_enough", *args) == expected
