"""Hidden tests of c-csv-column."""

import pytest
from child import program

CASES = [
    (["2"], 'a,"b,c",d\n', "b,c"),
    (["1"], "a,b\nc,d\n", "a\nc"),
    (["3"], 'a,"b,c",d\n', "d"),
    (["1"], '"say ""hi""",x\n', 'say "hi"'),
    (["2"], "a,,c\nx,y,z\n", "\ny"),
    (["4"], "a,b\n1,2,3,4\n", "\n4"),
    (["2"], '"",""\nq,"1,2,3"\n', "\n1,2,3"),
]


@pytest.mark.parametrize("args, stdin, printed", CASES)
def test_prints(args, stdin, printed):
    done = program("column.c", *args, stdin=stdin)
    assert done.out.rstrip("\n") == printed
    assert done.code == 0
