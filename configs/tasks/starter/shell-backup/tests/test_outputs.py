"""Hidden tests of shell-backup."""

from child import shell


import pytest


@pytest.mark.parametrize("name", ["notes.txt", "plain", "a.tar.gz", "my notes.txt"])
def test_the_copy_has_the_same_content(name):
    text = "first line\n  second\n\nlast"
    done = shell("backup.sh", name, files={name: text, "other.txt": "o"})
    assert done.code == 0
    assert done.files.get(name + ".bak") == text
    assert done.files.get(name) == text
    assert "other.txt.bak" not in done.files


def test_an_older_copy_is_replaced():
    done = shell("backup.sh", "a.txt", files={"a.txt": "new", "a.txt.bak": "old"})
    assert done.files["a.txt.bak"] == "new"


def test_an_empty_file():
    assert shell("backup.sh", "e.txt", files={"e.txt": ""}).files.get("e.txt.bak") == ""
