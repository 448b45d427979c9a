"""Hidden tests of order-totals."""

import csv
import io

from child import read


def rows():
    return list(csv.reader(io.StringIO(read("totals.csv"))))


def test_the_header():
    assert rows()[0] == ["customer", "orders", "cents"]


def test_one_line_a_customer():
    assert sorted(row[0] for row in rows()[1:]) == ["Aas, Ltd", "Berg", "Lind"]


def test_the_biggest_customer_is_first():
    assert rows()[1] == ["Aas, Ltd", "2", "1691"]


def test_orders_of_one_customer_are_added():
    assert rows()[2] == ["Lind", "2", "1515"]


def test_a_customer_with_an_empty_order_is_there():
    assert rows()[3] == ["Berg", "1", "0"]


def test_there_is_nothing_else():
    assert len(rows()) == 4
    assert all(len(row) == 3 for row in rows())
