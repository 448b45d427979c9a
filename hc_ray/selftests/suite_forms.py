"""In which style a model best writes tests: single lines or whole files, asked and read as for a suite. Each test runs
on a right result and on a wrong one."""

from collections.abc import Callable, Sequence
from functools import partial

from hc_ray.agent import environment_probe
from hc_ray.agent.asking_forms import Question, Situation
from hc_ray.agent.deliverable import deliverable_of
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.config import TestgenConfig
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Completion, Malformed
from hc_ray.domain.suite import Cell, SelfTest
from hc_ray.domain.task import Task
from hc_ray.selftests import file_tester, tester
from hc_ray.selftests.suite_runs import SuiteRuns
from hc_ray.selftests.target import targets_of
from hc_ray.spec.spec import Spec

_Read = Callable[[Completion], Sequence[SelfTest]]


def suite_questions(
    profile: Profile, config: TestgenConfig, room: int, samples: int
) -> Callable[[Situation, Task, Spec, SandboxForks], Sequence[Question]]:
    """So many of each style. ``room``: tokens of an answer at most."""

    def questions(item: Situation, task: Task, spec: Spec, forks: SandboxForks) -> list[Question]:
        async def judge(read: _Read, name: str, answer: Completion) -> tuple[int, int]:
            tests = [test.model_copy(update={"id": f"t{i}"}) for i, test in enumerate(read(answer))]
            right = await SuiteRuns(forks).try_out(f"{name}-right", item.right, tests)
            wrong = await SuiteRuns(forks).try_out(f"{name}-wrong", item.wrong, tests)
            return len(tests), sum(map(_tells, tests, right, wrong))

        def file(seed: int) -> Question:
            held = [f"{path}:\n{text}" for path, text in item.files.items()]
            heads = "\n\n".join(["Its files, long ones cut:", *held] if held else ())
            prompt = file_tester.ask(
                spec, environment_probe.describe(spec, task), heads, known=(), reflection="", seed=seed,
                max_tokens=min(config.answer_tokens, room), temperature=config.temperature,
            )  # fmt: skip
            return Question("files", prompt, partial(judge, partial(_in_file, spec), f"files{seed}"))

        def line(seed: int) -> Question:
            deliverable = deliverable_of(spec)
            targets = [one for one in targets_of(deliverable) if one.kind != "file"]
            wanted = [one for one in tester.ASKED if tester.applies(one, spec, targets) is None]
            if not wanted:  # no file that takes an input is known beforehand
                return Question("lines", None, partial(judge, lambda answer: (), ""))
            target, category = targets[0], wanted[seed % len(wanted)]
            prompt = tester.ask(
                spec, target, category, profile=profile, count=config.tests_per_category_max, seed=seed,
                temperature=tester.temperature(config.temperature, seed),
                workspace=environment_probe.shown(spec.snapshot, deliverable.inputs),
            )  # fmt: skip

            def read(answer: Completion) -> Sequence[SelfTest]:
                found = tester.read(answer, prompt, spec, target, category)
                return () if isinstance(found, Malformed) else found

            return Question("lines", prompt, partial(judge, read, f"lines{seed}"))

        return [ask(seed) for seed in range(samples) for ask in (line, file)]

    return questions


def _in_file(spec: Spec, answer: Completion) -> Sequence[SelfTest]:
    found = file_tester.read(answer, spec)
    return () if isinstance(found, Malformed) else [one for one in found.tests if file_tester.fault_of(one) is None]


def _tells(test: SelfTest, right: Cell, wrong: Cell) -> bool:
    """Whether a test passes on the right result and tells the wrong one from it; of an input alone it is the answer
    that does."""
    apart = wrong.outcome != "pass" or (test.expectation.kind == "unknown" and wrong.observed != right.observed)
    return right.outcome == "pass" and apart
