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

TASKS = 12
CONFIG: dict[str, Any] = {
    "engine": {"kind": "scripted", "script": "tests.fakes.warms_up:answer"},
    "solver": {"temperatures": [0.4, 0.45, 0.5], "max_rounds": 1, "replace": False, "selector": "max_pass",
               "testgen": {"rounds": 1, "budget_tokens": 600}},
    "climb": {"generations": 3, "looks": [1], "confirm": [1, 2], "tokens": 2_000_000},
}  # fmt: skip
"""Three of its four candidates are 0.4 to 0.5 warm; one guardrail up about nine trials of ten hold a right one."""


def answer(prompt: Prompt) -> str:
    """Right with a chance that grows with the temperature: 0.05 at 0.4, a half at 0.52, nearly always from 0.65 on."""
    if prompt.role != "solver":
        return "assert add(1, 2) == 3\nassert add(0, 0) == 0\nassert add(-4, 1) == -3\n"
    chance = 1 / (1 + math.exp(25 * (0.52 - prompt.temperature)))
    right = random.Random(f"{prompt.seed} {prompt.temperature}").random() < chance
    body = f"\n    return a {'+' if right else '-'} b\n"
    return body if prompt.text is not None else f"```python\ndef add(a, b):{body}```\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for number in range(TASKS):
        make_task(folder / "tasks", f"add{number:02}", instruction=f"{INSTRUCTION}It is the task number {number}.\n")
    (folder / "climb.yaml").write_text(yaml.safe_dump(CONFIG | {"dataset": str((folder / "tasks").absolute())}))
