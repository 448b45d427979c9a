"""Hidden tests of letter-template."""

from child import read


def lines():
    return read("filled.txt").rstrip("\n").split("\n")


def test_the_greeting():
    assert lines()[0] == "Dear Mira,"


def test_day_and_room():
    assert lines()[2] == "your appointment is on Monday in room 12."


def test_a_placeholder_that_comes_again():
    assert lines()[3] == "Please be there ten minutes early, Mira."


def test_blank_lines_and_indentation_stay():
    assert lines()[1] == "" and lines()[4] == ""
    assert lines()[5].startswith("  Monday is")


def test_other_braces_stay():
    assert lines()[5].endswith("the {fire} drill.")


def test_the_length():
    assert len(lines()) == 6


def test_the_template_is_unchanged():
    assert read("letter.txt").count("{name}") == 2
