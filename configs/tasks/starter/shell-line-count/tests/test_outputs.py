"""Hidden tests of shell-line-count."""

from child import shell


import pytest

TEXTS = [("a\nb\nc\n", "3"), ("", "0"), ("one\n", "1"), ("\n\n", "2"), ("x\n" * 250, "250"), ("a b\n\nc\n", "3")]


@pytest.mark.parametrize("text, printed", TEXTS)
def test_prints_the_number_of_lines(text, printed):
    done = shell("lines.sh", "some.txt", files={"some.txt": text})
    assert done.out.strip() == printed
    assert done.code == 0


def test_a_name_with_a_space():
    assert shell("lines.sh", "my notes.txt", files={"my notes.txt": "1\n2\n"}).out.strip() == "2"
