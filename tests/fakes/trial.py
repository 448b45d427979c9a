"""One trial's surroundings, all fakes but the commands that run."""

import io
import tarfile
from collections.abc import Callable

from hc_ray.agent.role import RoleModel
from hc_ray.domain.candidate import Submission
from hc_ray.domain.config import BudgetConfig, SolverConfig
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Prompt
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.waiting import Once
from hc_ray.engines.scripted import ScriptedModel
from hc_ray.search.orchestrate import solve
from tests.fakes.folder_place import FolderPlace
from tests.fakes.listeners import Watcher

INSTRUCTION = """Write `/app/double.py` with a function `double(n: int) -> int`.
It must return twice the given number. For example, `double(4)` returns `8`.
It must raise a ValueError if `n` is negative.
"""
TASK = Task(name="secret-name", digest="ab" * 32, instruction=INSTRUCTION, environment=Environment(),
            tags=("secret-tag",))  # fmt: skip
RIGHT = "    if n < 0:\n        raise ValueError(n)\n    return n * 2\n"
WRONG = "    return n + 5\n"
BROKEN = "    return n *\n"
PROFILE = Profile(form="completion", test_form="completion", bias_to_agreement=False)
TESTS = "3) == 6\nassert double(0) == 0\nassert double(7) == 15\nassert double(1) == 2\n"


def body_of(prompt: Prompt, body: str) -> str:
    return body if prompt.context.endswith("\n") or not body else "\n" + body


def scripted(*bodies: str) -> Callable[[Prompt], str]:
    """Answers solver prompts with the bodies in turn, by the prompt's seed and purpose; testers with fixed tests."""
    order: dict[int, int] = {}

    def answer(prompt: Prompt) -> str:
        if prompt.role == "tester":
            return TESTS
        return body_of(prompt, bodies[order.setdefault(prompt.seed, len(order)) % len(bodies)])

    return answer


class Bench:
    """A trial that can be solved; what was asked, told and handed in stays."""

    def __init__(self, answer, *, task=TASK, profile=PROFILE, files=None, verdicts=(True,)):
        self.prompts: list[Prompt] = []
        self.place, self.log, self.shelf = FolderPlace(files, quick=True), Watcher(), Once()
        self.submissions: list[Submission] = []
        self.verdicts, self.task = verdicts, task

        def recorded(prompt: Prompt) -> str:
            self.prompts.append(prompt)
            return answer(prompt)

        self.role = RoleModel(model=ScriptedModel(recorded), profile=profile, digest="m")

    async def judge(self, submission: Submission) -> bool:
        self.submissions.append(submission)
        return self.verdicts[min(len(self.submissions), len(self.verdicts)) - 1]

    async def solve(self, agent, config=None, tokens=6000, budget=None, seed=0, **more):
        return await solve(
            self.task, agent=agent, config=config or SolverConfig(max_answer_tokens=60), seed=seed,
            budget=budget or BudgetConfig(tokens=tokens), roles={"solver": self.role, "tester": self.role},
            place=self.place, name=f"{self.task.name}__12345678", suites=self.shelf, judge=self.judge,
            events=self.log, **more,
        )  # fmt: skip

    def submitted(self, number: int = -1) -> str:
        with tarfile.open(fileobj=io.BytesIO(self.submissions[number].tar)) as archive:
            return archive.extractfile("app/double.py").read().decode()
