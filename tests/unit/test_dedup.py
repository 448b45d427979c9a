"""Answers that are the same candidate are told by their normal form."""

import pytest

from hc_ray.search.dedup import files_digest, normal_form

SAME = (
    ("m.py", "def f():\n  return 1 # one\n", "def f():\n\n    return 1"),
    ("m.py", 'def f():\n    """Docs."""\n    return 1\n', "def f():\n    return 1\n"),
    ("m.py", 'def f():\n    """Docs."""\n', "def f():\n    pass\n"),
    ("m.txt", "a \n", "a"),
)
DIFFERENT = (
    ("m.py", "x = 1", "x = 2"),
    ("m.py", "x = (", "y = ("),
    ("m.py", "def f(a):\n    return a\n", "def f(b):\n    return b\n"),
    ("m.py", "def f():\n    a = 1\n    b = 2\n    return a\n", "def f():\n    a = 1\n    b = 2\n    return b\n"),
    ("s.sh", "#!/bin/sh\necho hi\n", "#!/bin/bash\necho hi\n"),
)


@pytest.mark.parametrize(("path", "one", "other"), SAME)
def test_what_changes_nothing_does_not_make_another_candidate(path: str, one: str, other: str) -> None:
    assert files_digest({path: one}) == files_digest({path: other})


@pytest.mark.parametrize(("path", "one", "other"), DIFFERENT)
def test_what_changes_something_makes_another_candidate(path: str, one: str, other: str) -> None:
    assert files_digest({path: one}) != files_digest({path: other})


@pytest.mark.parametrize("text", ["", "\0", "def f(:", "(" * 300, "\\", '"""', "#", "/*", "'"])
@pytest.mark.parametrize("path", ["a.py", "a.sh", "a.c", "a"])
def test_every_text_has_a_normal_form(path: str, text: str) -> None:
    assert normal_form(path, text) == normal_form(path, text)
