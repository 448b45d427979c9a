"""Hidden tests of shell-upper."""

import pytest
from child import shell

CASES = [
    ([], "red car\n", "RED CAR"),
    ([], "a\nb\n", "A\nB"),
    ([], "", ""),
    ([], "ABC 123\n", "ABC 123"),
    ([], "  spaces  kept\n", "  SPACES  KEPT"),
    ([], "tab\there\n\nend\n", "TAB\tHERE\n\nEND"),
    ([], "back\\slash * $HOME\n", "BACK\\SLASH * $HOME"),
]


@pytest.mark.parametrize("args, stdin, printed", CASES)
def test_prints(args, stdin, printed):
    done = shell("upper.sh", *args, stdin=stdin)
    assert done.out.rstrip("\n") == printed
    assert done.code == 0
