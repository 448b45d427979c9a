"""Answers that are the same candidate are told by their normal form."""

import pytest

from hc_ray.search.answers import files_digest, normal_form


@pytest.mark.parametrize(("same", "path", "one", "other"), [
    (True, "m.py", "def f():\n  return 1 # one\n", "def f():\n\n    return 1"),
    (True, "m.py", 'def f():\n    """Docs."""\n    return 1\n', "def f():\n    return 1\n"),
    (True, "m.py", 'def f():\n    """Docs."""\n', "def f():\n    pass\n"), (True, "m.txt", "a \n", "a"),
    (False, "m.py", "x = 1", "x = 2"), (False, "m.py", "x = (", "y = ("),
    (False, "m.py", "def f(a):\n    return a\n", "def f(b):\n    return b\n"),
    (False, "m.py", "def f():\n    a = 1\n    b = 2\n    return a\n", "def f():\n    a = 1\n    b = 2\n    return b\n"),
    (False, "s.sh", "#!/bin/sh\necho hi\n", "#!/bin/bash\necho hi\n"),
])  # fmt: skip
def test_what_changes_nothing_makes_no_other_candidate_and_what_changes_something_does(same, path, one, other):
    assert (files_digest({path: one}) == files_digest({path: other})) is same


@pytest.mark.parametrize("text", ["", "\0", "def f(:", "(" * 300, "\\", '"""', "#", "/*", "'"])
@pytest.mark.parametrize("path", ["a.py", "a.sh", "a.c", "a"])
def test_every_text_has_a_normal_form(path, text):
    assert normal_form(path, text) == normal_form(path, text)
