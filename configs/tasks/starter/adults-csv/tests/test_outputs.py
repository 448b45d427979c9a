"""Hidden tests of adults-csv."""

import csv
import io

from child import read


def rows():
    return list(csv.reader(io.StringIO(read("adults.csv"))))


def test_the_header():
    assert rows()[0] == ["name", "city"]


def test_there_are_four_adults():
    assert len(rows()) == 5


def test_eighteen_is_adult():
    assert ["Ida", "Oslo"] in rows()


def test_children_are_left_out():
    assert not {row[0] for row in rows()} & {"Tom", "Eva"}


def test_sorted_by_name():
    assert [row[0] for row in rows()[1:]] == ["Ida", "Jon", "Kai", "Mira"]


def test_each_line_has_name_and_city():
    assert rows()[1:] == [["Ida", "Oslo"], ["Jon", "Tromso"], ["Kai", "Oslo"], ["Mira", "Oslo"]]


def test_the_input_is_unchanged():
    assert len(read("people.csv").split()) == 7
