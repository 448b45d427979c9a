"""``scripts/bench loop_tokens``: tokens that the loop takes for the same work as mini-swe-agent. Trajectories that
mini-swe-agent wrote (``*.traj.json``, text form or native calls) are played through ``raw`` on the same tasks, in
sandboxes: the same thoughts and commands, one answer for one, then the two submissions. Counted are the texts of all
messages with the embedded model's tokenizer and a fixed number for the chat template; ``prompts``: what a server bills
that caches nothing; ``new``: of a prompt what goes beyond the one before.

    mini -c mini_textbased.yaml --model-class litellm_textbased --environment-class docker -c environment.image=IMAGE \\
        -c environment.cwd=/app -t "$(cat TASK/instruction.md)" -y --exit-immediately -o recorded/TASK.traj.json
    scripts/bench loop_tokens --recorded recorded -p DATASET --sandbox docker

The declaration of a native tool is not in a trajectory, so it is not counted. mini-swe-agent itself is not needed."""

import argparse
import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from hc_ray.domain.config import EngineConfig, SweepConfig
from hc_ray.domain.prompt import Prompt
from hc_ray.engines.http import HttpModel
from hc_ray.engines.profiles import settled, shipped
from hc_ray_actors.cluster import InProcess
from hc_ray_actors.driver import sweep
from hc_ray_actors.driver.plan import prepare
from hc_ray_actors.engine import Engine
from tests.bench.sandbox import Quiet

_END = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_BLOCK = re.compile(r"```mswea_bash_command\s*\n.*?\n```", re.S)
_PER_MESSAGE, _PER_PROMPT = 4, 3
"""Tokens that a chat template adds, for both sides alike."""
_COUNTS = ("prompts", "new", "answers", "turns")

Message = dict[str, Any]
Exchange = tuple[list[str], str]
"""The texts of a prompt's messages, and the answer."""
RECORDED: dict[str, list[Message]] = {}
"""Name → messages of a trajectory."""
PLAYED: dict[str, list[Exchange]] = {}


def answer(prompt: Prompt) -> str:
    """The scripted engine: what was recorded of the task, turn by turn."""
    texts = [message.content for message in prompt.messages]
    name = recorded_of(texts[1].rpartition("\n\n---\n")[0])
    assert name is not None
    ours = script(RECORDED[name])
    text = ours[min(len(texts) // 2 - 1, len(ours) - 1)]
    PLAYED.setdefault(name, []).append((texts, text))
    return text


def recorded_of(instruction: str) -> str | None:
    return next((name for name, messages in RECORDED.items() if instruction.strip() in messages[1]["content"]), None)


def script(messages: list[Message]) -> list[str]:
    """Recorded answers as ours, one for one; the end is submitted twice."""
    answers: list[str] = []
    last = ""
    for message in messages:
        commands = [one["command"] for one in message.get("extra", {}).get("actions", [])]
        if message["role"] != "assistant" or not commands:
            continue
        thought = _BLOCK.sub("", message["content"] or "").strip()
        if any(_END in one for one in commands):
            last = thought
            break
        longest = max((len(one) for one in re.findall("`{3,}", "".join(commands))), default=2)
        fence = "`" * (longest + 1)
        answers.append("\n\n".join([*filter(None, [thought]), *(f"{fence}sh\n{one}\n{fence}" for one in commands)]))
    return [*answers, *["\n\n".join([*filter(None, [last]), "```submit\n```"])] * 2]


def exchanges(messages: list[Message]) -> list[Exchange]:
    """What mini-swe-agent asked and was answered."""
    texts = [whole(message) for message in messages]
    return [(texts[:i], texts[i]) for i, message in enumerate(messages) if message["role"] == "assistant"]


def whole(message: Message) -> str:
    calls = [one["function"] for one in message.get("tool_calls") or ()]
    return "".join([message.get("content") or "", *(f"\n{one['name']} {one['arguments']}" for one in calls)])


def play(path: str, sandbox: str, out: str) -> None:
    """Play every recorded task of the dataset through ``raw``, with the settings of the profile ``capable``."""
    engine = EngineConfig(kind="scripted", script="tests.bench.loop_tokens:answer", context_tokens=131_072)
    settings = {"dataset": path, "agents": ("raw",), "engine": engine, "sandbox": sandbox, "out": out}
    config = settled(SweepConfig.model_validate({**settings, "mlflow_uri": "none"}), shipped("capable"))
    found = tuple(task.name for task in prepare(config).taken if recorded_of(task.instruction))
    if not found:
        raise SystemExit("no trajectory's task is in the dataset: the instruction must stand in it word by word")
    sweep.run(prepare(config.model_copy(update={"include": found})), events=Quiet(), cluster=InProcess())


async def counted(sides: dict[str, tuple[list[Exchange], ...]]) -> dict[str, list[dict[str, int]]]:
    """Task → ours and theirs, in tokens."""
    engine = Engine(EngineConfig(parallel=1))
    endpoint = await engine.start()
    model, known = HttpModel(endpoint.base_urls[0], endpoint.model), dict[str, int]()
    try:
        for text in {text for pair in sides.values() for one in pair for texts, said in one for text in (*texts, said)}:
            known[text] = await model.count_tokens(text) if text else 0
    finally:
        await model.aclose()
        await engine.stop()
    return {task: [_sums(one, known) for one in pair] for task, pair in sides.items()}


def _sums(side: list[Exchange], known: dict[str, int]) -> dict[str, int]:
    sizes = [sum(known[text] + _PER_MESSAGE for text in texts) + _PER_PROMPT for texts, _ in side]
    texts = [one for one, _ in side]
    pairs = zip([0, *sizes], sizes, [[], *texts], texts, strict=False)
    new = [size - before * (later[: len(former)] == former) for before, size, former, later in pairs]
    return dict(zip(_COUNTS, (sum(sizes), sum(new), sum(known[said] for _, said in side), len(side)), strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench loop_tokens", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--recorded", required=True, metavar="DIR", help="trajectories that mini-swe-agent wrote")
    parser.add_argument("-p", "--path", required=True, help="the dataset")
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    from tests.bench import loop_tokens as here  # the module that the engine's script loads, not ``__main__``

    for file in sorted(Path(given.recorded).glob("*.traj.json")):
        here.RECORDED[file.name.removesuffix(".traj.json")] = json.loads(file.read_text())["messages"]
    with tempfile.TemporaryDirectory() as folder:
        here.play(given.path, given.sandbox, f"{folder}/sweep")
    found = asyncio.run(counted({name: (here.PLAYED[name], exchanges(here.RECORDED[name])) for name in here.PLAYED}))
    if given.json:
        print(json.dumps(found))
        return 0
    sums = [{name: sum(pair[side][name] for pair in found.values()) for name in _COUNTS} for side in (0, 1)]
    for task, (ours, theirs) in [*sorted(found.items()), ("all", tuple(sums))]:
        bill = (ours["prompts"] + ours["answers"]) / (theirs["prompts"] + theirs["answers"])
        counts = ", ".join(f"{name} {ours[name]:,} to {theirs[name]:,}" for name in _COUNTS)
        print(f"{task:32} {bill:.2f} (prompts and answers), {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
