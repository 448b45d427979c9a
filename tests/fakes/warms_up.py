"""A scripted model whose success depends on a knob: warm answers are right, cool ones seldom, all wrong ones the same.
A climb from ``CONFIG`` over tasks of ``tests.fakes.tasks`` finds that out. It measures no model. To look at it:

    PYTHONPATH=$PWD python -m tests.fakes.warms_up FOLDER
    PYTHONPATH=$PWD hc-ray climb FOLDER/climb.yaml -o FOLDER/out
"""

import math
import random
import sys
from pathlib import Path
from typing import Any

import yaml

from hc_ray.domain.prompt import Prompt
from tests.fakes.tasks import INSTRUCTION, make_task

TASKS = 8
EXAMPLE = "For example, `add(2, 3)` returns `5`.\n"
"""The self-test that tells right from wrong."""
CONFIG: dict[str, Any] = {
    "engine": {"kind": "scripted", "script": "tests.fakes.warms_up:answer"},
    "solver": {"temperatures": [0.4, 0.45, 0.5], "greedy": 1, "max_rounds": 1, "replace": False,
               "testgen": {"rounds": 1, "budget_tokens": 600}},
    "climb": {"generations": 2, "looks": [1], "confirm": [1, 2], "tokens": 2_000_000},
}  # fmt: skip
"""Three of its four candidates are warm: 16 of 100 trials have a right one, and 77 one guardrail further up."""


def answer(prompt: Prompt) -> str:
    """Right with a chance that grows with the temperature: 0.01 at 0.4, a half at 0.58, nearly always from 0.7 on."""
    if prompt.role != "solver":
        return "assert add(1, 2) == 3\nassert add(0, 0) == 0\nassert add(-4, 1) == -3\n"
    chance = 1 / (1 + math.exp(25 * (0.58 - prompt.temperature)))
    right = random.Random(f"{prompt.seed} {prompt.temperature}").random() < chance
    body = f"\n    return a {'+' if right else '-'} b\n"
    return body if prompt.text is not None else f"```python\ndef add(a, b):{body}```\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for number in range(TASKS):
        make_task(folder / "tasks", f"add{number:02}", instruction=f"{INSTRUCTION}{EXAMPLE}It is task {number}.\n")
    (folder / "climb.yaml").write_text(yaml.safe_dump(CONFIG | {"dataset": str((folder / "tasks").absolute())}))
