"""Hidden tests of shell-welcome."""

import pytest
from child import shell

CASES = [
    (["Ada"], "", "Welcome, Ada"),
    (["Bo"], "", "Welcome, Bo"),
    (["Ana Maria"], "", "Welcome, Ana Maria"),
    (["*"], "", "Welcome, *"),
    (["O'Neil"], "", "Welcome, O'Neil"),
    (["x", "ignored"], "", "Welcome, x"),
    (["two  spaces"], "", "Welcome, two  spaces"),
]


@pytest.mark.parametrize("args, stdin, printed", CASES)
def test_prints(args, stdin, printed):
    done = shell("welcome.sh", *args, stdin=stdin)
    assert done.out.rstrip("\n") == printed
    assert done.code == 0
