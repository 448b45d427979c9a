"""Hidden tests of upper-names."""

import pytest
from child import call

CASES = [
    ((["ann", "bob"],), ["ANN", "BOB"]),
    (([],), []),
    ((["Cy"],), ["CY"]),
    (([""],), [""]),
    ((["ann", "ann"],), ["ANN", "ANN"]),
    ((["o'neil", "x y"],), ["O'NEIL", "X Y"]),
    ((["ÉVA"],), ["ÉVA"]),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_upper_names(args, expected):
    assert call("upper.py", "upper_names", *args) == expected
