"""Hidden tests of shell-sum."""

import pytest
from child import shell

CASES = [
    (["3", "4", "10"], "", "17"),
    ([], "", "0"),
    (["5"], "", "5"),
    (["-2", "2"], "", "0"),
    (["-7"], "", "-7"),
    (["1", "1", "1", "1", "1", "1", "1", "1", "1", "1", "1", "1"], "", "12"),
    (["100000", "1"], "", "100001"),
]


@pytest.mark.parametrize("args, stdin, printed", CASES)
def test_prints(args, stdin, printed):
    done = shell("sum.sh", *args, stdin=stdin)
    assert done.out.rstrip("\n") == printed
    assert done.code == 0
