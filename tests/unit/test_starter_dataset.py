"""What the starter dataset promises, read off its folders. What its tests do is shown by the oracle tests."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

STARTER = Path(__file__).parents[2] / "configs" / "tasks" / "starter"
TASKS = sorted(path for path in STARTER.iterdir() if (path / "task.toml").is_file())
KINDS = {"python": 24, "regex": 5, "data": 6, "shell": 6, "c": 5}
"""Category → the fewest tasks of it."""
SHARED = ("child.py", "conftest.py", "test.sh")


def test_there_are_at_least_48_tasks_of_every_kind_and_exactly_eight_mixed_ones_are_the_demo():
    told = [tomllib.loads((task / "task.toml").read_text())["metadata"] for task in TASKS]
    counts = Counter(one["category"] for one in told)
    assert len(TASKS) >= 48 and set(counts) == set(KINDS)
    assert all(counts[kind] >= least for kind, least in KINDS.items()), counts
    demo = [one for one in told if "demo" in one["tags"]]
    assert len(demo) == 8 and {one["difficulty"] for one in demo} <= {"easy", "medium"}
    assert len({one["category"] for one in demo}) >= 4


@pytest.mark.parametrize("task", TASKS, ids=lambda path: path.name)
def test_each_task_has_six_hidden_tests_that_run_the_submission_only_in_child_processes_and_one_source_of_helpers(task):
    """One a function, or one a parameter where the parameters are a literal."""
    text = (task / "tests" / "test_outputs.py").read_text()
    body = ast.parse(text).body
    lists = {node.targets[0].id: node.value for node in body if isinstance(node, ast.Assign)
             and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.List)}  # fmt: skip
    count = 0
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            given = [mark.args[1] for mark in node.decorator_list if isinstance(mark, ast.Call)]
            listed = [lists[one.id] if isinstance(one, ast.Name) else one for one in given]
            count += len(listed[0].elts) if listed else 1
    assert count >= 6
    imported = {name for node in ast.walk(ast.parse(text))
                for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
                             if isinstance(node, ast.ImportFrom) else [])}  # fmt: skip
    assert "child" in imported and imported <= {"child", "csv", "io", "json", "pytest", "re"}
    assert not re.search(r"\b(?:exec|eval|__import__)\s*\(", text)
    assert {path.name for path in (STARTER / "shared-tests").iterdir()} - {"__pycache__"} == set(SHARED)
    for name in SHARED:
        assert str((task / "tests" / name).readlink()) == f"../../shared-tests/{name}"
    for path in (task / "tests").glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 9))
