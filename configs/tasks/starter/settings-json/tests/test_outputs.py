"""Hidden tests of settings-json."""

import json

from child import read


def settings():
    return json.loads(read("settings.json"))


def test_it_is_one_object():
    assert isinstance(settings(), dict)


def test_it_has_three_keys():
    assert sorted(settings()) == ["debug", "name", "port"]


def test_the_name_is_a_string():
    assert settings()["name"] == "Orion"


def test_the_port_is_a_number():
    assert settings()["port"] == 8080
    assert type(settings()["port"]) is int


def test_debug_is_a_boolean():
    assert settings()["debug"] is True


def test_the_input_is_unchanged():
    assert read("settings.txt") == "name=Orion\nport=8080\ndebug=true\n"
