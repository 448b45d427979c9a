"""In which style a model best writes tests: single lines or whole files, asked and read as for a suite. Each test runs
on a right result and on a wrong one."""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from hc_ray.agent import environment_probe
from hc_ray.agent.asking_forms import FormFigure, Judged, SuiteItem, answers, done, figure, workplace
from hc_ray.agent.deliverable import deliverable_of
from hc_ray.domain.config import TestgenConfig
from hc_ray.domain.ports import Model, SandboxPlace
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Completion, Malformed, Prompt
from hc_ray.domain.suite import Cell, SelfTest
from hc_ray.domain.task import Task
from hc_ray.selftests import file_tester, tester
from hc_ray.selftests.suite_runs import SuiteRuns
from hc_ray.selftests.target import targets_of
from hc_ray.spec.spec import Spec

Style = Literal["lines", "files"]
STYLES: tuple[Style, ...] = get_args(Style)
_Question = tuple[Prompt, Callable[[Completion], Sequence[SelfTest]]]


async def measure_tests(
    model: Model,
    items: Sequence[SuiteItem],
    *,
    place: SandboxPlace,
    profile: Profile,
    config: TestgenConfig,
    room: int,
    samples: int,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[FormFigure, ...]:
    """Ask for tests of every item in both styles, and run them. ``room``: tokens of an answer at most. Raises
    ``EngineError`` and ``SandboxError``."""
    judged: dict[Style, list[Judged]] = {style: [] for style in STYLES}
    for item in items:
        async with workplace(place, item) as (task, spec, forks):
            asked: dict[tuple[Style, int], _Question] = {}
            for seed in range(samples):
                asked["files", seed] = _file(item, spec, task, config, room, seed)
                if (line := _line(spec, profile, config, seed)) is not None:
                    asked["lines", seed] = line
                else:
                    judged["lines"].append(Judged(item.name, Completion(text="")))
            told = await answers(model, {key: prompt for key, (prompt, _) in asked.items()})
            for (style, seed), answer in told.items():
                found = asked[style, seed][1](answer)
                tests = [test.model_copy(update={"id": f"t{i}"}) for i, test in enumerate(found)]
                states = {"right": item.right, "wrong": item.wrong}
                cells = await SuiteRuns(forks).try_all(f"{style}{seed}", states, tests)
                right = sum(map(_tells, tests, cells["right"], cells["wrong"]))
                judged[style].append(Judged(item.name, answer, len(tests), right))
        tell(done(item, judged))
    return tuple(figure("tests", style, judged[style]) for style in STYLES)


def _tells(test: SelfTest, right: Cell, wrong: Cell) -> bool:
    """Whether a test passes on the right result and tells the wrong one from it; of an input alone it is the answer
    that does."""
    apart = wrong.outcome != "pass" or (test.expectation.kind == "unknown" and wrong.observed != right.observed)
    return right.outcome == "pass" and apart


def _line(spec: Spec, profile: Profile, config: TestgenConfig, seed: int) -> _Question | None:
    """None where this style asks nothing: no file that takes an input is known beforehand."""
    deliverable = deliverable_of(spec)
    target = next((one for one in targets_of(deliverable) if one.kind != "file"), None)
    wanted = [one for one in tester.ASKED if tester.applies(one, spec, targets_of(deliverable)) is None]
    if target is None or not wanted:
        return None
    category = wanted[seed % len(wanted)]
    prompt = tester.ask(
        spec, target, category, profile=profile, count=config.tests_per_category_max, seed=seed,
        temperature=tester.temperature(config.temperature, seed),
        workspace=environment_probe.shown(spec.snapshot, deliverable.inputs),
    )  # fmt: skip

    def read(answer: Completion) -> Sequence[SelfTest]:
        found = tester.read(answer, prompt, spec, target, category)
        return () if isinstance(found, Malformed) else found

    return prompt, read


def _file(item: SuiteItem, spec: Spec, task: Task, config: TestgenConfig, room: int, seed: int) -> _Question:
    held = [f"{path}:\n{text}" for path, text in item.files.items()]
    prompt = file_tester.ask(
        spec, environment_probe.describe(spec, task), "\n\n".join(["Its files, long ones cut:", *held]) if held else "",
        known=(), reflection="", max_tokens=min(config.answer_tokens, room), temperature=config.temperature, seed=seed,
    )  # fmt: skip

    def read(answer: Completion) -> Sequence[SelfTest]:
        found = file_tester.read(answer, spec)
        return () if isinstance(found, Malformed) else [one for one in found.tests if file_tester.fault_of(one) is None]

    return prompt, read
