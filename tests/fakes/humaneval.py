"""A file of problems as HumanEval has them."""

import gzip
import json
from pathlib import Path
from typing import Any


def problem(number: int, entry: str, body: str, checks: str, before: str = "", example: str = "") -> dict[str, Any]:
    return {"task_id": f"Own/{number}", "prompt": f'{before}def {entry}(n):\n    """What it does.\n{example}    """\n',
            "entry_point": entry, "canonical_solution": f"    {body}\n",
            "test": f"def check(candidate):\n    {checks}\n"}  # fmt: skip


PROBLEMS = [
    problem(0, "twice", "return 2 * n", "assert candidate(5) == 10 == twice(5)", example="    >>> twice(2)\n    4\n"),
    problem(
        1, "pair", "return (add(n), None)", "assert candidate({1: [2]}[1]) == (add([2]), None)",
        before="def add(n):\n    return [*n, 1]\n\n\n", example="    ```\n",
    ),
    problem(12, "raises", "return 1 / 0", "assert candidate(1)"),
]  # fmt: skip


def data(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "data.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    return path
