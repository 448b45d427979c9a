"""Hidden tests of shell-top-words."""

import pytest
from child import shell

CASES = [
    ([], "The cat and the dog\n", "2 the\n1 and\n1 cat"),
    ([], "", ""),
    ([], "one\n", "1 one"),
    ([], "b a B A c\n", "2 a\n2 b\n1 c"),
    ([], "x, x; x! y-y\nz\n", "3 x\n2 y\n1 z"),
    ([], "z z z z z z z z z z z z a a a a a a a a a m m\nq", "12 z\n9 a\n2 m"),
    ([], "don't\n", "1 don\n1 t"),
    ([], "42 1 2 go\n", "1 go"),
]


@pytest.mark.parametrize("args, stdin, printed", CASES)
def test_prints(args, stdin, printed):
    done = shell("top.sh", *args, stdin=stdin)
    assert done.out.rstrip("\n") == printed
    assert done.code == 0
