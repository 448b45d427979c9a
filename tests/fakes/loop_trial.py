"""Trials of the style ``loop`` in a real sandbox, with a model that a test writes down."""

import asyncio
import io
import json
import re
import tarfile
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pytest

from hc_ray.agent.actions import read_actions
from hc_ray.agent.budget import Clock
from hc_ray.agent.environment_probe import Looks
from hc_ray.agent.role import RoleModel
from hc_ray.domain.candidate import Candidate, Submission
from hc_ray.domain.config import BudgetConfig, SolverConfig
from hc_ray.domain.events import Action
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Completion, Malformed, Prompt, ToolCall
from hc_ray.domain.suite import Suite
from hc_ray.domain.task import Copy, Environment, Task
from hc_ray.domain.waiting import Once
from hc_ray.engines.scripted import ScriptedModel, count_pieces
from hc_ray.search.orchestrate import solve
from hc_ray.search.trial_outcome import TrialOutcome
from tests.fakes.listeners import Watcher
from tests.fakes.sandbox_home import laid_out, opened
from tests.fakes.suites import call_test
from tests.fakes.tasks import DOCKERFILE

INSTRUCTION = "Write `/app/add.py` with `def add(a: int, b: int) -> int` that adds two numbers."
IMAGE = f"{DOCKERFILE}COPY given.txt .\n"
TASK = Task(
    name="t", digest="cd" * 32, instruction=INSTRUCTION,
    environment=Environment(dockerfile=IMAGE, base="python:3.11-slim-bookworm",
                            copies=(Copy(sources=("given.txt",), destination="/app/"),)),
)  # fmt: skip
TESTS = tuple(call_test(f"t{n}", f"add({n}, 3)", str(n + 3), path="add.py", confidence=0.9) for n in (2, 5))
RIGHT, WRONG = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a - b\n"
SUBMIT, WAIT = "```submit\n```", "wait"
CLOCKS: list[Clock] = []
"""The wall times of trials, for the test of what happens when one is over."""


def sh(command: str) -> str:
    return f"I run.\n```sh\n{command}\n```"


def write(text: str, path: str = "add.py") -> str:
    return f"I write.\n```write {path}\n{text}```"


def cut(text: str) -> Completion:
    return Completion(text=text, finish_reason="length")


Script = Callable[[Prompt, int, int], str | Completion]
"""By prompt, number of its turn, and number of its lineage."""


def says(*answers: str | Completion, then: str = SUBMIT) -> Script:
    """Every lineage answers so in turn."""
    return lambda prompt, turn, lineage: answers[turn] if turn < len(answers) else then


def each(*texts: str) -> Script:
    """The lineages write these and submit."""
    return lambda prompt, turn, lineage: write(texts[lineage]) if turn == 0 else SUBMIT


SUMMARY = json.dumps({"approach": "a", "done": "b", "verified": "c", "doubts": "d"})


def besides(script: Script, **answers: str) -> Script:
    """The same, and an answer to each prompt of another purpose."""
    return lambda prompt, turn, lineage: answers.get(prompt.purpose) or script(prompt, turn, lineage)


class Talker(ScriptedModel):
    """Keeps to ``max_tokens``, calls tools natively where it is given any; where so many of its answers wait
    (``WAIT``, ``WAIT 3``) the trial's time is over."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seeds: list[int] = []
        self.waiting = 0

    async def complete(self, prompt: Prompt) -> Completion:
        turn = sum(message.role == "assistant" for message in prompt.messages)
        begun = prompt.seed - turn if prompt.purpose == "turn" else 0
        if prompt.purpose == "turn" and turn == 0:
            self.seeds.append(begun)
        said = self.script(prompt, turn, self.seeds.index(begun) if begun in self.seeds else 0)
        if isinstance(said, str) and said.startswith(WAIT):
            self.waiting += 1
            if self.waiting >= int(said.removeprefix(WAIT) or 1):
                CLOCKS[-1].seconds = 0.0
            await asyncio.Event().wait()
        answer = Completion(text=said, finish_reason="stop") if isinstance(said, str) else said
        if count_pieces(answer.text) > prompt.max_tokens:
            answer = cut(" ".join(re.findall(r"\w+|[^\w\s]", answer.text)[: prompt.max_tokens]))
        actions = read_actions(answer.text) if prompt.tools and answer.finish_reason == "stop" else ()
        if not isinstance(actions, Malformed) and actions:
            names = {"sh": ("command",), "write": ("path", "content"), "edit": ("path", "replacements"), "submit": ()}
            told = [{name: one.argument if name == "path" else one.body for name in names[one.name]} for one in actions]
            calls = [ToolCall(id=f"{turn}.{i}", name=one.name, arguments=json.dumps(given))
                     for i, (one, given) in enumerate(zip(actions, told, strict=True))]  # fmt: skip
            answer = answer.model_copy(update={"text": "", "tool_calls": tuple(calls)})
        size = count_pieces("\n".join(message.content for message in prompt.messages))
        told_size = count_pieces(answer.text + "".join(one.arguments for one in answer.tool_calls))
        return answer.model_copy(update={"prompt_tokens": size, "completion_tokens": told_size})


class Ran(NamedTuple):
    outcome: TrialOutcome
    journal: list[Action]
    handed: dict[str, bytes]
    turns: list[int]
    """As they were told to a display."""

    def told(self, name: str) -> list[dict[str, Any]]:
        return [event.detail for event in self.journal if event.name == name]

    @property
    def asked(self) -> list[Prompt]:
        return [one.prompt for one in self.outcome.exchanges]

    @property
    def first(self) -> Candidate:
        return self.outcome.candidates[0]

    def said(self, number: int) -> str:
        """What the model was told last before its ``number``-th answer."""
        return self.asked[number].messages[-1].content


@cache
def looks_of(place):
    """All trials share the look at the one task's environment, as those of a sweep do."""
    return Looks(place)


async def trial(
    place, script, agent="raw", *, task=TASK, tokens=200_000, context=32_000, tests=(), verdicts=(True,), **knobs
):
    log = Watcher()
    handed: list[Submission] = []

    async def judge(submission: Submission) -> bool:
        handed.append(submission)
        return verdicts[len(handed) - 1]

    usual = {"agent_style": "loop", "max_answer_tokens": 2000, "samples": 3, "samples_max": 3, "max_rounds": 2,
             "plans": ("plain",), "greedy": 1}  # fmt: skip
    role = RoleModel(Talker(script), Profile(context_tokens=context), "digest")
    outcome = await solve(task, agent=agent, config=SolverConfig(**{**usual, **knobs}), seed=3, events=log,
                          budget=BudgetConfig(tokens=tokens), roles={"solver": role}, place=place, name="trial",
                          suites=Once(stored=lambda key: Suite(key=key, task_digest=TASK.digest, tests=tuple(tests))),
                          judge=judge, looks=looks_of(place))  # fmt: skip
    with tarfile.open(fileobj=io.BytesIO(handed[0].tar)) as tar:
        files = {one.name: file.read() for one in tar if one.isreg() and (file := tar.extractfile(one))}
    return Ran(outcome, log.of("action"), files, [event.turn for event in log.of("turn_start")])


@pytest.fixture(scope="module")
def place():
    with laid_out(TASK, {"given.txt": "given\n"}) as root, opened("bwrap", root) as one:
        yield one
