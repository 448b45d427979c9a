"""Mutants of a reference solution: which faults are planted, and that each is one real change."""

import ast
import io
import tarfile

import pytest

from hc_ray.blind.auditing.mutants import OPERATORS, mutants, mutated, with_file
from tests.fakes.tars import make_tar, member

SOURCE = '''"""Adds, within limits."""
import os


def add(a: int, b: int = 2) -> int:
    """Return the sum."""
    total = 0
    if a < 3 and not b:
        total += a * 2
    for value in [v for v in (a, b) if v > 1]:
        total = total + value
    print(total)
    return total
'''


def sources(operator=None, source=SOURCE, limit=500):
    return [one.source for one in mutants(source, limit=limit) if operator in (None, one.operator)]


def test_all_five_operators_are_applied_in_turn_and_the_seed_decides_the_choice():
    made = mutants(SOURCE, limit=10)
    assert [one.operator for one in made[:5]] == list(OPERATORS) and len(made) == 10
    assert mutants(SOURCE, limit=5, seed="a") == mutants(SOURCE, limit=5, seed="a")
    assert mutants(SOURCE, limit=5, seed="a") != mutants(SOURCE, limit=5, seed="b")


def test_every_mutant_parses_changes_one_place_and_leaves_docstrings_and_annotations_alone():
    made, plain = sources(), ast.unparse(ast.parse(SOURCE)) + "\n"
    assert len(made) == len(set(made)) > 15 and plain not in made
    for source in made:
        ast.parse(source)
        before, after = plain.splitlines(), source.splitlines()
        changed = [(a, b) for a, b in zip(before, after, strict=False) if a != b]
        assert len(after) == len(before) and len(changed) == 1, changed
        assert '"""Return the sum."""' in source and "-> int:" in source and "a: int" in source


@pytest.mark.parametrize(("operator", "line"), [
    ("comparison", "    if a <= 3 and (not b):"), ("comparison", "    for value in [v for v in (a, b) if v >= 1]:"),
    ("arithmetic", "        total -= a * 2"), ("arithmetic", "        total += a + 2"),
    ("constant", "    if a < 4 and (not b):"), ("constant", "    if a < 2 and (not b):"),
    ("condition", "    if a < 3 or not b:"), ("condition", "    if a < 3 and b:"),
    ("condition", "    if not (a < 3 and (not b)):"),
    ("condition", "    for value in [v for v in (a, b) if not v > 1]:"), ("statement", "    return None"),
    ("statement", "    pass"),
])  # fmt: skip
def test_an_operator_does_what_its_name_says(operator, line):
    assert any(line in source.splitlines() for source in sources(operator)), sources(operator)


@pytest.mark.parametrize("source", ["", "def (", "\0", "import os", "'only a docstring'"])
def test_a_text_without_a_place_for_a_fault_has_no_mutants(source):
    assert mutants(source, limit=5) == ()


def _tar(files):
    return make_tar({}, *(member(name, mode=mode, data=data) for name, (data, mode) in files.items()))


def _files(tar):
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return {one.name: (archive.extractfile(one).read(), one.mode) for one in archive}


def test_an_end_state_is_mutated_one_python_file_at_a_time_and_one_without_python_is_not_measured():
    state = {
        "app/add.py": (SOURCE.encode(), 0o644), "app/tool": (b"#!/usr/bin/env python3\nprint(1 + 1)\n", 0o755),
        "app/data.csv": (b"1,2\n", 0o644), "usr/lib/python3/site-packages/x.py": (b"y = 1 + 1\n", 0o644),
    }  # fmt: skip
    made = mutated(_tar(state), limit=12, seed="s")
    assert made is not None and len(made) == 12 and {path for path, _ in made} == {"app/add.py", "app/tool"}
    for path, text in made:
        after = _files(with_file(_tar(state), path, text))
        assert {name for name in state if after[name] != state[name]} == {path} and after[path][1] == state[path][1]
        assert path != "app/tool" or after[path][0].startswith(b"#!/usr/bin/env python3\n")
    assert mutated(_tar({"app/sum.sh": (b"#!/bin/sh\necho 1\n", 0o755)}), limit=5, seed="s") is None
