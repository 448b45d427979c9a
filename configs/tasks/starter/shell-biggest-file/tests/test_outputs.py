"""Hidden tests of shell-biggest-file."""

from child import shell


import pytest
from child import run

FOLDERS = [
    ("printf aa > d/a; printf bbbb > d/b; printf c > d/c", "b"),
    ("printf x > 'd/with space.txt'", "with space.txt"),
    ("mkdir d/sub; head -c 9000 /dev/zero > d/sub/deep; printf x > d/flat", "flat"),
    ("true", ""),
    ("mkdir d/sub", ""),
    ("head -c 100 /dev/zero > d/z; head -c 99 /dev/zero > d/a; head -c 9 /dev/zero > d/m", "z"),
    ("head -c 20000 /dev/zero > d/10; head -c 3000 /dev/zero > d/9", "10"),
]


@pytest.mark.parametrize("made, printed", FOLDERS)
def test_prints_the_biggest(made, printed):
    done = run(["sh", "-c", "mkdir d && " + made + " && exec bash biggest.sh d"])
    assert done.out.strip() == printed


def test_a_directory_given_with_a_slash():
    done = run(["sh", "-c", "mkdir d && printf aa > d/a && printf b > d/b && exec bash biggest.sh d/"])
    assert done.out.strip() == "a"
