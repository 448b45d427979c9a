"""What the starter dataset promises, read off its folders. What its tests do is shown by the oracle tests."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from hc_ray.tasks.dockerfile import parse_dockerfile

STARTER = Path(__file__).parents[2] / "configs" / "tasks" / "starter"
TASKS = sorted(path for path in STARTER.iterdir() if (path / "task.toml").is_file())
IMAGES = {"python:3.11-slim-bookworm", "gcc:12-bookworm"}
KINDS = {"python": 24, "regex": 5, "data": 6, "shell": 6, "c": 5}
"""Category → the fewest tasks of it."""
SHARED = ("child.py", "conftest.py", "test.sh")
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda path: path.name)


def settings(task: Path) -> dict:
    return tomllib.loads((task / "task.toml").read_text(encoding="utf-8"))


def hidden_tests(task: Path) -> str:
    return (task / "tests" / "test_outputs.py").read_text(encoding="utf-8")


def hidden_cases(task: Path) -> int:
    """How many tests pytest collects: one a function, or one a parameter where the parameters are a literal."""
    tree = ast.parse(hidden_tests(task))
    lists = {node.targets[0].id: len(node.value.elts) for node in tree.body if isinstance(node, ast.Assign)
             and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.List)}  # fmt: skip
    count = 0
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            sizes = [lists[mark.args[1].id] if isinstance(mark.args[1], ast.Name) else len(mark.args[1].elts)
                     for mark in node.decorator_list if isinstance(mark, ast.Call)]  # fmt: skip
            count += sizes[0] if sizes else 1
    return count


def test_there_are_at_least_48_tasks_of_every_kind_and_exactly_eight_mixed_ones_are_the_demo():
    assert len(TASKS) >= 48
    counts = Counter(settings(task)["metadata"]["category"] for task in TASKS)
    assert set(counts) == set(KINDS)
    assert all(counts[kind] >= least for kind, least in KINDS.items()), counts
    demo = [settings(task)["metadata"] for task in TASKS if "demo" in settings(task)["metadata"]["tags"]]
    assert len(demo) == 8 and all(metadata["difficulty"] in {"easy", "medium"} for metadata in demo)
    assert len({metadata["category"] for metadata in demo}) >= 4


@every_task
def test_task_toml_says_name_metadata_limits_and_nothing_of_network(task: Path) -> None:
    says = settings(task)
    assert says["schema_version"] == "1.1" and says["task"]["name"] == f"hc-ray/{task.name}"
    assert says["metadata"]["difficulty"] in {"easy", "medium", "hard"} and says["metadata"]["tags"]
    assert says["verifier"]["timeout_sec"] > 0 and says["agent"]["timeout_sec"] > 0
    assert says["environment"] == {"cpus": 1, "memory_mb": 1024}


@every_task
def test_the_image_is_a_known_base_that_only_copies_files(task: Path) -> None:
    folder = task / "environment"
    files = {path.name for path in folder.iterdir()} - {"Dockerfile"}
    parsed = parse_dockerfile((folder / "Dockerfile").read_text(encoding="utf-8"), files=files)
    assert parsed.unsupported is None and parsed.base in IMAGES
    assert (parsed.base == "gcc:12-bookworm") == (settings(task)["metadata"]["category"] == "c")
    assert parsed.workdir == "/app" and not parsed.run_steps
    assert {source for copy in parsed.copies for source in copy.sources} == files


@every_task
def test_the_instruction_names_the_file_that_the_solution_writes(task: Path) -> None:
    instruction = (task / "instruction.md").read_text(encoding="utf-8")
    asked = re.search(r"`([\w.]+)`", instruction[re.search(r"\bWrite an? ", instruction).start() :]).group(1)
    solution = (task / "solution" / "solve.sh").read_text(encoding="utf-8")
    assert asked in solution and not (task / "environment" / asked).exists()


@every_task
def test_the_hidden_tests_are_thorough_and_go_beyond_the_examples(task: Path) -> None:
    assert hidden_cases(task) >= 6
    if settings(task)["metadata"]["category"] in {"python", "regex", "c"}:
        instruction = (task / "instruction.md").read_text(encoding="utf-8")
        examples = len(re.findall(r"For example|returns `|prints `|matches", instruction))
        assert hidden_cases(task) > examples


@every_task
def test_the_hidden_tests_run_the_submission_only_in_child_processes(task: Path) -> None:
    imported = {name for node in ast.walk(ast.parse(hidden_tests(task)))
                for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
                             if isinstance(node, ast.ImportFrom) else [])}  # fmt: skip
    assert "child" in imported and imported <= {"child", "csv", "io", "json", "pytest", "re"}
    assert not re.search(r"\b(?:exec|eval|__import__)\s*\(", hidden_tests(task))


@every_task
def test_helper_and_test_script_have_one_source_for_all_tasks(task: Path) -> None:
    assert {path.name for path in (STARTER / "shared-tests").iterdir()} - {"__pycache__"} == set(SHARED)
    for name in SHARED:
        assert str((task / "tests" / name).readlink()) == f"../../shared-tests/{name}"


def test_the_helper_and_the_tests_parse_as_python_3_9_and_the_test_script_writes_the_reward():
    for task in TASKS:
        for path in (task / "tests").glob("*.py"):
            ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    text = (TASKS[0] / "tests" / "test.sh").read_text(encoding="utf-8")
    assert "/logs/verifier/reward.txt" in text
    assert "python3 -m pytest /tests/test_outputs.py -q -rA -p no:cacheprovider" in text
    assert text.index("cd /tests") < text.index("python3 -m pytest")
