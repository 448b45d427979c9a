"""Builds task folders in Harbor's format for tests."""

from pathlib import Path
from typing import Any

from hc_ray.blind.sealing import vault
from hc_ray.domain.task import Task

TOML = """schema_version = "1.1"

[metadata]
tags = ["made"]

[environment]
cpus = 1
memory_mb = 512

[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 60.0
"""
DOCKERFILE = "FROM python:3.11-slim-bookworm\nWORKDIR /app\n"
INSTRUCTION = "Write the file `add.py` with a function `add(a, b)` that returns the sum of its two numbers.\n"
TEST_SH = """#!/bin/bash
cd /app
if python3 -m pytest -q -p no:cacheprovider /tests/test_outputs.py; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
"""
TEST_PY = """import subprocess
import sys


def call(expression):
    code = "from add import add; print(repr(%s))" % expression
    done = subprocess.run([sys.executable, "-c", code], cwd="/app", capture_output=True, text=True, timeout=20)
    return done.stdout.strip()


def test_adds():
    assert call("add(2, 3)") == "5"


def test_adds_negative_numbers():
    assert call("add(-2, -3)") == "-5"
"""
SOLVE_SH = "#!/bin/bash\nprintf 'def add(a, b):\\n    return a + b\\n' > /app/add.py\n"


def make_task(
    folder: Path, name: str = "add", *, instruction: str = INSTRUCTION, toml: str = TOML,
    dockerfile: str | None = DOCKERFILE, environment: dict[str, str] | None = None,
    tests: dict[str, str] | None = None, solution: dict[str, str] | None = None,
) -> Path:  # fmt: skip
    """Write the task ``folder/name`` and return its path. Unnamed parts make a sound small task: a Python function."""
    task = folder / name
    files = {"task.toml": toml, "instruction.md": instruction}
    if dockerfile is not None:
        files["environment/Dockerfile"] = dockerfile
    files |= {f"environment/{path}": text for path, text in (environment or {}).items()}
    sealed = {"tests": tests, "solution": solution}
    defaults = {"tests": {"test.sh": TEST_SH, "test_outputs.py": TEST_PY}, "solution": {"solve.sh": SOLVE_SH}}
    for part, given in sealed.items():
        files |= {f"{part}/{path}": text for path, text in (defaults[part] if given is None else given).items()}
    for path, text in files.items():
        target = task / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        if path.endswith(".sh"):
            target.chmod(0o755)
    return task


def make_tasks(folder: Path, count: int, **parts: Any) -> Path:
    """Tasks ``add0``, ``add1`` …, each with an example of its own, so that their public digests differ; the folder."""
    for number in range(count):
        example = f"\nExample: `add({number}, 1)` returns `{number + 1}`.\n"
        make_task(folder, f"add{number}", instruction=INSTRUCTION + example, **parts)
    return folder


def sealed_task(ground: Path, **parts: Any) -> Task:
    """``make_task``, sealed: its halves lie in ``public`` and ``sealed`` of the folder."""
    make_task(ground / "set", **parts)
    sealed = vault.seal(ground / "set", ground / "public", ground / "sealed")
    assert not sealed.refused, sealed.refused
    return sealed.tasks[0]
