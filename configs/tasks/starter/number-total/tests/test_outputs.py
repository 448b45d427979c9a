"""Hidden tests of number-total."""

import re

from child import read

NUMBERS = ["12.50", "3", "-4.25", "100.10", "7.75", "0.9"]


def total():
    return read("total.txt").strip()


def test_it_is_one_number_with_two_decimals():
    assert re.fullmatch(r"-?[0-9]+\.[0-9]{2}", total())


def test_it_is_the_sum():
    assert total() == "120.00"


def test_negative_numbers_lower_it():
    assert total() != "128.50"


def test_whole_numbers_count():
    assert total() != "117.00"


def test_one_line_only():
    assert len(read("total.txt").strip().splitlines()) == 1


def test_the_input_is_unchanged():
    assert read("numbers.txt").split() == NUMBERS
