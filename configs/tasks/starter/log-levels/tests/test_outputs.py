"""Hidden tests of log-levels."""

import json

from child import read


def levels():
    return json.loads(read("levels.json"))


def test_errors():
    assert levels()["ERROR"] == 4


def test_infos():
    assert levels()["INFO"] == 2


def test_warnings():
    assert levels()["WARN"] == 2


def test_days():
    assert levels()["days"] == 2


def test_counts_are_numbers():
    assert all(type(count) is int for count in levels().values())


def test_there_is_nothing_else():
    assert sorted(levels()) == ["ERROR", "INFO", "WARN", "days"]


def test_the_input_is_unchanged():
    assert len(read("server.log").splitlines()) == 8
