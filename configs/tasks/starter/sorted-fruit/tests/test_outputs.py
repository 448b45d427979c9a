"""Hidden tests of sorted-fruit."""

from child import read


def lines():
    return read("sorted.txt").split("\n")


def test_the_first_word_is_apple():
    assert lines()[0] == "apple"


def test_the_words_are_in_alphabetical_order():
    words = read("sorted.txt").split()
    assert words == sorted(words)


def test_every_word_stands_once():
    assert sorted(read("sorted.txt").split()) == ["apple", "banana", "cherry", "kiwi", "pear"]


def test_one_word_a_line():
    assert all(len(line.split()) == 1 for line in read("sorted.txt").strip().split("\n"))


def test_nothing_stands_around_the_words():
    assert lines()[:5] == ["apple", "banana", "cherry", "kiwi", "pear"]
    assert "".join(lines()[5:]) == ""


def test_the_input_is_unchanged():
    assert read("fruit.txt") == "pear\napple\nbanana\nkiwi\ncherry\n"
