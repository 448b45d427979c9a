"""``hc-ray tasks new``: a small sound task to start one's own from. It passes ``tasks check``; its reference passes its
tests and the untouched environment does not."""

import re
from collections.abc import Mapping
from pathlib import Path

from hc_ray.domain.errors import DatasetError

_FILES = {
    "task.toml": """schema_version = "1.1"

[metadata]
tags = []

[environment]
cpus = 1
memory_mb = 512
network_mode = "no-network"

[agent]
timeout_sec = 300.0

[verifier]
timeout_sec = 60.0
""",
    "instruction.md": """Write the file `/app/count_words.py` with a function `count_words(text)`.

It returns how many words the string `text` holds. Words are separated by white space; an empty string holds none.

Example: `count_words("one two")` returns `2`.
""",
    "environment/Dockerfile": "FROM python:3.11-slim-bookworm\nWORKDIR /app\n",
    "tests/test.sh": """#!/bin/bash
# Runs the tests and leaves 1 or 0 in reward.txt. The exit code of this script is ignored.
if python3 -m pytest -q -p no:cacheprovider /tests/test_outputs.py; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
""",
    "tests/test_outputs.py": '''"""Hidden tests. Code under test runs in a child: here it could forge the verdict."""

import json
import subprocess
import sys


def count_words(text):
    code = "import json, sys, count_words as m; print(json.dumps(m.count_words(json.load(sys.stdin))))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=json.dumps(text), cwd="/app", capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_counts_words():
    assert count_words("a b c") == 3


def test_counts_one_word():
    assert count_words("word") == 1


def test_an_empty_text_holds_no_word():
    assert count_words("") == 0


def test_blank_text_holds_no_word():
    assert count_words("  \\n\\t ") == 0


def test_runs_of_white_space_separate_once():
    assert count_words("  one   two\\nthree\\t four ") == 4


def test_punctuation_is_part_of_a_word():
    assert count_words("well, it's done.") == 3
''',
    "solution/solve.sh": """#!/bin/bash
cat > /app/count_words.py <<'PYTHON'
def count_words(text):
    return len(text.split())
PYTHON
""",
}


def new_task(folder: Path, name: str) -> Path:
    """Write a new task ``folder/name`` and return its path. Raises ``DatasetError`` for a name that is none, and when
    something is there already."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise DatasetError(
            f"{name!r} is not a valid task name: use letters, digits, '-', '_' and '.', starting with a letter or digit"
        )
    task = folder / name
    if task.exists():
        raise DatasetError(f"{task} already exists: choose another name")
    write_files(task, _FILES)
    return task


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files by their paths in a folder; shell scripts can be run. Raises ``DatasetError``."""
    try:
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            target.chmod(0o755 if path.endswith(".sh") else 0o644)
    except OSError as error:
        raise DatasetError(f"{folder} cannot be written: {error.strerror}") from None
