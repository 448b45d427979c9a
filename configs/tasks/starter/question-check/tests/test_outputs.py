"""Hidden tests of question-check."""

import pytest
from child import call

CASES = [
    (("Why?",), True),
    (("No.",), False),
    (("",), False),
    (("?",), True),
    (("What? No",), False),
    (("ok? ",), False),
    (("really??",), True),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_is_question(args, expected):
    assert call("question.py", "is_question", *args) == expected
