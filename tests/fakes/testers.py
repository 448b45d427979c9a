"""A tester that a test writes down, and the suite that it comes to."""

from collections.abc import Callable
from dataclasses import replace

from hc_ray.agent.environment_probe import Looks
from hc_ray.agent.role import RoleModel
from hc_ray.domain.config import SolverConfig, TestgenConfig
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Prompt
from hc_ray.domain.suite import Suite
from hc_ray.domain.task import Environment, Task
from hc_ray.engines.scripted import ScriptedModel
from hc_ray.selftests.suite_writer import write_suite
from tests.fakes.folder_place import FolderPlace
from tests.fakes.listeners import Watcher

INSTRUCTION = "Write `m.py` that defines `f(n: int) -> int`. It returns twice n. For example, `f(4)` returns `8`."
GUESSES = "3) == 7\nassert f(0) == 0\nassert f(-2) == -4\n"
"""The first is wrong."""


def a_tester(answer: Callable[[Prompt], str], *, label: str = "m") -> RoleModel:
    profile = Profile(form="completion", test_form="completion")
    return RoleModel(model=ScriptedModel(answer), profile=profile, digest=label, label=label)


async def suite_of(*testers: RoleModel, instruction: str = INSTRUCTION, files: dict[str, str] | None = None,
                   **knobs: object) -> Suite:  # fmt: skip
    environment = Environment(files=tuple(f"/app/{path}" for path in files or {}))
    task = Task(name="t", digest="0" * 64, instruction=instruction, environment=environment)
    config = SolverConfig(testgen=TestgenConfig.model_validate({"budget_tokens": 4000, **knobs}))
    place = FolderPlace(files, quick=True)
    suite, _ = await write_suite(task, config=config, seed=0, tester=replace(testers[0], others=testers[1:]),
                                 place=place, looks=Looks(place), events=Watcher())  # fmt: skip
    return suite
