from pathlib import Path
from typing import Literal

import pytest

from hc_ray.agent.actions import read_actions
from hc_ray.domain.prompt import Completion, Malformed, Message, Prompt
from hc_ray.domain.task import Environment
from hc_ray.machine.paths import configs_dir
from hc_ray.selftests import file_tester
from hc_ray.spec.reading import read_spec
from tests.fakes import plays_mistakes
from tests.fakes.plays_mistakes import RIGHT, WRONG

DATASET = configs_dir() / "tasks" / "terminal"
TASKS = sorted(path.parent for path in DATASET.glob("*/task.toml"))


@pytest.fixture(autouse=True)
def dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HC_PLAYED_DATASET", str(DATASET))


def asked(role: Literal["solver", "tester"], purpose: str, *said: str, seed: int = 0) -> Prompt:
    messages = [Message(role="system", content="s")]
    messages += [Message(role="user" if i % 2 == 0 else "assistant", content=text) for i, text in enumerate(said)]
    return Prompt(role=role, purpose=purpose, messages=tuple(messages), max_tokens=9, temperature=0.5, seed=seed)


def solution(folder_text: str, *said: str, seed: int = 0) -> str:
    text = plays_mistakes.good(asked("solver", "turn", folder_text, *said, seed=seed))
    assert not isinstance(read_actions(text), Malformed)
    return text.split("I play solution ")[1].split(".")[0] if "I play" in text else "submit"


@pytest.mark.parametrize("folder", TASKS, ids=lambda folder: folder.name)
def test_every_task_has_mistakes_to_play_and_tests_that_can_be_read(folder: Path) -> None:
    instruction = (folder / "instruction.md").read_text().strip("\n")
    assert {solution(instruction, seed=seed) for seed in range(60)} == {RIGHT, *WRONG}
    told = plays_mistakes.poor(asked("tester", "tests", f"The task:\n\n{instruction}"))
    spec = read_spec(instruction, Environment(dockerfile="FROM x\n", base="x"))
    written = file_tester.read(Completion(text=told), spec)
    assert not isinstance(written, Malformed) and len(written.tests) == plays_mistakes.TESTS
    assert all(file_tester.quoted_in(test.reasoning, instruction) for test in written.tests)
    reading = plays_mistakes.good(asked("tester", "reading", f"{instruction}\n{file_tester.sources(written.tests)}"))
    assert set(file_tester.read_readings(Completion(text=reading))) == {one.id for one in written.tests}
