"""The tasks of the terminal dataset by name, which of them bubblewrap cannot take, and a scripted model that plays
their reference solutions (or those of ``HC_PLAYED_DATASET``) as a loop of actions. It reads the solutions, which the
product never does."""

import os
from pathlib import Path

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.prompt import Prompt
from hc_ray.machine.paths import configs_dir

DATASET = configs_dir() / "tasks" / "terminal"
NAMES = sorted(path.parent.name for path in DATASET.glob("*/task.toml"))
PLAYED = {"agents": ("raw",), "engine": EngineConfig(kind="scripted", script="tests.fakes.terminal_tasks:answer",
                                                     context_tokens=65_536),
          "solver": {"agent_style": "loop", "max_answer_tokens": 4000}, "budget": {"tokens": 200_000}}  # fmt: skip
"""Settings of a sweep in which it plays."""


def builds_an_image(name: str) -> bool:
    """Whether a task's Dockerfile runs commands: bubblewrap builds no images."""
    return "\nRUN " in (DATASET / name / "environment" / "Dockerfile").read_text()


def answer(prompt: Prompt) -> str:
    if prompt.role != "solver":
        return "no tests"
    turn = sum(message.role == "assistant" for message in prompt.messages)
    if turn == 0:
        return "First I look around.\n\n```sh\npwd; ls -la\n```"
    if turn == 1:
        fence = "`" * 8
        return f"{fence}write /tmp/solve.sh\n{_reference(prompt.messages[1].content)}{fence}"
    return "```sh timeout=600\nbash /tmp/solve.sh\n```" if turn == 2 else "```submit\n```"


def _reference(asked: str) -> str:
    for folder in sorted(Path(os.environ.get("HC_PLAYED_DATASET", DATASET)).iterdir()):
        instruction = folder / "instruction.md"
        if instruction.is_file() and asked.startswith(instruction.read_text().strip("\n")):
            return (folder / "solution" / "solve.sh").read_text()
    return "echo 'no such task'; exit 1\n"
